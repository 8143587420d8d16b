#include "engine/step_timer.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/op_names.h"

namespace minfer {

Result<void> StepTimer::add(const StepPlan& plan, std::span<const std::shared_ptr<Device>> devices,
                            const NodeTrace& trace) {
  for (size_t s = 0; s < plan.compiled.size(); ++s) {
    const Split& split = plan.splits.splits[s];
    Device& device = *devices[split.device];
    minfer_plan* compiled = plan.compiled[s].plan.get();
    MINFER_ASSIGN(const auto times,
                  device.plan_profile(compiled, static_cast<uint32_t>(split.nodes.size())));
    const bool traced = trace.trace != nullptr && s < trace.begin.size();
    auto at = traced ? trace.begin[s] : Trace::Clock::time_point();
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
      if (!traced || time.seconds <= 0) continue;
      const auto end = at + std::chrono::duration_cast<Trace::Clock::duration>(
                                std::chrono::duration<double>(time.seconds));
      trace.trace->add(device.info().id,
                       fmt::format("{} {}", split.nodes[time.node].name, report.kernel), "node", at,
                       end, {{"bytes", time.bytes}});
      at = end;
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
