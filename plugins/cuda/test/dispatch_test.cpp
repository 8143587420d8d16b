// Decisions of the matmul table for simulated devices; needs no GPU.
#include "../host/dispatch.h"

#include "harness.h"

namespace minfer_cuda::test {
namespace {

Caps device(int cc, uint64_t shared) {
  Caps caps;
  caps.cc = cc;
  caps.sms = 100;
  caps.shared_bytes = shared;
  return caps;
}

MatmulKernel kernel(const Caps& caps, const Gates& gates, uint32_t type, int64_t tokens) {
  return choose_matmul(caps, gates, {type, 4096, 4096, tokens}).kernel;
}

TEST(DispatchTest, LadderByTokens) {
  const Caps ampere = device(86, 99 << 10);
  const Gates gates = gates_with({});
  EXPECT_EQ(kernel(ampere, gates, MINFER_TYPE_Q4_K, 1), MatmulKernel::kMmvq);
  EXPECT_EQ(kernel(ampere, gates, MINFER_TYPE_Q4_K, 8), MatmulKernel::kMmvq);
  EXPECT_EQ(kernel(ampere, gates, MINFER_TYPE_Q4_K, 9), MatmulKernel::kMmq);
  EXPECT_EQ(kernel(ampere, gates, MINFER_TYPE_IQ4_XS, 9), MatmulKernel::kGemmHalf);
  EXPECT_EQ(kernel(ampere, gates, MINFER_TYPE_F32, 9), MatmulKernel::kGeneric);
}

TEST(DispatchTest, OlderDevicesTakeTheLowerRungsAndSayWhy) {
  const Gates gates = gates_with({});
  EXPECT_EQ(kernel(device(75, 64 << 10), gates, MINFER_TYPE_Q4_K, 64), MatmulKernel::kGemmHalf);
  EXPECT_EQ(kernel(device(70, 96 << 10), gates, MINFER_TYPE_Q4_K, 64), MatmulKernel::kGeneric);
  const MatmulChoice choice =
      choose_matmul(device(75, 64 << 10), gates, {MINFER_TYPE_Q4_K, 4096, 4096, 64});
  EXPECT_NE(choice.why.find("compute capability 8.0"), std::string::npos) << choice.why;
  const Caps small = device(86, 8 << 10);
  EXPECT_NE(kernel(small, gates, MINFER_TYPE_Q8_0, 64), MatmulKernel::kMmq);
}

TEST(DispatchTest, EachGateTakesItsKernelAway) {
  const Caps caps = device(89, 99 << 10);
  using G = Gate;
  EXPECT_EQ(kernel(caps, gates_with({{G::kNoKqMmvq, 1}}), MINFER_TYPE_Q4_K, 1),
            MatmulKernel::kGeneric);
  EXPECT_EQ(kernel(caps, gates_with({{G::kMmq, 0}}), MINFER_TYPE_Q4_K, 16),
            MatmulKernel::kGemmHalf);
  EXPECT_EQ(kernel(caps, gates_with({{G::kNoPrefillGemm, 1}}), MINFER_TYPE_Q4_K, 16),
            MatmulKernel::kGeneric);
  EXPECT_EQ(kernel(caps, gates_with({{G::kSmallMGemm, 1}}), MINFER_TYPE_Q4_K, 4),
            MatmulKernel::kMmq);
  EXPECT_EQ(kernel(caps, gates_with({{G::kReference, 1}}), MINFER_TYPE_Q4_K, 1),
            MatmulKernel::kGeneric);
  EXPECT_EQ(kernel(caps, gates_with({{G::kGemmMinTokens, 32}}), MINFER_TYPE_Q4_K, 32),
            MatmulKernel::kGemmHalf);
}

TEST(DispatchTest, TheTableCoversEveryTypeOnce) {
  const std::string table = describe_dispatch(device(89, 99 << 10), gates_with({}));
  for (const char* name : {"matmul_f32", "gemm_f16_f16", "mmvq_q4_k", "mmq_q4_k", "mmvq_mxfp4"}) {
    EXPECT_NE(table.find(name), std::string::npos) << name << " in\n" << table;
  }
}

#ifdef MINFER_CUDA_SM90A
TEST(DispatchTest, HopperTakesItsOwnKernels) {
  const Caps hopper = device(90, 227 << 10);
  const Gates gates = gates_with({});
  EXPECT_EQ(kernel(hopper, gates, MINFER_TYPE_Q4_K, 1), MatmulKernel::kHopperDecode);
  EXPECT_EQ(kernel(hopper, gates, MINFER_TYPE_Q6_K, 512), MatmulKernel::kHopperGemm);
  EXPECT_EQ(kernel(hopper, gates, MINFER_TYPE_IQ4_XS, 1), MatmulKernel::kMmvq);
  EXPECT_EQ(kernel(hopper, gates_with({{Gate::kNoHopper, 1}}), MINFER_TYPE_Q4_K, 1),
            MatmulKernel::kMmvq);
  EXPECT_EQ(kernel(device(100, 227 << 10), gates, MINFER_TYPE_Q4_K, 512), MatmulKernel::kGemmHalf);
  const MatmulQuery odd{MINFER_TYPE_Q4_K, 4096, 4096, 1, false};
  EXPECT_EQ(choose_matmul(hopper, gates, odd).kernel, MatmulKernel::kMmvq);
}
#endif

AttentionCall attention(int dim, int page_tokens) {
  AttentionCall shape;
  shape.kv.type = MINFER_TYPE_F16;
  shape.kv.n_head = 4;
  shape.kv.dim_k = shape.kv.dim_v = dim;
  shape.kv.page_tokens = page_tokens;
  shape.n_head = 28;
  shape.q_nb_head = shape.out_nb_head = dim * 4;
  shape.q_nb_token = shape.out_nb_token = dim * 4 * 28;
  return shape;
}

TEST(DispatchTest, PrefillAttentionByDeviceShapeAndGate) {
  const auto choose = [](const Caps& caps, const GateOverrides& gates, const AttentionCall& shape,
                         std::string& why) {
    why.clear();
    return choose_prefill_attention(caps, gates_with(gates), shape, why);
  };
  const Caps hopper = device(90, 227 << 10), ampere = device(86, 99 << 10);
  std::string why;
  EXPECT_EQ(choose(ampere, {}, attention(128, 64), why), PrefillAttention::kTiled);
  EXPECT_EQ(why, "");
  EXPECT_EQ(choose(device(75, 64 << 10), {}, attention(128, 64), why), PrefillAttention::kNone);
  EXPECT_NE(why.find("compute capability 8.0"), std::string::npos) << why;
  EXPECT_EQ(choose(hopper, {{Gate::kNoHopperAttention, 1}}, attention(128, 64), why),
            PrefillAttention::kTiled);
  EXPECT_NE(why.find("MINFER_NO_HOPPER_ATTENTION"), std::string::npos) << why;
  EXPECT_EQ(choose(hopper, {{Gate::kReference, 1}}, attention(128, 64), why),
            PrefillAttention::kNone);
#ifdef MINFER_CUDA_SM90A
  EXPECT_EQ(choose(hopper, {}, attention(128, 64), why), PrefillAttention::kHopper);
  EXPECT_EQ(why, "");
  EXPECT_EQ(choose(hopper, {}, attention(128, 4), why), PrefillAttention::kTiled);
  EXPECT_NE(why.find("pages of 4"), std::string::npos) << why;
#endif
}

}  // namespace
}  // namespace minfer_cuda::test
