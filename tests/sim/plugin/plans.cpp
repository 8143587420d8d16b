// Plans of the simulated device: bindings are checked when bound, memory is poisoned and reads are
// checked when the run happens, which is later than plan_run.
#include <algorithm>
#include <array>
#include <string>

#include "sim.h"

namespace {

struct BoundTensor {
  uint32_t tensor = 0;
  minfer_buffer* buffer = nullptr;
  uint64_t offset = 0;
  bool operator==(const BoundTensor&) const = default;
};

}  // namespace

struct minfer_plan {
  minfer_device* device = nullptr;
  minfer_plan* inner = nullptr;
  minfer_plan_info info{};
  std::vector<minfer_tensor> tensors;
  std::vector<std::string> names;
  std::vector<minfer_kv_desc> kv;
  uint64_t model = 0;
  std::atomic<int> pending{0};
  // State of the last bind.
  bool bound = false;
  uint64_t generation = 0;
  std::vector<BoundTensor> bindings;
  std::vector<minfer_buffer*> kv_regions;
  minfer_buffer* workspace = nullptr;
  uint64_t workspace_offset = 0;
};

namespace minfer_sim {
namespace {

using Counts = std::array<int64_t, 4>;  ///< by MINFER_DYN_*

uint64_t span_bytes(const minfer_tensor& t) {
  // Only 32- and 64-bit elements cross a split's border.
  uint64_t bytes = static_cast<uint64_t>(t.ne[0] * t.nb[0]);
  for (int i = 1; i < 4; ++i) bytes += static_cast<uint64_t>((t.ne[i] - 1) * t.nb[i]);
  return bytes;
}

/// Bytes of the valid rows, or the whole where rows are not the outermost dimension.
uint64_t valid_bytes(const minfer_tensor& t, const Counts& counts) {
  if (t.dyn_axis > 3 || t.dyn_count == MINFER_DYN_NONE) return span_bytes(t);
  for (uint32_t axis = t.dyn_axis + 1; axis < 4; ++axis)
    if (t.ne[axis] != 1) return span_bytes(t);
  return static_cast<uint64_t>(counts[t.dyn_count] * t.nb[t.dyn_axis]);
}

bool needs_binding(const minfer_tensor& t) {
  return (t.kind == MINFER_TENSOR_INPUT && t.view_of == MINFER_NONE) ||
         (t.flags & MINFER_FLAG_ESCAPES) != 0;
}

minfer_status plan_compile(minfer_device* device, const minfer_split* split,
                           const minfer_gate_values* gates, minfer_plan** out,
                           minfer_plan_info* info, minfer_error* error) {
  auto plan = std::make_unique<minfer_plan>();
  plan->info.struct_size = sizeof plan->info;
  const minfer_status status =
      inner().plan_compile(device->inner, split, nullptr, &plan->inner, &plan->info, error);
  if (status != MINFER_OK) return status;
  plan->device = device;
  plan->model = split->model;
  plan->tensors.assign(split->tensors, split->tensors + split->n_tensors);
  for (minfer_tensor& t : plan->tensors) plan->names.push_back(t.name ? t.name : "");
  plan->kv.assign(split->kv, split->kv + split->n_kv);
  if (gates && gates->n > 0)
    plan->info.workspace_bytes += static_cast<uint64_t>(gates->values[0]) * 1024;
  *info = plan->info;
  const std::lock_guard lock(world().mutex);
  ++world().stats.live_plans;
  *out = plan.release();
  return MINFER_OK;
}

minfer_status check_weights(const minfer_plan& plan, minfer_error* error) {
  const std::lock_guard lock(plan.device->mutex);
  const auto [first, last] = plan.device->imported.equal_range(plan.model);
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (plan.tensors[t].kind != MINFER_TENSOR_WEIGHT || plan.tensors[t].view_of != MINFER_NONE)
      continue;
    if (std::none_of(first, last,
                     [&](const auto& e) { return e.second == plan.tensors[t].weight_id; }))
      return world().violation(error, "weight '%s' is bound before it is imported",
                               plan.names[t].c_str());
  }
  return MINFER_OK;
}

minfer_status check_binding(const minfer_plan& plan, const minfer_binding& b, minfer_error* error) {
  if (b.tensor >= plan.tensors.size() || !needs_binding(plan.tensors[b.tensor]))
    return world().violation(error, "binding of tensor %u, which needs none", b.tensor);
  const char* name = plan.names[b.tensor].c_str();
  if (!b.buffer || b.buffer->device != plan.device)
    return world().violation(error, "'%s' is bound to no buffer of this device", name);
  if (b.offset % kAlignment != 0)
    return world().violation(error, "'%s' is bound at offset %llu, not a multiple of %llu", name,
                             static_cast<unsigned long long>(b.offset),
                             static_cast<unsigned long long>(kAlignment));
  if (b.offset + span_bytes(plan.tensors[b.tensor]) > b.buffer->bytes)
    return world().violation(error, "'%s' ends beyond its buffer", name);
  return MINFER_OK;
}

minfer_status check_bindings(const minfer_plan& plan, const minfer_bindings& bindings,
                             minfer_error* error) {
  if (plan.pending > 0) return world().violation(error, "a plan is bound while it is queued");
  std::vector<int> seen(plan.tensors.size(), 0);
  for (uint32_t i = 0; i < bindings.n_bindings; ++i) {
    const minfer_status status = check_binding(plan, bindings.bindings[i], error);
    if (status != MINFER_OK) return status;
    ++seen[bindings.bindings[i].tensor];
  }
  for (size_t t = 0; t < plan.tensors.size(); ++t)
    if (seen[t] != (needs_binding(plan.tensors[t]) ? 1 : 0))
      return world().violation(error, "'%s' is bound %d times", plan.names[t].c_str(), seen[t]);
  for (size_t k = 0; k < plan.kv.size(); ++k) {
    uint64_t page = 0;
    inner().kv_page_bytes(plan.device->inner, &plan.kv[k], &page, error);
    if (!bindings.kv[k] || bindings.kv[k]->bytes < page * plan.kv[k].n_pages)
      return world().violation(error, "the KV region of layer %u is absent or too small",
                               plan.kv[k].layer);
  }
  const uint64_t workspace = plan.info.workspace_bytes;
  if (workspace > 0 &&
      (!bindings.workspace || bindings.workspace_offset + workspace > bindings.workspace->bytes))
    return world().violation(error, "the workspace is absent or too small");
  return check_weights(plan, error);
}

minfer_status plan_bind(minfer_plan* plan, const minfer_bindings* bindings, minfer_error* error) {
  minfer_status status = check_bindings(*plan, *bindings, error);
  if (status != MINFER_OK) return status;
  std::vector<BoundTensor> bound;
  std::vector<minfer_binding> translated;
  for (uint32_t i = 0; i < bindings->n_bindings; ++i) {
    minfer_binding b = bindings->bindings[i];
    bound.push_back({b.tensor, b.buffer, b.offset});
    b.buffer = b.buffer->inner;
    translated.push_back(b);
  }
  if (plan->bound && plan->generation == bindings->generation &&
      (bound != plan->bindings || plan->workspace != bindings->workspace))
    return world().violation(error, "addresses changed, the generation %llu did not",
                             static_cast<unsigned long long>(bindings->generation));
  std::vector<minfer_buffer*> regions(bindings->kv, bindings->kv + plan->kv.size());
  std::vector<minfer_buffer*> inner_regions;
  for (minfer_buffer* region : regions) inner_regions.push_back(region->inner);
  minfer_bindings behind = *bindings;
  behind.bindings = translated.data();
  behind.kv = inner_regions.data();
  behind.workspace = bindings->workspace ? bindings->workspace->inner : nullptr;
  status = inner().plan_bind(plan->inner, &behind, error);
  if (status != MINFER_OK) return status;
  ++world().stats.binds;
  plan->bound = true;
  plan->generation = bindings->generation;
  plan->bindings = std::move(bound);
  plan->kv_regions = std::move(regions);
  plan->workspace = bindings->workspace;
  plan->workspace_offset = bindings->workspace_offset;
  return MINFER_OK;
}

/// Inputs must have been written; the rows of hidden inputs that are not valid hold anything.
minfer_status check_inputs(minfer_plan& plan, const Counts& counts, minfer_error* error) {
  for (const BoundTensor& b : plan.bindings) {
    const minfer_tensor& t = plan.tensors[b.tensor];
    if (t.kind != MINFER_TENSOR_INPUT) continue;
    const uint64_t valid = valid_bytes(t, counts);
    const uint64_t bad = b.buffer->first_undefined(b.offset, valid);
    if (bad < valid)
      return world().violation(error, "input '%s' is read at byte %llu of %llu, never written",
                               plan.names[b.tensor].c_str(), static_cast<unsigned long long>(bad),
                               static_cast<unsigned long long>(valid));
    if (t.input == MINFER_INPUT_HIDDEN)
      std::memset(b.buffer->data + b.offset + valid, kPoison, span_bytes(t) - valid);
  }
  return MINFER_OK;
}

bool overlaps_input(const minfer_plan& plan, const BoundTensor& out) {
  for (const BoundTensor& b : plan.bindings) {
    if (plan.tensors[b.tensor].kind != MINFER_TENSOR_INPUT || b.buffer != out.buffer) continue;
    if (b.offset < out.offset + span_bytes(plan.tensors[out.tensor]) &&
        out.offset < b.offset + span_bytes(plan.tensors[b.tensor]))
      return true;
  }
  return false;
}

void poison_outputs(minfer_plan& plan) {
  for (const BoundTensor& b : plan.bindings) {
    if (plan.tensors[b.tensor].kind == MINFER_TENSOR_INPUT || overlaps_input(plan, b)) continue;
    std::memset(b.buffer->data + b.offset, kPoison, span_bytes(plan.tensors[b.tensor]));
  }
  if (plan.workspace)
    std::memset(plan.workspace->data + plan.workspace_offset, kPoison, plan.info.workspace_bytes);
}

/// Rows beyond the valid count must read as zeros.
minfer_status check_outputs(minfer_plan& plan, const Counts& counts, minfer_error* error) {
  for (const BoundTensor& b : plan.bindings) {
    const minfer_tensor& t = plan.tensors[b.tensor];
    if (t.kind == MINFER_TENSOR_INPUT) continue;
    const uint64_t bytes = span_bytes(t);
    b.buffer->set_defined(b.offset, bytes, true);
    for (uint64_t i = valid_bytes(t, counts); i < bytes; ++i)
      if (b.buffer->data[b.offset + i] != 0)
        return world().violation(error, "'%s' is not zero beyond its valid rows, at byte %llu",
                                 plan.names[b.tensor].c_str(), static_cast<unsigned long long>(i));
  }
  return MINFER_OK;
}

void mark_pending(minfer_plan& plan, int by) {
  plan.pending += by;
  for (const BoundTensor& b : plan.bindings) b.buffer->pending += by;
  for (minfer_buffer* region : plan.kv_regions) region->pending += by;
  if (plan.workspace) plan.workspace->pending += by;
}

minfer_status run_now(minfer_plan& plan, minfer_queue* queue, const minfer_run_args& args,
                      minfer_error* error) {
  const Counts counts = {0, args.n_tokens, args.n_seqs, args.n_outs};
  minfer_status status = check_inputs(plan, counts, error);
  if (status != MINFER_OK) return status;
  poison_outputs(plan);
  status = inner().plan_run(plan.inner, queue->inner, &args, error);
  if (status == MINFER_OK) status = inner().queue_wait(queue->inner, error);
  return status == MINFER_OK ? check_outputs(plan, counts, error) : status;
}

/// The fault that a test ordered for this run, if any.
minfer_status ordered_fault(bool* queued) {
  const std::lock_guard lock(world().mutex);
  ++world().stats.runs;
  *queued = world().fail_queued;
  if (world().fail_in == 0 || --world().fail_in > 0) return MINFER_OK;
  return world().fail_status;
}

minfer_status plan_run(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                       minfer_error* error) {
  if (!plan->bound) return world().violation(error, "a plan runs before it is bound");
  if (queue->device != plan->device)
    return world().violation(error, "a plan runs on the queue of another device");
  bool late = false;
  const minfer_status fault = ordered_fault(&late);
  if (fault != MINFER_OK && !late) return set_error(error, fault, "a fault was ordered");
  minfer_run_args copy = *args;
  copy.gates = nullptr;
  mark_pending(*plan, 1);
  queue->work->push([=](minfer_error* run) {
    minfer_status status = MINFER_OK;
    if (run)
      status = fault != MINFER_OK ? set_error(run, fault, "a queued fault was ordered")
                                  : run_now(*plan, queue, copy, run);
    mark_pending(*plan, -1);
    return status;
  });
  return MINFER_OK;
}

minfer_status plan_describe(minfer_plan* plan, uint32_t node, minfer_node_report* out,
                            minfer_error* error) {
  return inner().plan_describe(plan->inner, node, out, error);
}

minfer_status plan_profile(minfer_plan* plan, minfer_node_time* out, uint32_t capacity, uint32_t* n,
                           minfer_error* error) {
  if (plan->pending > 0) return world().violation(error, "a plan is profiled while it is queued");
  if (!MINFER_HAS_FN(&inner(), plan_profile)) return MINFER_UNSUPPORTED;
  return inner().plan_profile(plan->inner, out, capacity, n, error);
}

void plan_destroy(minfer_plan* plan) {
  if (plan->pending > 0) world().violation(nullptr, "a plan is destroyed while it is queued");
  inner().plan_destroy(plan->inner);
  delete plan;
  const std::lock_guard lock(world().mutex);
  --world().stats.live_plans;
}

}  // namespace

void fill_plan_slots(minfer_plugin& table) {
  table.plan_compile = plan_compile;
  table.plan_bind = plan_bind;
  table.plan_run = plan_run;
  table.plan_describe = plan_describe;
  table.plan_profile = plan_profile;
  table.plan_destroy = plan_destroy;
}

}  // namespace minfer_sim
