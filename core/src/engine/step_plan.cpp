#include "engine/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace minfer {
namespace {

/// Pinned copies start at this alignment, a cache line.
constexpr uint64_t kStagingAlignment = 64;

/// The strictest offset alignment among devices: inputs have one layout for all of them.
uint64_t input_alignment(std::span<const std::shared_ptr<Device>> devices) {
  uint64_t alignment = kStagingAlignment;
  for (const auto& device : devices)
    alignment = std::max(alignment, device->info().buffer_alignment);
  return alignment;
}

CrossingCopy plan_copy(const Graph& graph, const Crossing& crossing, uint64_t* staging_bytes) {
  const GraphTensor& t = graph.tensors[crossing.tensor];
  CrossingCopy copy{.crossing = crossing, .bytes = tensor_span_bytes(t)};
  // Rows beyond the valid count need not travel when the dynamic axis is the outermost.
  bool outermost = t.dyn_axis < 4;
  for (uint32_t axis = t.dyn_axis + 1; outermost && axis < 4; ++axis) outermost = t.ne[axis] == 1;
  if (outermost) {
    copy.row_bytes = static_cast<uint64_t>(t.nb[t.dyn_axis]);
    copy.dyn_count = t.dyn_count;
  }
  copy.staging_offset = *staging_bytes;
  *staging_bytes += (copy.bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
  return copy;
}

std::string bucket_text(const Bucket& b) {
  return fmt::format("bucket of {} tokens, {} sequences, {} rows", b.tokens, b.seqs, b.outs);
}

}  // namespace

bool same_structure(const Graph& a, const Graph& b) {
  const auto same_tensor = [](const GraphTensor& x, const GraphTensor& y) {
    return x.name == y.name && x.type == y.type && x.kind == y.kind &&
           std::equal(x.ne, x.ne + 4, y.ne) && std::equal(x.nb, x.nb + 4, y.nb) &&
           x.dyn_axis == y.dyn_axis && x.dyn_count == y.dyn_count && x.view_of == y.view_of &&
           x.view_offset == y.view_offset && x.input == y.input && x.group == y.group &&
           x.weight_id == y.weight_id;
  };
  const auto same_node = [](const GraphNode& x, const GraphNode& y) {
    return x.op == y.op && x.revision == y.revision && x.src == y.src && x.dst == y.dst &&
           x.unit == y.unit && x.params.index() == y.params.index() && x.name == y.name;
  };
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    same_tensor) &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node) &&
         a.kv.size() == b.kv.size() && a.logits == b.logits && a.arg_max == b.arg_max;
}

uint64_t StepPlan::workspace_bytes(size_t device) const {
  uint64_t bytes = 0;
  for (size_t s = 0; s < compiled.size(); ++s)
    if (splits.splits[s].device == device)
      bytes = std::max(bytes, compiled[s].info.workspace_bytes);
  return bytes;
}

uint64_t StepPlan::arena_offset(size_t device, uint32_t tensor, const DeviceMemory& memory) const {
  const ArenaLayout::Entry* entry = arenas[device].find(owner_of(graph, tensor));
  assert(entry != nullptr);
  return memory.escaping_offset + entry->offset +
         static_cast<uint64_t>(graph.tensors[tensor].view_offset);
}

Result<std::unique_ptr<StepPlan>> compile_step_plan(
    const Model& model, const StepPlanKey& key, const SplitContext& context,
    std::span<const std::shared_ptr<Device>> devices) {
  auto plan = std::make_unique<StepPlan>();
  plan->key = key;
  MINFER_ASSIGN(plan->graph, model.build(key.params));
#ifndef NDEBUG
  MINFER_ASSIGN(const Graph again, model.build(key.params));
  if (!same_structure(plan->graph, again))
    return fail(ErrorCode::kInternal, "building the same graph twice gave two structures",
                bucket_text(key.params.bucket));
#endif
  plan->splits = split_graph(plan->graph, key.device_of_unit, context);
  plan->inputs = plan_inputs(plan->graph, input_alignment(devices));
  std::vector<uint64_t> alignments;
  for (const auto& device : devices) alignments.push_back(device->info().buffer_alignment);
  plan->arenas = plan_arenas(plan->graph, plan->splits, alignments);
  for (const Crossing& crossing : plan->splits.crossings)
    plan->crossings.push_back(plan_copy(plan->graph, crossing, &plan->staging_bytes));

  for (const Split& split : plan->splits.splits) {
    CompiledSplit compiled;
    auto handle = devices[split.device]->plan_compile(split.table(), &compiled.info);
    if (!handle) {
      Error error = std::move(handle).error();
      error.where += fmt::format(", {}", bucket_text(key.params.bucket));
      return tl::make_unexpected(std::move(error));
    }
    compiled.plan = std::move(*handle);
    plan->compiled.push_back(std::move(compiled));
  }
  return plan;
}

Result<void> bind_step_plan(StepPlan& plan, std::span<const std::shared_ptr<Device>> devices,
                            std::span<const DeviceMemory> memory) {
  for (size_t s = 0; s < plan.compiled.size(); ++s) {
    const Split& split = plan.splits.splits[s];
    const DeviceMemory& own = memory[split.device];
    std::vector<minfer_binding> bindings;
    for (uint32_t i = 0; i < split.tensors.size(); ++i) {
      const minfer_tensor& t = split.tensors[i];
      const uint32_t tensor = split.graph_tensor[i];
      const bool input = t.kind == MINFER_TENSOR_INPUT && t.view_of == MINFER_NONE;
      if (!input && (t.flags & MINFER_FLAG_ESCAPES) == 0) continue;
      minfer_binding binding{i, 0, own.arena.get(), 0};
      if (input && t.input == MINFER_INPUT_TOKENS && plan.key.hand_on) {
        binding.offset = plan.arena_offset(split.device, plan.graph.arg_max, own);
      } else if (input && t.input != MINFER_INPUT_HIDDEN) {
        binding.offset = plan.inputs.find(tensor)->offset;
      } else {
        binding.offset = plan.arena_offset(split.device, tensor, own);
      }
      bindings.push_back(binding);
    }
    std::vector<minfer_buffer*> kv;
    for (const uint32_t k : split.graph_kv) kv.push_back(own.kv[k].get());
    minfer_bindings table{};
    table.struct_size = sizeof table;
    table.n_bindings = static_cast<uint32_t>(bindings.size());
    table.bindings = bindings.data();
    table.kv = kv.data();
    table.workspace = own.workspace.get();
    table.generation = own.generation;
    MINFER_TRY(devices[split.device]->plan_bind(plan.compiled[s].plan.get(), table));
  }
  return {};
}

}  // namespace minfer
