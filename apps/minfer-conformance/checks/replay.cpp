// Many runs of the same plans, as in decoding: inputs and valid counts change every time, bindings
// now and then, and two plans take turns on one queue. Plugins that capture and replay commands get
// stale pointers, sizes or arguments wrong here.
#include "checks.h"
#include "small_plan.h"

namespace conformance {

void check_replay(Bench& bench) {
  constexpr int kRuns = 1000;
  constexpr int kRebind = 97;  // moves against the two plans' turns
  SmallPlan one(bench, 1), two(bench, 2);
  for (int i = 0; i < kRuns; ++i) {
    SmallPlan& plan = i % 3 == 0 ? two : one;
    if (i % kRebind == kRebind - 1) plan.session().move();
    const auto tokens = static_cast<uint32_t>(bench.rng() % (SmallPlan::kTokens + 1));
    bool held = true;
    variant(fmt::format("run {}", i), [&] {
      held = plan.run_and_check(bench.device.queue, fmt::format("{} tokens", tokens), tokens);
    });
    if (!held) return;
  }
}

}  // namespace conformance
