#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/placement.h"

namespace minfer {

std::vector<std::vector<UnitWeights>> weights_of_devices(const Model& model, const Graph& graph,
                                                         std::span<const size_t> device_of_unit,
                                                         size_t n_devices) {
  std::vector<std::vector<UnitWeights>> out;
  for (size_t d = 0; d < n_devices; ++d) {
    std::vector<bool> on_device(graph.units.size(), false);
    for (size_t u = 0; u < on_device.size(); ++u) on_device[u] = device_of_unit[u] == d;
    out.push_back(collect_weights(model, graph, on_device));
  }
  return out;
}

namespace {

Result<uint64_t> kv_bytes(Device& device, size_t index, const StepPlan& plan, uint64_t* largest) {
  uint64_t bytes = 0;
  for (const Split& split : plan.splits.splits) {
    if (split.device != index) continue;
    for (const minfer_kv_desc& kv : split.kv) {
      MINFER_ASSIGN(const uint64_t page, device.kv_page_bytes(kv));
      bytes += page * kv.n_pages;
      *largest = std::max(*largest, page * kv.n_pages);
    }
  }
  return bytes;
}

}  // namespace

Result<MemoryPlan> make_memory_plan(std::span<const std::shared_ptr<Device>> devices,
                                    std::span<const minfer_memory> memory, const PlanSet& plans,
                                    std::span<const std::vector<UnitWeights>> weights,
                                    uint64_t staging_bytes) {
  MemoryPlan out;
  for (size_t d = 0; d < devices.size(); ++d) {
    const DeviceInfo& info = devices[d]->info();
    MemoryPlan::Entry entry;
    entry.device = info.id;
    entry.overhead = memory[d].overhead;
    entry.available = memory[d].free;
    uint64_t largest_region = 0;
    MINFER_ASSIGN(entry.kv, kv_bytes(*devices[d], d, *plans.plans.back(), &largest_region));
    entry.arena = plans.input_bytes() + plans.escaping_bytes(d);
    entry.workspace = plans.workspace_bytes(d);
    if (d == 0) entry.staging = staging_bytes;
    for (const UnitWeights& unit : weights[d]) {
      if (unit.weights.empty()) continue;
      MINFER_ASSIGN(
          const uint64_t bytes,
          devices[d]->weights_size(unit.table(plans.plans.back()->splits.splits[0].model)));
      entry.weights += bytes;
    }
    const uint64_t largest = std::max({largest_region, entry.arena, entry.workspace});
    if (info.max_buffer_bytes > 0 && largest > info.max_buffer_bytes)
      return fail(
          ErrorCode::kOutOfMemory,
          fmt::format("a buffer of {} is needed (KV of a layer {}, arena {}, workspace {}), "
                      "the device allows {}",
                      bytes_text(largest), bytes_text(largest_region), bytes_text(entry.arena),
                      bytes_text(entry.workspace), bytes_text(info.max_buffer_bytes)),
          info.id, "lower context or max_step_tokens");
    out.devices.push_back(std::move(entry));
  }
  return out;
}

Result<void> check_fits(const MemoryPlan::Entry& e) {
  if (e.available == 0 || e.total() <= e.available) return {};
  return fail(
      ErrorCode::kOutOfMemory,
      fmt::format("{} are needed (weights {}, KV {}, arena {}, workspace {}, driver {}), {} "
                  "are free",
                  bytes_text(e.total()), bytes_text(e.weights), bytes_text(e.kv),
                  bytes_text(e.arena), bytes_text(e.workspace), bytes_text(e.overhead),
                  bytes_text(e.available)),
      e.device, "lower context, max_sequences or gpu_layers, or use another device");
}

}  // namespace minfer
