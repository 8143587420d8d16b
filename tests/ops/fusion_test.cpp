// Fusion of the CPU plugin: the same layer with and without it, on every instruction level.
#include <gtest/gtest.h>

#include "layer.h"
#include "levels.h"

namespace conformance {
namespace {

class Fusion : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Levels, Fusion, testing::ValuesIn(kLevels));

// Fusion and order may not change the meaning: the plain plan is the reference.
TEST_P(Fusion, LayerFusedAndUnfusedAgree) {
  if (!has_gate("MINFER_CPU_FUSE")) GTEST_SKIP() << "the plugin has no gate that turns fusion off";
  std::mt19937_64 rng = seeded_rng("fusion");
  Layer layer(rng);
  try {
    std::map<std::string, std::string> gates = {{"MINFER_CPU_ISA", GetParam()}};
    Device device(gates);
    gates["MINFER_CPU_FUSE"] = "0";
    Device plain_device(gates);
    Session fused(device, layer.split), plain(plain_device, layer.split);
    EXPECT_LT(fused.info().n_launches, plain.info().n_launches);
    for (const Counts& counts :
         {Layer::kStep, Counts{7, 2, 2, 5}, Counts{7, 2, 0, 5}, Counts{0, 0, 0, 0}}) {
      SCOPED_TRACE(testing::Message() << counts.tokens << " tokens, " << counts.outs << " outs");
      layer.fill(fused);
      layer.fill(plain);
      fused.run(counts);
      plain.run(counts);
      const auto a = fused.get<float>(layer.logits), b = plain.get<float>(layer.logits);
      EXPECT_LT(relative_error(a, {b.begin(), b.end()}), 1e-5);
      EXPECT_EQ(fused.get<int32_t>(layer.best), plain.get<int32_t>(layer.best));
      for (size_t i = counts.outs * Layer::kVocab; i < a.size(); ++i) ASSERT_EQ(a[i], 0.0f);
    }
  } catch (const Refused& refused) {
    GTEST_SKIP() << refused.reason;
  }
}

}  // namespace
}  // namespace conformance
