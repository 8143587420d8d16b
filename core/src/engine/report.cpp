// What the engine tells about itself: kernels per node, DOT text, memory held, times.
#include <algorithm>

#include "engine/engine_impl.h"
#include "graph/op_names.h"

namespace minfer {

Result<MemoryPlan> EngineImpl::measured_memory() {
  MemoryPlan measured = memory_plan_;
  for (size_t d = 0; d < source_.devices.size(); ++d) {
    MINFER_ASSIGN(const minfer_memory now, source_.devices[d]->memory());
    MemoryPlan::Entry& entry = measured.devices[d];
    entry.overhead = now.overhead;
    entry.available = now.free;
    if (d >= memory_.size()) continue;
    entry.kv = memory_[d].kv_bytes;
    entry.arena = memory_[d].arena_bytes;
    entry.workspace = memory_[d].workspace_bytes;
    // Whatever else the plugin took belongs to the weights: nothing else was asked of it.
    const uint64_t buffers = entry.kv + entry.arena + entry.workspace;
    const uint64_t held = now.held - std::min(now.held, held_before_[d]);
    entry.weights = held - std::min(held, buffers);
  }
  return measured;
}

Result<std::vector<NodePlacement>> EngineImpl::explain(uint32_t tokens) {
  const uint32_t n = std::clamp(tokens, 1u, options_.max_step_tokens);
  MINFER_ASSIGN(const StepPlan* plan, pick_plan({n, 1, 1, n}));
  std::vector<NodePlacement> out;
  for (size_t s = 0; s < plan->compiled.size(); ++s) {
    const Split& split = plan->splits.splits[s];
    Device& device = *source_.devices[split.device];
    for (uint32_t i = 0; i < split.nodes.size(); ++i) {
      MINFER_ASSIGN(NodeReport report, device.plan_describe(plan->compiled[s].plan.get(), i));
      const minfer_node& node = split.nodes[i];
      NodePlacement line;
      line.node = node.name;
      line.op = op_name(node.op);
      line.unit = plan->graph.units[node.unit].name();
      line.device = device.info().id;
      line.kernel = std::move(report.kernel);
      line.why = std::move(report.why);
      if (report.fused_into < split.nodes.size() && report.fused_into != i)
        line.kernel += (line.kernel.empty() ? "in " : ", in ") +
                       std::string(split.nodes[report.fused_into].name);
      out.push_back(std::move(line));
    }
  }
  return out;
}

Result<std::string> EngineImpl::dot(uint32_t tokens) {
  const uint32_t n = std::clamp(tokens, 1u, options_.max_step_tokens);
  MINFER_ASSIGN(const StepPlan* plan, pick_plan({n, 1, 1, n}));
  std::vector<std::string> names;
  for (const size_t d : source_.device_of_unit) names.push_back(source_.devices[d]->info().id);
  return plan->graph.to_dot(names);
}

void EngineImpl::set_timing(bool on) {
  if (runner_) runner_->set_timing(on);
}

std::vector<OpTiming> EngineImpl::op_timings() const {
  return runner_ ? runner_->timer().timings() : std::vector<OpTiming>{};
}

}  // namespace minfer
