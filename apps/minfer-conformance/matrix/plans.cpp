// Plans as a whole: a transformer layer whose tensors are elided or kept, the same bits every time,
// a label and a time for each node.
#include <algorithm>
#include <numeric>

#include "layer.h"

namespace conformance {
namespace {

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Which tensors are read elsewhere decides what a plugin may fuse, but not what comes out.
void kept_and_elided_tensors_agree(Bench& bench) {
  std::mt19937_64 same = bench.rng;
  Layer layer(bench.rng), kept(same, MINFER_TYPE_F32, 2);
  for (minfer_tensor& t : kept.split.tensors) {
    if (t.kind == MINFER_TENSOR_ACTIVATION && t.view_of == MINFER_NONE)
      t.flags |= MINFER_FLAG_ESCAPES;
  }
  Session elided(bench.device, layer.split), whole(bench.device, kept.split);
  for (const Counts& counts :
       {Layer::kStep, Counts{7, 2, 2, 5}, Counts{7, 2, 0, 5}, Counts{0, 0, 0, 0}}) {
    variant(fmt::format("{} tokens, {} outs", counts.tokens, counts.outs), [&] {
      layer.fill(elided);
      kept.fill(whole);
      elided.run(counts);
      whole.run(counts);
      const auto a = elided.get<float>(layer.logits), b = whole.get<float>(kept.logits);
      expect_below(relative_error(a, widen(b)), 1e-4);
      const auto valid = static_cast<size_t>(counts.outs * Layer::kVocab);
      expect(std::all_of(a.begin() + static_cast<int64_t>(valid), a.end(),
                         [](float v) { return v == 0.0f; }),
             "rows past the valid ones are zeros");
    });
  }
}

// The same inputs give the same bits, whatever ran in between and wherever threads were.
void runs_repeat_bit_for_bit(Bench& bench) {
  Layer layer(bench.rng, MINFER_TYPE_Q8_0);
  Session session(bench.device, layer.split);
  layer.fill(session);
  session.run(Layer::kStep);
  const auto first = session.get<float>(layer.logits);
  for (int i = 0; i < 20; ++i) {
    layer.fill(session);
    session.run(Layer::kStep);
    if (!expect_equal(session.get<float>(layer.logits), first, fmt::format("run {}", i))) return;
  }
}

void every_node_has_a_label_and_a_time(Bench& bench) {
  Layer layer(bench.rng, MINFER_TYPE_Q8_0);
  Session session(bench.device, layer.split);
  layer.fill(session);
  session.run(Layer::kStep);
  const auto untimed = session.get<float>(layer.logits);
  layer.fill(session);
  session.run(Layer::kStep, MINFER_RUN_TIMED);
  expect_below(relative_error(session.get<float>(layer.logits), widen(untimed)), 1e-5,
               "a timed run differs by");
  for (uint32_t i = 0; i < layer.split.nodes.size(); ++i)
    expect(!session.label(i).empty(), fmt::format("node {} has no label", i));
  if (!MINFER_HAS_FN(&plugin(), plan_profile)) return;
  std::vector<minfer_node_time> times(layer.split.nodes.size());
  uint32_t n = 0;
  MINFER_CALL(plan_profile, session.plan(), times.data(), static_cast<uint32_t>(times.size()), &n);
  expect_equal(size_t{n}, times.size(), "entries of the profile");
  const double total =
      std::accumulate(times.begin(), times.end(), 0.0,
                      [](double sum, const minfer_node_time& time) { return sum + time.seconds; });
  expect(total > 0.0, "the profile's times are all zero");
}

constexpr Case kCases[] = {
    {"plan.KeptAndElidedTensorsAgree", kept_and_elided_tensors_agree},
    {"plan.RunsRepeatBitForBit", runs_repeat_bit_for_bit},
    {"plan.EveryNodeHasALabelAndATime", every_node_has_a_label_and_a_time},
};

}  // namespace

std::span<const Case> plan_cases() {
  return kCases;
}

}  // namespace conformance
