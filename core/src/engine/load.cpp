// Engine loading: memory, weights, bound plans, and the change of gates afterwards.
#include <fmt/format.h>

#include "engine/engine_impl.h"
#include "engine/placement.h"

namespace minfer {
namespace {

Result<BufferHandle> allocate(Device& device, uint64_t bytes, std::string_view what) {
  if (bytes == 0) return BufferHandle();
  auto buffer = device.buffer_alloc(bytes);
  if (buffer) return buffer;
  Error error = std::move(buffer).error();
  error.what = fmt::format("cannot allocate {} for {}: {}", bytes_text(bytes), what, error.what);
  return tl::make_unexpected(std::move(error));
}

}  // namespace

Result<void> EngineImpl::load() {
  if (runner_) return {};
  MINFER_TRY(allocate_memory());
  MINFER_TRY(import_weights());
  plans_->bound_generation = 0;  // an earlier attempt's memory counted from the same start
  MINFER_TRY(bind_plan_set(*plans_, source_.devices, memory_));
  MINFER_TRY(create_runner());
  const Gate* timing = host_.gates().find("MINFER_OP_TIMING");
  runner_->set_timing(timing != nullptr && timing->value != 0);
  return {};
}

Result<void> EngineImpl::allocate_arena(size_t d, const PlanSet& plans) {
  Device& device = *source_.devices[d];
  DeviceMemory& memory = memory_[d];
  const uint64_t arena = plans.input_bytes() + plans.escaping_bytes(d);
  const uint64_t workspace = plans.workspace_bytes(d);
  if (arena > memory.arena_bytes) {
    memory.arena.reset();
    memory.arena_bytes = 0;
    ++memory.generation;
    MINFER_ASSIGN(memory.arena, allocate(device, arena, "inputs and escaping tensors"));
    memory.arena_bytes = arena;
    memory.escaping_offset = plans.input_bytes();
  }
  if (workspace > memory.workspace_bytes) {
    memory.workspace.reset();
    memory.workspace_bytes = 0;
    ++memory.generation;
    MINFER_ASSIGN(memory.workspace, allocate(device, workspace, "the workspace"));
    memory.workspace_bytes = workspace;
  }
  return {};
}

Result<void> EngineImpl::allocate_memory() {
  const TraceScope span(options_.trace, "allocate memory", "load");
  memory_.clear();
  memory_.resize(source_.devices.size());
  const Graph& graph = plans_->plans.back()->graph;
  for (DeviceMemory& memory : memory_) memory.kv.resize(graph.kv.size());
  for (const Split& split : plans_->plans.back()->splits.splits) {
    DeviceMemory& memory = memory_[split.device];
    Device& device = *source_.devices[split.device];
    for (size_t i = 0; i < split.kv.size(); ++i) {
      MINFER_ASSIGN(const uint64_t page, device.kv_page_bytes(split.kv[i]));
      const uint64_t bytes = page * split.kv[i].n_pages;
      MINFER_ASSIGN(memory.kv[split.graph_kv[i]],
                    allocate(device, bytes, fmt::format("the KV of layer {}", split.kv[i].layer)));
      memory.kv_bytes += bytes;
    }
  }
  for (size_t d = 0; d < memory_.size(); ++d) MINFER_TRY(allocate_arena(d, *plans_));
  return {};
}

Result<void> EngineImpl::import_weights() {
  const TraceScope span(options_.trace, "import weights", "load");
  weights_ = std::make_unique<WeightStore>(model_);
  uint64_t total = 0;
  for (const auto& units : device_weights_)
    for (const UnitWeights& unit : units)
      for (const minfer_weight& weight : unit.weights) total += weight.bytes;
  weights_->expect(total);
  for (size_t d = 0; d < device_weights_.size(); ++d)
    MINFER_TRY(weights_->import(*source_.devices[d], device_weights_[d], source_.model_handle,
                                options_.on_progress));
  return {};
}

Result<void> EngineImpl::create_runner() {
  std::vector<KvRegion> regions;
  std::vector<size_t> device_of_split;
  for (const Split& split : plans_->plans.back()->splits.splits) {
    device_of_split.push_back(split.device);
    for (size_t i = 0; i < split.kv.size(); ++i)
      regions.push_back(
          {split.kv[i], split.device, memory_[split.device].kv[split.graph_kv[i]].get()});
  }
  MINFER_ASSIGN(runner_, StepRunner::create(source_.devices, memory_, std::move(regions),
                                            device_of_split, staging_sizes(*plans_)));
  runner_->set_trace(options_.trace);
  return {};
}

std::vector<int64_t> EngineImpl::plan_gates() const {
  std::vector<int64_t> values;
  for (const Gate& gate : host_.gates().all())
    if (gate.spec.scope == GateScope::kPlan) values.push_back(gate.value);
  return values;
}

Result<PlanSet*> EngineImpl::plans_for_gates() {
  const auto key = plan_gates();
  const auto known = plan_cache_.find(key);
  if (known != plan_cache_.end()) return &known->second;
  MINFER_ASSIGN(auto set, compile_plan_set(source_));
  return &plan_cache_.emplace(key, std::move(set)).first->second;
}

Result<void> EngineImpl::refresh_gates() {
  if (runner_) runner_->drain();
  for (const auto& device : source_.devices)
    device->set_gates(host_.gates().values(device->info().backend));
  MINFER_ASSIGN(PlanSet * plans, plans_for_gates());
  if (runner_) {
    for (size_t d = 0; d < memory_.size(); ++d) MINFER_TRY(allocate_arena(d, *plans));
    MINFER_TRY(bind_plan_set(*plans, source_.devices, memory_));
  }
  plans_ = plans;
  return {};
}

}  // namespace minfer
