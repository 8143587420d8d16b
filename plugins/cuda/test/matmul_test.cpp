// MATMUL, MATMUL_BY_ID and GET_ROWS of every type, kernel family and token count against float64.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "harness.h"

namespace minfer_cuda::test {
namespace {

constexpr uint32_t kTypes[] = {
    MINFER_TYPE_F32,  MINFER_TYPE_F16,    MINFER_TYPE_BF16,   MINFER_TYPE_Q4_0,
    MINFER_TYPE_Q4_1, MINFER_TYPE_Q5_0,   MINFER_TYPE_Q5_1,   MINFER_TYPE_Q8_0,
    MINFER_TYPE_Q2_K, MINFER_TYPE_Q3_K,   MINFER_TYPE_Q4_K,   MINFER_TYPE_Q5_K,
    MINFER_TYPE_Q6_K, MINFER_TYPE_IQ4_NL, MINFER_TYPE_IQ4_XS, MINFER_TYPE_MXFP4};

bool is_super_block(uint32_t type) {
  return (type >= MINFER_TYPE_Q2_K && type <= MINFER_TYPE_Q6_K) || type == MINFER_TYPE_IQ4_XS;
}

double tolerance(const std::string& kernel) {
  if (kernel.find("int8") != std::string::npos) return 2e-2;
  if (kernel.find("f16 act") != std::string::npos) return 1e-3;
  return 1e-5;
}

struct Case {
  int64_t id, od, tokens, valid;
  GateOverrides gates;
};

/// Gates that bring a family to the front where its type and the device allow it.
const GateOverrides kDefault{}, kNoSm90a{{Gate::kNoHopper, 1}},
    kF32{{Gate::kNoKqMmvq, 1}, {Gate::kNoPrefillGemm, 1}},
    kSmall{{Gate::kNoHopper, 1}, {Gate::kSmallMGemm, 1}},
    kHalf{{Gate::kNoHopper, 1}, {Gate::kMmq, 0}},
    kInt8{{Gate::kNoHopper, 1}, {Gate::kGemmMinTokens, 1 << 20}},
    kSplit{{Gate::kNoHopper, 1}, {Gate::kMmqSplits, 3}, {Gate::kGemmMinTokens, 1 << 20}},
    kHopperInt8{{Gate::kHopperDecodeMaxTokens, 16}}, kHopperRows{{Gate::kHopperRowTokens, 4}};

/// out = W x + bias with `valid` tokens in use; the rest must be zero. Returns what ran.
std::string check_matmul(uint32_t type, const Case& c) {
  Split s;
  s.capacity.tokens = static_cast<uint32_t>(c.tokens);
  s.args.n_tokens = static_cast<uint32_t>(c.valid);
  const std::vector<uint8_t> rows = random_rows(type, c.id, c.od);
  const std::vector<float> w = dequantize(type, rows, c.id * c.od);
  std::vector<float> x = random_floats(static_cast<size_t>(c.id * c.tokens));
  const std::vector<float> bias = random_floats(static_cast<size_t>(c.od));
  const uint32_t wt = s.weight(type, {c.id, c.od}, rows, MINFER_USE_MATMUL);
  const uint32_t bt = s.plain(bias);
  const uint32_t xt = s.dynamic(1, MINFER_DYN_TOKENS).floats({c.id, c.tokens}, x);
  const uint32_t out = s.dynamic(1, MINFER_DYN_TOKENS).activation({c.od, c.tokens}, true);
  s.node(MINFER_OP_MATMUL, {wt, xt, bt}, out);
  s.materialise();
  s.compute(c.gates);
  if (::testing::Test::HasFatalFailure()) return {};
  std::vector<double> expected(static_cast<size_t>(c.od * c.tokens), 0.0);
  for (int64_t t = 0; t < c.valid; ++t) {
    for (int64_t o = 0; o < c.od; ++o) {
      double sum = bias[static_cast<size_t>(o)];
      const float* row = &w[static_cast<size_t>(o * c.id)];
      const float* column = &x[static_cast<size_t>(t * c.id)];
      for (int64_t i = 0; i < c.id; ++i) sum += double{row[i]} * column[i];
      expected[static_cast<size_t>(t * c.od + o)] = sum;
    }
  }
  const std::vector<float> got = s.read(out);
  const std::string kernel = s.kernel(0);
  EXPECT_LT(relative_error(got, expected), tolerance(kernel))
      << kernel << " id " << c.id << " od " << c.od << " tokens " << c.valid << "/" << c.tokens;
  for (size_t i = static_cast<size_t>(c.valid * c.od); i < got.size(); ++i) {
    EXPECT_EQ(got[i], 0.f) << kernel << ": padding token " << i / static_cast<size_t>(c.od);
    if (got[i] != 0.f) break;
  }
  return kernel;
}

class MatmulTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(MatmulTest, EveryTokenCountAndFamily) {
  MINFER_REQUIRE_GPU();
  const uint32_t type = GetParam();
  const bool super = is_super_block(type);
  const int64_t ids[] = {super ? 256 : 96, super ? 1536 : 1120};
  for (int64_t id : ids) {
    // Rows of 203 floats are not aligned to 16 bytes, which sm_90a kernels refuse.
    for (int64_t od : {64, 203, 300}) {
      for (int64_t tokens : {1, 2, 3, 5, 8}) {
        check_matmul(type, {id, od, tokens, tokens, kDefault});
        check_matmul(type, {id, od, tokens, tokens, kNoSm90a});
        check_matmul(type, {id, od, tokens, tokens, kHopperInt8});
        check_matmul(type, {id, od, tokens, tokens, kHopperRows});
      }
      check_matmul(type, {id, od, 8, 6, kDefault});
      check_matmul(type, {id, od, 8, 6, kNoSm90a});
      check_matmul(type, {id, od, 9, 9, kHopperInt8});
      check_matmul(type, {id, od, 16, 13, kHopperInt8});
      check_matmul(type, {id, od, 3, 2, kF32});
      check_matmul(type, {id, od, 4, 4, kSmall});
      check_matmul(type, {id, od, 17, 17, kF32});
      for (int64_t tokens : {9, 40, 129}) {
        check_matmul(type, {id, od, tokens, tokens - 1, kDefault});
        check_matmul(type, {id, od, tokens, tokens, kInt8});
        check_matmul(type, {id, od, tokens, tokens, kHalf});
      }
      check_matmul(type, {id, od, 33, 33, kSplit});
      check_matmul(type, {id, od, 1, 0, kDefault});
    }
  }
}

// For the sanitizer, under which every access costs: each family once, on little.
TEST_P(MatmulTest, OneSmallShapePerFamily) {
  MINFER_REQUIRE_GPU();
  const uint32_t type = GetParam();
  const int64_t id = 256, od = 68;
  std::string ran;
  for (const Case& c : {Case{id, od, 1, 1, kDefault},
                        {id, od, 4, 3, kDefault},
                        {id, od, 33, 32, kDefault},
                        {id, od, 3, 3, kHopperInt8},
                        {id, od, 2, 1, kHopperRows},
                        {id, od, 4, 3, kHopperRows},
                        {id, od, 1, 1, kNoSm90a},
                        {id, od, 3, 3, kNoSm90a},
                        {id, od, 17, 16, kF32},
                        {id, od, 17, 16, kInt8},
                        {id, od, 17, 16, kSplit},
                        {id, od, 17, 16, kHalf}}) {
    ran += check_matmul(type, c) + "\n";
  }
  if (type != MINFER_TYPE_Q4_K && type != MINFER_TYPE_Q6_K && type != MINFER_TYPE_Q8_0) return;
  std::vector<std::string> families{"mmvq", "mmq", "k in 3", "gemm_f16", "matmul"};
#ifdef MINFER_CUDA_SM90A
  if (Gpu::instance()->compute_capability() == 90) {
    families.insert(families.end(), {"hopper_gemv", "hopper_gemm"});
  }
#endif
  for (const std::string& family : families) {
    EXPECT_NE(ran.find(family), std::string::npos) << family << " did not run; what ran:\n" << ran;
  }
}

// The wgmma kernel computes whole token tiles of the valid ones and a narrower tile, and cuts tiles
// along k; this covers each width, rows that fill no tile, and shapes that are cut.
TEST_P(MatmulTest, WgmmaTilesFollowTheValidCount) {
  MINFER_REQUIRE_GPU();
  if (Gpu::instance()->compute_capability() != 90) GTEST_SKIP() << "not a Hopper GPU";
  const uint32_t type = GetParam();
  std::string ran;
  for (int64_t valid : {1, 60, 100, 150, 190, 220, 250, 257, 300}) {
    ran = check_matmul(type, {512, 200, 300, valid, kDefault});
  }
  for (int64_t tokens : {16, 30, 64, 128}) {
    check_matmul(type, {2560, 72, tokens, tokens - 1, kDefault});
  }
#ifdef MINFER_CUDA_SM90A
  constexpr uint32_t kWgmma[] = {MINFER_TYPE_Q4_K, MINFER_TYPE_Q5_K, MINFER_TYPE_Q6_K,
                                 MINFER_TYPE_Q8_0, MINFER_TYPE_Q4_0, MINFER_TYPE_Q5_0};
  if (std::find(std::begin(kWgmma), std::end(kWgmma), type) == std::end(kWgmma)) return;
  EXPECT_NE(ran.find("hopper_gemm"), std::string::npos) << ran;
#endif
}

TEST_P(MatmulTest, GatherIsExact) {
  MINFER_REQUIRE_GPU();
  const uint32_t type = GetParam();
  const int64_t id = is_super_block(type) ? 512 : 160, rows_total = 77, m = 5;
  Split s;
  s.capacity.tokens = 5;
  s.args.n_tokens = 4;
  const std::vector<uint8_t> rows = random_rows(type, id, rows_total);
  const std::vector<float> w = dequantize(type, rows, id * rows_total);
  const std::vector<int32_t> pick{76, 0, 31, 32, 0};
  const uint32_t wt = s.weight(type, {id, rows_total}, rows, MINFER_USE_GATHER);
  const uint32_t it = s.dynamic(0, MINFER_DYN_TOKENS).ints({m}, pick);
  const uint32_t out = s.dynamic(1, MINFER_DYN_TOKENS).activation({id, m}, true);
  s.node(MINFER_OP_GET_ROWS, {wt, it}, out);
  s.materialise();
  s.compute();
  const std::vector<float> got = s.read(out);
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t i = 0; i < id; ++i) {
      const float want =
          r < 4 ? w[static_cast<size_t>(pick[static_cast<size_t>(r)] * id + i)] : 0.f;
      ASSERT_NEAR(got[static_cast<size_t>(r * id + i)], want, 1e-6f * (1.f + std::fabs(want)))
          << "row " << r << " element " << i;
    }
  }
}

TEST_P(MatmulTest, ExpertsPickTheirMatrices) {
  MINFER_REQUIRE_GPU();
  const uint32_t type = GetParam();
  const int64_t id = 256, od = 50, experts = 4, k = 2, tokens = 3;
  Split s;
  s.capacity.tokens = 3;
  s.args.n_tokens = 3;
  const std::vector<uint8_t> rows = random_rows(type, id, od * experts);
  const std::vector<float> w = dequantize(type, rows, id * od * experts);
  const std::vector<float> x = random_floats(static_cast<size_t>(id * tokens));
  const std::vector<int32_t> ids{3, 0, 1, 1, 2, 3};
  const uint32_t wt = s.weight(type, {id, od, experts}, rows, MINFER_USE_MATMUL);
  const uint32_t xt = s.floats({id, 1, tokens}, x);
  const uint32_t it = s.ints({k, tokens}, ids);
  const uint32_t out = s.activation({od, k, tokens}, true);
  s.node(MINFER_OP_MATMUL_BY_ID, {wt, xt, it}, out);
  s.materialise();
  s.compute();
  std::vector<double> expected;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < k; ++j) {
      const int64_t e = ids[static_cast<size_t>(t * k + j)];
      for (int64_t o = 0; o < od; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < id; ++i) {
          sum += double{w[static_cast<size_t>((e * od + o) * id + i)]} *
                 x[static_cast<size_t>(t * id + i)];
        }
        expected.push_back(sum);
      }
    }
  }
  EXPECT_LT(relative_error(s.read(out), expected), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulTest, ::testing::ValuesIn(kTypes),
                         [](const ::testing::TestParamInfo<uint32_t>& p) {
                           return "type" + std::to_string(p.param);
                         });

}  // namespace
}  // namespace minfer_cuda::test
