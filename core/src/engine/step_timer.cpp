#include "engine/step_timer.h"

#include <algorithm>

#include "graph/op_names.h"

namespace minfer {

Result<void> StepTimer::add(const StepPlan& plan,
                            std::span<const std::shared_ptr<Device>> devices) {
  for (size_t s = 0; s < plan.compiled.size(); ++s) {
    const Split& split = plan.splits.splits[s];
    Device& device = *devices[split.device];
    minfer_plan* compiled = plan.compiled[s].plan.get();
    MINFER_ASSIGN(const auto times,
                  device.plan_profile(compiled, static_cast<uint32_t>(split.nodes.size())));
    for (const minfer_node_time& time : times) {
      if (time.node >= split.nodes.size()) continue;
      MINFER_ASSIGN(const NodeReport report, device.plan_describe(compiled, time.node));
      const std::string op(op_name(split.nodes[time.node].op));
      OpTiming& sum = sums_[{op, report.kernel, device.info().id}];
      sum.op = op;
      sum.kernel = report.kernel;
      sum.device = device.info().id;
      ++sum.calls;
      sum.seconds += time.seconds;
      sum.bytes += time.bytes;
    }
  }
  return {};
}

std::vector<OpTiming> StepTimer::timings() const {
  std::vector<OpTiming> out;
  for (const auto& [key, sum] : sums_) out.push_back(sum);
  std::sort(out.begin(), out.end(),
            [](const OpTiming& a, const OpTiming& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace minfer
