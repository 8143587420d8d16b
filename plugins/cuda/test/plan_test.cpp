// Whole layers: fused against unfused, replay against direct, re-binding, interleaved plans.
#include "layer.h"

namespace minfer_cuda::test {
namespace {

Layer layer_on_gpu(uint32_t type, uint32_t value_type, int64_t nt, int64_t valid, bool head_norms) {
  Layer l = make_layer(type, value_type, nt, valid, head_norms);
  l.split->materialise();
  return l;
}

constexpr uint32_t kPairs[][2] = {{MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K},
                                  {MINFER_TYPE_Q8_0, MINFER_TYPE_Q8_0},
                                  {MINFER_TYPE_F16, MINFER_TYPE_F16}};

/// The kernels of this device, and those of devices without sm_90a.
const GateOverrides kKernelSets[] = {{}, {{Gate::kNoHopper, 1}}, {{Gate::kHopperRowTokens, 4}}};

GateOverrides with(GateOverrides gates, const GateOverrides& more) {
  gates.insert(more.begin(), more.end());
  return gates;
}

TEST(PlanTest, FusedEqualsUnfused) {
  MINFER_REQUIRE_GPU();
  const GateOverrides unfused{{Gate::kNoDecodeActFuse, 1}, {Gate::kNoFuseQkv, 1},
                              {Gate::kNoFuseFfn, 1},       {Gate::kNoFuseRope, 1},
                              {Gate::kNoFuseGather, 1},    {Gate::kNoFuseResidual, 1}};
  for (const auto& types : kPairs) {
    for (int64_t nt : {1, 6, 40, 280}) {
      for (bool head_norms : {false, true}) {
        Layer l = layer_on_gpu(types[0], types[1], nt, nt > 1 ? nt - 1 : 1, head_norms);
        l.split->compute({{Gate::kReference, 1}});
        const std::vector<float> reference = l.split->read(l.residual);
        for (const GateOverrides& kernels : kKernelSets) {
          SCOPED_TRACE(testing::Message() << "type " << types[0] << ", " << nt << " tokens, sm_90a "
                                          << kernels.empty());
          l.split->compute(with(unfused, kernels));
          const uint32_t launches = l.split->info().n_launches;
          const std::vector<float> plain = l.split->read(l.logits);
          const std::vector<float> plain_x = l.split->read(l.residual);
          EXPECT_LT(relative_error(reference, plain_x), 8e-2);
          l.split->compute(kernels);
          EXPECT_LT(l.split->info().n_launches, launches);
          // Summation order is the same, so only contraction may differ.
          EXPECT_LT(relative_error(l.split->read(l.residual), plain_x), 1e-2);
          EXPECT_LT(relative_error(l.split->read(l.logits), plain), 2e-2);
        }
      }
    }
  }
}

TEST(PlanTest, ReplayEqualsDirectBitForBit) {
  MINFER_REQUIRE_GPU();
  for (const auto& types : kPairs) {
    for (int64_t nt : {1, 16, 300}) {
      Layer l = layer_on_gpu(types[0], types[1], nt, nt, false);
      for (const GateOverrides& kernels : kKernelSets) {
        l.split->compute(with({{Gate::kNoCudaGraph, 1}}, kernels));
        const std::vector<float> direct = l.split->read(l.logits);
        l.split->compute(kernels);
        for (int run = 0; run < 6; ++run) l.split->run();
        EXPECT_EQ(l.split->read(l.logits), direct) << "tokens " << nt;
        l.split->rebind();
        for (int run = 0; run < 4; ++run) l.split->run();
        EXPECT_EQ(l.split->read(l.logits), direct) << "after a new generation, tokens " << nt;
      }
    }
  }
}

/// The residual after each of `steps` tokens of one sequence, and the cache as it is then.
struct Decoded {
  std::vector<std::vector<float>> residuals;
  std::vector<float> cache;
};
Decoded decode(Layer& l, const std::vector<std::vector<float>>& tokens) {
  Decoded out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto pos = static_cast<int32_t>(i), len = pos + 1;
    const int64_t slot = pos;
    l.split->write(l.x, tokens[i].data());
    l.split->write(l.pos, &pos);
    l.split->write(l.slot, &slot);
    l.split->write(l.kv_len, &len);
    l.split->run();
    out.residuals.push_back(l.split->read(l.residual));
  }
  Gpu& gpu = *Gpu::instance();
  std::vector<float> page(2 * 64 * 2 * size_t{l.kv.head_dim_k});
  for (uint32_t p = 0; p <= (tokens.size() - 1) / 64; ++p) {
    minfer_error error{};
    EXPECT_EQ(
        gpu.table().kv_export_page(gpu.queue(), &l.kv, l.split->region(0), p, page.data(), &error),
        MINFER_OK)
        << error.text;
    out.cache.insert(out.cache.end(), page.begin(), page.end());
  }
  return out;
}

// Attention that norms, rotates and stores the step's heads itself, over several pages and splits.
TEST(PlanTest, StoreInAttentionEqualsStoreBefore) {
  MINFER_REQUIRE_GPU();
  constexpr size_t kSteps = 320;
  std::vector<std::vector<float>> tokens;
  for (size_t i = 0; i < kSteps; ++i) tokens.push_back(random_floats(512));
  for (const int64_t dim : {64, 96, 128, 256}) {
    for (const bool head_norms : {false, true}) {
      SCOPED_TRACE(testing::Message() << "heads of " << dim << ", norms " << head_norms);
      Layer l = make_layer(MINFER_TYPE_Q8_0, MINFER_TYPE_Q8_0, 1, 1, head_norms, dim, 8);
      l.split->materialise();
      l.split->compile();
      const uint32_t launches = l.split->info().n_launches;
      const Decoded fused = decode(l, tokens);
      l.split->compile({{Gate::kNoFuseStore, 1}});
      EXPECT_EQ(l.split->info().n_launches, launches + 1);
      const Decoded separate = decode(l, tokens);
      for (size_t i = 0; i < kSteps; ++i) {
        ASSERT_EQ(fused.residuals[i], separate.residuals[i]) << "position " << i;
      }
      EXPECT_EQ(fused.cache, separate.cache);
    }
  }
}

TEST(PlanTest, ReplayFollowsInputsAndCounts) {
  MINFER_REQUIRE_GPU();
  const int64_t nt = 8, n = 512;
  Layer graph = layer_on_gpu(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, nt, nt, false);
  std::vector<std::vector<float>> inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(random_floats(static_cast<size_t>(n * nt)));
  std::vector<std::vector<float>> direct;
  graph.split->compile({{Gate::kNoCudaGraph, 1}});
  const auto step = [&](int i) {
    graph.split->args.n_tokens = static_cast<uint32_t>(1 + i * 2);
    graph.split->write(graph.x, inputs[static_cast<size_t>(i)].data());
    graph.split->run();
    return graph.split->read(graph.residual);
  };
  for (int i = 0; i < 4; ++i) direct.push_back(step(i));
  graph.split->compile();
  for (int run = 0; run < 1000; ++run) {
    const int i = run % 4;
    ASSERT_EQ(step(i), direct[static_cast<size_t>(i)]) << "replay " << run;
  }
}

TEST(PlanTest, TwoPlansInterleave) {
  MINFER_REQUIRE_GPU();
  Layer a = layer_on_gpu(MINFER_TYPE_Q8_0, MINFER_TYPE_Q8_0, 1, 1, false);
  Layer b = layer_on_gpu(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, 4, 4, true);
  a.split->compute();
  b.split->compute();
  const std::vector<float> first_a = a.split->read(a.logits), first_b = b.split->read(b.logits);
  for (int i = 0; i < 8; ++i) {
    a.split->run();
    b.split->run();
    ASSERT_EQ(a.split->read(a.logits), first_a);
    ASSERT_EQ(b.split->read(b.logits), first_b);
  }
}

TEST(PlanTest, LabelsSayWhatRuns) {
  MINFER_REQUIRE_GPU();
  Layer l = layer_on_gpu(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, 1, 1, false);
  const auto expect_labels = [&](const GateOverrides& gates, std::vector<const char*> parts) {
    l.split->compute(gates);
    std::string all;
    for (uint32_t n = 0; n < 24; ++n) all += l.split->kernel(n) + "\n";
    for (const char* part : parts) {
      EXPECT_NE(all.find(part), std::string::npos) << part << " in\n" << all;
    }
  };
  expect_labels({{Gate::kNoHopper, 1}},
                {"rms_norm+int8, no f32", "qkv_rope_store+attention_decode", "mmvq_q4_k",
                 "+residual", "gated+int8, no f32", "attention_decode", "arg_max"});
#ifdef MINFER_CUDA_SM90A
  if (Gpu::instance()->compute_capability() == 90) {
    expect_labels({}, {"hopper_gemv_q4_k", "qkv_rope_store", "+gated", "+residual",
                       "attention_decode", "arg_max"});
  }
#endif
}

}  // namespace
}  // namespace minfer_cuda::test
