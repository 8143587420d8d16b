// The memory plan: what each device will hold, exact before anything is loaded. Pure, apart from
// asking devices for sizes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/plan_set.h"
#include "engine/weights.h"
#include "minfer/engine.h"

namespace minfer {

/// The weights that each device imports: for device d, its units in order.
std::vector<std::vector<UnitWeights>> weights_of_devices(const Model& model, const Graph& graph,
                                                         std::span<const size_t> device_of_unit,
                                                         size_t n_devices);

/// Sizes for a placement whose plans are compiled. `memory[d]` is the device's state before the
/// engine holds anything.
Result<MemoryPlan> make_memory_plan(std::span<const std::shared_ptr<Device>> devices,
                                    std::span<const minfer_memory> memory, const PlanSet& plans,
                                    std::span<const std::vector<UnitWeights>> weights,
                                    uint64_t staging_bytes);

/// kOutOfMemory with the numbers when an entry needs more than its device has.
Result<void> check_fits(const MemoryPlan::Entry& entry);

}  // namespace minfer
