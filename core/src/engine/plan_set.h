// The compiled plans of every bucket, for one setting of the gates that plans depend on.
//
// PlanCache keeps one PlanSet per setting, so that tools can switch a gate back and forth without
// compiling again. Compiling needs no memory; binding does. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/buckets.h"
#include "engine/step_plan.h"

namespace minfer {

/// What all plans of an engine share.
struct PlanSource {
  const Model* model = nullptr;
  std::vector<std::shared_ptr<Device>> devices;
  std::vector<size_t> device_of_unit;
  std::vector<Bucket> buckets;
  std::vector<uint32_t> pages_of_group;
  uint64_t model_handle = 0;
  uint32_t kv_type = MINFER_TYPE_F16;
  uint32_t page_tokens = 64;
  Trace* trace = nullptr;  ///< receives compilations

  SplitContext context() const { return {pages_of_group, model_handle}; }
  GraphParams params(const Bucket& bucket) const { return {bucket, kv_type, page_tokens, true}; }
};

struct PlanSet {
  std::vector<std::unique_ptr<StepPlan>> plans;  ///< by bucket
  /// One token whose id is the step before's arg-max; absent where a step has several splits.
  std::unique_ptr<StepPlan> hand_on;
  uint64_t bound_generation = 0;  ///< sum over the devices' memory; 0: not bound

  uint64_t input_bytes() const;                  ///< of the largest input block
  uint64_t escaping_bytes(size_t device) const;  ///< of the largest arena layout
  uint64_t workspace_bytes(size_t device) const;
  uint64_t staging_bytes() const;  ///< of crossing tensors
};

Result<PlanSet> compile_plan_set(const PlanSource& source);

/// Binds every plan of the set to memory, unless it is bound to these addresses already: a plugin
/// may have captured variants of a bound plan.
Result<void> bind_plan_set(PlanSet& set, std::span<const std::shared_ptr<Device>> devices,
                           std::span<const DeviceMemory> memory);

/// Plan sets by the values of the gates of scope plan.
using PlanCache = std::map<std::vector<int64_t>, PlanSet>;

}  // namespace minfer
