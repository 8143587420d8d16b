// The plain operators against float64 (docs/operators.md).
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "harness.h"

namespace minfer_cuda::test {
namespace {

template <class P>
P sized() {
  P p{};
  p.struct_size = sizeof p;
  return p;
}

TEST(OperatorTest, AddAndMulRepeatTheSecondOperand) {
  MINFER_REQUIRE_GPU();
  const int64_t n = 300, rows = 7, heads = 3;
  for (const std::vector<int64_t>& ne :
       {std::vector<int64_t>{n, heads, rows}, {n, 1, rows}, {n, 1, 1}, {1, heads, 1}, {1, 1, 1}}) {
    for (uint32_t op : {MINFER_OP_ADD, MINFER_OP_MUL}) {
      Split s;
      const std::vector<float> a = random_floats(static_cast<size_t>(n * heads * rows));
      const std::vector<float> b = random_floats(static_cast<size_t>(ne[0] * ne[1] * ne[2]));
      const uint32_t at = s.floats({n, heads, rows}, a), bt = s.floats(ne, b);
      const uint32_t out = s.activation({n, heads, rows}, true);
      s.node(op, {at, bt}, out);
      s.materialise();
      s.compute();
      std::vector<double> expected;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t i = 0; i < n; ++i) {
            const auto at_b =
                static_cast<size_t>(((ne[2] == 1 ? 0 : r) * ne[1] + (ne[1] == 1 ? 0 : h)) * ne[0] +
                                    (ne[0] == 1 ? 0 : i));
            const double x = a[static_cast<size_t>((r * heads + h) * n + i)], y = b[at_b];
            expected.push_back(op == MINFER_OP_ADD ? x + y : x * y);
          }
        }
      }
      EXPECT_LT(relative_error(s.read(out), expected), 1e-6);
    }
  }
}

/// Runs one operator of one input of the same shape, also on a strided view of the input.
void check_unary(uint32_t op, const void* params, size_t size, double limit,
                 const std::function<double(double)>& f) {
  const int64_t n = 130, rows = 5;
  for (bool strided : {false, true}) {
    Split s;
    s.capacity.tokens = rows;
    s.args.n_tokens = rows - 1;
    const std::vector<float> x = random_floats(static_cast<size_t>(2 * n * rows), 3.f);
    uint32_t xt = s.floats({2 * n, rows}, x);
    if (strided)
      xt = s.dynamic(1, MINFER_DYN_TOKENS)
               .view(xt, {n, rows}, {4, 8 * n, 8 * n * rows, 8 * n * rows}, 4 * n);
    else
      xt = s.dynamic(1, MINFER_DYN_TOKENS)
               .view(xt, {n, rows}, {4, 8 * n, 8 * n * rows, 8 * n * rows}, 0);
    const uint32_t out = s.dynamic(1, MINFER_DYN_TOKENS).activation({n, rows}, true);
    s.node(op, {xt}, out, params, size);
    s.materialise();
    s.compute();
    std::vector<double> expected;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < n; ++i) {
        const double v = x[static_cast<size_t>(r * 2 * n + (strided ? n : 0) + i)];
        expected.push_back(r < rows - 1 ? f(v) : 0.0);
      }
    }
    EXPECT_LT(relative_error(s.read(out), expected), limit) << "operator " << op;
  }
}

TEST(OperatorTest, Elementwise) {
  MINFER_REQUIRE_GPU();
  auto scale = sized<minfer_scale_params>();
  scale.factor = 1.7f;
  scale.offset = -0.3f;
  check_unary(MINFER_OP_SCALE, &scale, sizeof scale, 1e-6,
              [](double x) { return x * 1.7f + -0.3f; });
  check_unary(MINFER_OP_SILU, nullptr, 0, 1e-5, [](double x) { return x / (1 + std::exp(-x)); });
  auto cap = sized<minfer_soft_cap_params>();
  cap.cap = 5.f;
  check_unary(MINFER_OP_SOFT_CAP, &cap, sizeof cap, 1e-5,
              [](double x) { return 5 * std::tanh(x / 5); });
  auto gelu = sized<minfer_gelu_params>();
  gelu.kind = MINFER_GELU_TANH;
  check_unary(MINFER_OP_GELU, &gelu, sizeof gelu, 1e-5, [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  });
  gelu.kind = MINFER_GELU_ERF;
  check_unary(MINFER_OP_GELU, &gelu, sizeof gelu, 1e-5,
              [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); });
  gelu.kind = MINFER_GELU_QUICK;
  check_unary(MINFER_OP_GELU, &gelu, sizeof gelu, 1e-5,
              [](double x) { return x / (1 + std::exp(-1.702 * x)); });
}

TEST(OperatorTest, RmsNormOfRowsAndHeads) {
  MINFER_REQUIRE_GPU();
  for (const std::vector<int64_t>& ne :
       {std::vector<int64_t>{896, 6, 1}, {33, 3, 1}, {128, 5, 4}, {64, 1, 3}}) {
    for (bool weighted : {true, false}) {
      Split s;
      const int64_t rows = ne[1] * ne[2];
      const std::vector<float> x = random_floats(static_cast<size_t>(ne[0] * rows), 2.f);
      const std::vector<float> w = random_floats(static_cast<size_t>(ne[0]));
      auto p = sized<minfer_norm_params>();
      p.eps = 1e-5f;
      p.weight_offset = 1.f;
      const uint32_t xt = s.floats(ne, x), wt = weighted ? s.plain(w) : MINFER_NONE;
      const uint32_t out = s.activation(ne, true);
      s.node(MINFER_OP_RMS_NORM, {xt, wt}, out, &p, sizeof p);
      s.materialise();
      s.compute();
      std::vector<double> expected;
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t i = 0; i < ne[0]; ++i) {
          const double v = x[static_cast<size_t>(r * ne[0] + i)];
          sum += v * v;
        }
        const double factor = 1 / std::sqrt(sum / static_cast<double>(ne[0]) + 1e-5f);
        for (int64_t i = 0; i < ne[0]; ++i) {
          const double scale = weighted ? w[static_cast<size_t>(i)] + 1.0 : 1.0;
          expected.push_back(x[static_cast<size_t>(r * ne[0] + i)] * factor * scale);
        }
      }
      EXPECT_LT(relative_error(s.read(out), expected), 1e-5);
    }
  }
}

double yarn_blend(const minfer_rope_params& p, uint32_t pair) {
  if (p.ext_factor == 0.f) return p.freq_scale;
  const auto dim = [&](double beta) {
    return p.n_rot * std::log(p.n_ctx_orig / (2 * M_PI * beta)) /
           (2 * std::log(double{p.freq_base}));
  };
  const double low = std::clamp(std::floor(dim(p.beta_fast)), 0.0, p.n_rot - 1.0);
  const double high = std::clamp(std::ceil(dim(p.beta_slow)), 0.0, p.n_rot - 1.0);
  const double ramp = std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
  const double mix = (1 - ramp) * p.ext_factor;
  return p.freq_scale * (1 - mix) + mix;
}

void check_rope(minfer_rope_params p, int64_t dim, bool with_factors, int64_t tokens = 4) {
  const int64_t heads = 3;
  Split s;
  s.capacity.tokens = static_cast<uint32_t>(tokens);
  s.args.n_tokens = static_cast<uint32_t>(tokens - 1);
  const std::vector<float> x = random_floats(static_cast<size_t>(dim * heads * tokens));
  std::vector<int32_t> pos;
  for (int64_t t = 0; t < tokens; ++t) pos.push_back(std::array{0, 17, 131071, 5}[t % 4]);
  std::vector<float> factors(p.n_rot / 2);
  for (float& f : factors) f = 1.f + static_cast<float>(rng()() % 1000) / 100.f;
  const uint32_t xt = s.dynamic(2, MINFER_DYN_TOKENS).floats({dim, heads, tokens}, x);
  const uint32_t pt = s.dynamic(0, MINFER_DYN_TOKENS).ints({tokens}, pos);
  std::vector<uint32_t> src{xt, pt};
  if (with_factors) src.push_back(s.plain(factors));
  const uint32_t out = s.dynamic(2, MINFER_DYN_TOKENS).activation({dim, heads, tokens}, true);
  s.node(MINFER_OP_ROPE, src, out, &p, sizeof p);
  s.materialise();
  s.compute();
  std::vector<double> expected(x.begin(), x.end());
  const double amplitude =
      p.ext_factor != 0.f ? p.attn_factor * (1 + 0.1 * std::log(1 / p.freq_scale)) : p.attn_factor;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      double* v = &expected[static_cast<size_t>((t * heads + h) * dim)];
      if (t == tokens - 1) std::fill_n(v, dim, 0.0);
      for (uint32_t i = 0; i < p.n_rot / 2; ++i) {
        double angle = pos[static_cast<size_t>(t)] *
                       std::pow(double{p.freq_base}, -2.0 * i / p.n_rot) * yarn_blend(p, i);
        if (with_factors) angle /= factors[i];
        const size_t a = p.mode == MINFER_ROPE_NEOX ? i : 2 * i;
        const size_t b = p.mode == MINFER_ROPE_NEOX ? i + p.n_rot / 2 : 2 * i + 1;
        const double c = std::cos(angle) * amplitude, n = std::sin(angle) * amplitude;
        const double va = v[a], vb = v[b];
        v[a] = va * c - vb * n;
        v[b] = va * n + vb * c;
      }
    }
  }
  EXPECT_LT(relative_error(s.read(out), expected), 1e-4);
}

TEST(OperatorTest, RopeModesScalingsAndFarPositions) {
  MINFER_REQUIRE_GPU();
  auto p = sized<minfer_rope_params>();
  p.n_rot = 128;
  p.n_ctx_orig = 4096;
  p.freq_base = 1e6f;
  p.freq_scale = 1.f;
  p.attn_factor = 1.f;
  p.beta_fast = 32.f;
  p.beta_slow = 1.f;
  for (uint32_t mode : {MINFER_ROPE_NEOX, MINFER_ROPE_INTERLEAVED}) {
    p.mode = mode;
    check_rope(p, 128, false);
    check_rope(p, 128, true);
    check_rope(p, 128, true, 300);
    minfer_rope_params q = p;
    q.n_rot = 64;
    q.freq_scale = 0.25f;
    check_rope(q, 96, false);
    q.ext_factor = 1.f;
    q.attn_factor = 0.9f;
    check_rope(q, 64, false);
    check_rope(q, 64, false, 300);
  }
}

TEST(OperatorTest, SoftmaxConcatTopKArgMax) {
  MINFER_REQUIRE_GPU();
  const int64_t n = 5000, rows = 3, k = 6;
  Split s;
  std::vector<float> x = random_floats(static_cast<size_t>(n * rows));
  x[10] = x[4000] = 50.f;           // equal values: the lower index first
  x[static_cast<size_t>(n)] = NAN;  // never chosen
  auto soft = sized<minfer_softmax_params>();
  soft.scale = 0.7f;
  auto top = sized<minfer_top_k_params>();
  top.k = static_cast<uint32_t>(k);
  auto cat = sized<minfer_concat_params>();
  cat.axis = 0;
  std::vector<float> y = random_floats(static_cast<size_t>(n * rows));
  const uint32_t xt = s.floats({n, rows}, x), yt = s.floats({n, rows}, y);
  const uint32_t sm = s.activation({n, rows}, true),
                 best = s.activation({rows}, true, MINFER_TYPE_I32);
  const uint32_t tk = s.activation({k, rows}, true, MINFER_TYPE_I32);
  const uint32_t cc = s.activation({2 * n, rows}, true);
  s.node(MINFER_OP_SOFTMAX, {yt}, sm, &soft, sizeof soft);
  s.node(MINFER_OP_ARG_MAX, {xt}, best);
  s.node(MINFER_OP_TOP_K, {xt}, tk, &top, sizeof top);
  s.node(MINFER_OP_CONCAT, {yt, yt}, cc, &cat, sizeof cat);
  s.materialise();
  s.compute();
  std::vector<double> soft_expected, cat_expected;
  const std::vector<int32_t> got_best = s.read_ints(best), got_top = s.read_ints(tk);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = &y[static_cast<size_t>(r * n)];
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(0.7f * row[i]);
    for (int64_t i = 0; i < n; ++i) soft_expected.push_back(std::exp(0.7f * row[i]) / sum);
    for (int i = 0; i < 2; ++i) cat_expected.insert(cat_expected.end(), row, row + n);
    std::vector<int32_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const float* xr = &x[static_cast<size_t>(r * n)];
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const float va = std::isnan(xr[a]) ? -INFINITY : xr[a];
      const float vb = std::isnan(xr[b]) ? -INFINITY : xr[b];
      return va > vb;
    });
    EXPECT_EQ(got_best[static_cast<size_t>(r)], order[0]);
    for (int64_t i = 0; i < k; ++i) {
      EXPECT_EQ(got_top[static_cast<size_t>(r * k + i)], order[static_cast<size_t>(i)]);
    }
  }
  EXPECT_LT(relative_error(s.read(sm), soft_expected), 1e-5);
  EXPECT_LT(relative_error(s.read(cc), cat_expected), 1e-7);
}

}  // namespace
}  // namespace minfer_cuda::test
