// A step plan: everything that one bucket needs to run, compiled and later bound to memory.
//
// compile_step_plan() needs no memory and no weights, so that the memory plan can be exact before
// anything is loaded. Not thread-safe; addresses inside are stable (StepPlan is heap-held).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/arena.h"
#include "engine/inputs.h"
#include "engine/splitter.h"
#include "minfer/plugin_host.h"

namespace minfer {

/// Device memory that plans are bound to. `arena` holds the input block, then escaping tensors.
struct DeviceMemory {
  BufferHandle arena;
  BufferHandle workspace;
  std::vector<BufferHandle> kv;  ///< by Graph::kv index; empty handles for other devices' layers
  uint64_t arena_bytes = 0;
  uint64_t workspace_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t escaping_offset = 0;  ///< where escaping tensors start in the arena
  uint64_t generation = 0;       ///< changes when addresses may have changed
};

struct CompiledSplit {
  PlanHandle plan;
  minfer_plan_info info{};
};

/// A crossing tensor's way through pinned host memory.
struct CrossingCopy {
  Crossing crossing;
  uint64_t staging_offset = 0;
  uint64_t bytes = 0;      ///< at capacity
  uint64_t row_bytes = 0;  ///< 0: always copied whole; else valid rows only
  uint32_t dyn_count = MINFER_DYN_NONE;
};

/// What the plans are compiled for; plans of equal keys are interchangeable.
struct StepPlanKey {
  GraphParams params;
  std::vector<size_t> device_of_unit;
  bool hand_on = false;  ///< tokens are read from the arg-max output of the step before
};

struct StepPlan {
  StepPlanKey key;
  Graph graph;
  SplitPlan splits;
  InputLayout inputs;
  std::vector<ArenaLayout> arenas;      ///< per device
  std::vector<CompiledSplit> compiled;  ///< per split
  std::vector<CrossingCopy> crossings;  ///< in the order of splits.crossings
  uint64_t staging_bytes = 0;

  /// Largest workspace that the plans of a device ask for.
  uint64_t workspace_bytes(size_t device) const;
  /// Place of a graph tensor (or its owner) in a device's arena buffer.
  uint64_t arena_offset(size_t device, uint32_t tensor, const DeviceMemory& memory) const;
};

/// Builds, splits, lays out and compiles. Errors name the bucket and the device.
Result<std::unique_ptr<StepPlan>> compile_step_plan(
    const Model& model, const StepPlanKey& key, const SplitContext& context,
    std::span<const std::shared_ptr<Device>> devices);

/// Binds every plan to memory; may be called again after memory moved.
Result<void> bind_step_plan(StepPlan& plan, std::span<const std::shared_ptr<Device>> devices,
                            std::span<const DeviceMemory> memory);

/// True when two graphs have the same tensors, nodes and KV layers.
bool same_structure(const Graph& a, const Graph& b);

}  // namespace minfer
