#include "engine/plan_set.h"

#include <algorithm>

namespace minfer {

uint64_t PlanSet::input_bytes() const {
  uint64_t bytes = 0;
  for (const auto& plan : plans) bytes = std::max(bytes, plan->inputs.bytes);
  return bytes;
}

uint64_t PlanSet::escaping_bytes(size_t device) const {
  uint64_t bytes = 0;
  for (const auto& plan : plans) bytes = std::max(bytes, plan->arenas[device].bytes);
  return bytes;
}

uint64_t PlanSet::workspace_bytes(size_t device) const {
  uint64_t bytes = hand_on ? hand_on->workspace_bytes(device) : 0;
  for (const auto& plan : plans) bytes = std::max(bytes, plan->workspace_bytes(device));
  return bytes;
}

uint64_t PlanSet::staging_bytes() const {
  uint64_t bytes = 0;
  for (const auto& plan : plans) bytes = std::max(bytes, plan->staging_bytes);
  return bytes;
}

Result<PlanSet> compile_plan_set(const PlanSource& source) {
  PlanSet set;
  for (const Bucket& bucket : source.buckets) {
    const TraceScope span(
        source.trace, "compile a plan", "plan",
        {{"tokens", bucket.tokens}, {"sequences", bucket.seqs}, {"rows", bucket.outs}});
    const StepPlanKey key{source.params(bucket), source.device_of_unit, false};
    MINFER_ASSIGN(auto plan,
                  compile_step_plan(*source.model, key, source.context(), source.devices));
    set.plans.push_back(std::move(plan));
  }
  const StepPlan& one_token = *set.plans.front();
  if (one_token.splits.splits.size() == 1 && one_token.graph.arg_max != MINFER_NONE) {
    StepPlanKey key = one_token.key;
    key.hand_on = true;
    MINFER_ASSIGN(set.hand_on,
                  compile_step_plan(*source.model, key, source.context(), source.devices));
  }
  return set;
}

Result<void> bind_plan_set(PlanSet& set, std::span<const std::shared_ptr<Device>> devices,
                           std::span<const DeviceMemory> memory) {
  uint64_t generation = 0;
  for (const DeviceMemory& m : memory) generation += m.generation;
  if (set.bound_generation == generation) return {};
  for (const auto& plan : set.plans) MINFER_TRY(bind_step_plan(*plan, devices, memory));
  if (set.hand_on) MINFER_TRY(bind_step_plan(*set.hand_on, devices, memory));
  set.bound_generation = generation;
  return {};
}

}  // namespace minfer
