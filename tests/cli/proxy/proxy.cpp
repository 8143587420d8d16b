// A backend for tests of the tools: the CPU plugin behind gates whose effect is known.
//
// Every call is passed on to the CPU plugin through the C ABI; plans are wrapped. What its gates do
// is stated at their table. It exists so that a comparison can be shown to find what was planted
// and nothing else. Threads as the CPU plugin.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "minfer/plugin_abi.h"

namespace {

using Clock = std::chrono::steady_clock;

enum GateIndex : uint32_t { kDelay, kNull, kHidden, kWrong, kRounding, kReimport, kRefuse, kGates };

constexpr minfer_gate bool_gate(const char* name, const char* help, uint32_t scope,
                                uint32_t affects_numerics) {
  return {
      sizeof(minfer_gate), MINFER_GATE_BOOL, scope, affects_numerics, name, help, 0, 0, 1, nullptr};
}

constexpr minfer_gate kGateTable[kGates] = {
    {sizeof(minfer_gate), MINFER_GATE_INT, MINFER_SCOPE_PLAN, 0, "MINFER_PROXY_DELAY",
     "Every run takes so many percent longer; shown in the labels.", 0, 0, 1000, nullptr},
    bool_gate("MINFER_PROXY_NULL", "Changes labels and nothing else.", MINFER_SCOPE_PLAN, 0),
    bool_gate("MINFER_PROXY_HIDDEN", "Changes nothing, labels included.", MINFER_SCOPE_PLAN, 0),
    bool_gate("MINFER_PROXY_WRONG", "Logits are wrong where rounding is declared.",
              MINFER_SCOPE_PLAN, 1),
    bool_gate("MINFER_PROXY_ROUNDING", "Logits are rounded where nothing is declared.",
              MINFER_SCOPE_PLAN, 0),
    bool_gate("MINFER_PROXY_REIMPORT", "A null gate of scope load.", MINFER_SCOPE_LOAD, 0),
    bool_gate("MINFER_PROXY_REFUSE", "The device takes no attention.", MINFER_SCOPE_LOAD, 0),
};

const minfer_plugin* inner = nullptr;

int64_t gate(const minfer_gate_values* values, GateIndex index) {
  return values != nullptr && index < values->n ? values->values[index] : 0;
}

}  // namespace

/// A plan of the CPU plugin, with what its gates say.
struct minfer_plan {
  minfer_plan* plan = nullptr;
  int64_t values[kGates] = {};
  std::vector<uint32_t> outputs;  ///< escaping f32 tensors
  std::vector<float*> memory;     ///< where those are bound
  std::vector<int64_t> lengths;   ///< of a row of each
};

namespace {

minfer_status device_open(uint32_t index, const minfer_gate_values*, minfer_device** out,
                          minfer_error* error) {
  return inner->device_open(index, nullptr, out, error);
}
minfer_status supports(minfer_device* device, const minfer_split* split,
                       const minfer_gate_values* gates, minfer_verdict* out, minfer_error* error) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(split->nodes);
  for (uint32_t i = 0; i < split->n_nodes && gate(gates, kRefuse) != 0; ++i) {
    const auto* node = reinterpret_cast<const minfer_node*>(bytes + size_t{i} * split->node_stride);
    if (node->op != MINFER_OP_ATTENTION) continue;
    out->supported = 0;
    out->node = i;
    out->tensor = MINFER_NONE;
    std::snprintf(out->reason, sizeof out->reason, "no attention here");
    return MINFER_OK;
  }
  return inner->supports(device, split, nullptr, out, error);
}
minfer_status weights_size(minfer_device* device, const minfer_weight_unit* unit,
                           const minfer_gate_values*, uint64_t* bytes, minfer_error* error) {
  return inner->weights_size(device, unit, nullptr, bytes, error);
}
minfer_status weights_import(minfer_device* device, const minfer_weight_unit* unit,
                             const minfer_gate_values*, minfer_weights** out, minfer_error* error) {
  return inner->weights_import(device, unit, nullptr, out, error);
}

minfer_status plan_compile(minfer_device* device, const minfer_split* split,
                           const minfer_gate_values* gates, minfer_plan** out,
                           minfer_plan_info* info, minfer_error* error) {
  auto* plan = new minfer_plan;
  const minfer_status status =
      inner->plan_compile(device, split, nullptr, &plan->plan, info, error);
  if (status != MINFER_OK) {
    delete plan;
    return status;
  }
  for (uint32_t i = 0; i < kGates; ++i) plan->values[i] = gate(gates, static_cast<GateIndex>(i));
  const auto* bytes = reinterpret_cast<const uint8_t*>(split->tensors);
  for (uint32_t i = 0; i < split->n_tensors; ++i) {
    const auto* t =
        reinterpret_cast<const minfer_tensor*>(bytes + size_t{i} * split->tensor_stride);
    const bool output = t->kind == MINFER_TENSOR_ACTIVATION && (t->flags & MINFER_FLAG_ESCAPES);
    if (!output || t->type != MINFER_TYPE_F32) continue;
    plan->outputs.push_back(i);
    plan->memory.push_back(nullptr);
    plan->lengths.push_back(t->ne[0]);
  }
  *out = plan;
  return MINFER_OK;
}

minfer_status plan_bind(minfer_plan* plan, const minfer_bindings* bindings, minfer_error* error) {
  for (uint32_t b = 0; b < bindings->n_bindings; ++b) {
    const minfer_binding& binding = bindings->bindings[b];
    for (size_t i = 0; i < plan->outputs.size(); ++i)
      if (plan->outputs[i] == binding.tensor)
        plan->memory[i] = reinterpret_cast<float*>(
            static_cast<uint8_t*>(inner->buffer_host_pointer(binding.buffer)) + binding.offset);
  }
  return inner->plan_bind(plan->plan, bindings, error);
}

/// Doubles every third logit, or nudges each by a part in a million.
void spoil(const minfer_plan& plan, uint32_t rows) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    float* values = plan.memory[i];
    const int64_t n = plan.lengths[i] * rows;
    for (int64_t k = 0; values != nullptr && k < n; ++k) {
      if (plan.values[kWrong] != 0 && k % 3 == 0) values[k] *= 2;
      if (plan.values[kRounding] != 0) values[k] *= 1.000001f;
    }
  }
}

minfer_status plan_run(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                       minfer_error* error) {
  minfer_run_args passed = *args;
  passed.gates = nullptr;
  const Clock::time_point start = Clock::now();
  const minfer_status status = inner->plan_run(plan->plan, queue, &passed, error);
  if (status != MINFER_OK) return status;
  if (plan->values[kWrong] != 0 || plan->values[kRounding] != 0) spoil(*plan, args->n_outs);
  // Spinning, as a sleep has a granularity of its own. The CPU plugin has completed the run by now.
  const Clock::duration took = Clock::now() - start;
  const Clock::time_point end = start + took + took * plan->values[kDelay] / 100;
  while (Clock::now() < end) {
  }
  return MINFER_OK;
}

minfer_status plan_describe(minfer_plan* plan, uint32_t node, minfer_node_report* out,
                            minfer_error* error) {
  const minfer_status status = inner->plan_describe(plan->plan, node, out, error);
  if (status != MINFER_OK) return status;
  for (const GateIndex shown : {kDelay, kNull, kWrong, kRounding}) {
    const size_t used = std::strlen(out->kernel);
    if (plan->values[shown] != 0 && used > 0)
      std::snprintf(out->kernel + used, sizeof out->kernel - used, "+%s",
                    kGateTable[shown].name + std::strlen("MINFER_PROXY_"));
  }
  return MINFER_OK;
}

minfer_status plan_profile(minfer_plan* plan, minfer_node_time* out, uint32_t capacity, uint32_t* n,
                           minfer_error* error) {
  return inner->plan_profile(plan->plan, out, capacity, n, error);
}

void plan_destroy(minfer_plan* plan) {
  inner->plan_destroy(plan->plan);
  delete plan;
}

minfer_plugin make_table() {
  minfer_plugin table = *inner;
  table.backend = "proxy";
  table.description = "the CPU plugin behind gates of known effect";
  table.n_gates = kGates;
  table.gate_stride = sizeof(minfer_gate);
  table.gates = kGateTable;
  table.device_open = device_open;
  table.supports = supports;
  table.weights_size = weights_size;
  table.weights_import = weights_import;
  table.plan_compile = plan_compile;
  table.plan_bind = plan_bind;
  table.plan_run = plan_run;
  table.plan_describe = plan_describe;
  table.plan_profile = plan_profile;
  table.plan_destroy = plan_destroy;
  return table;
}

}  // namespace

extern "C" MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v1(const minfer_host* host,
                                                                     const minfer_plugin** out,
                                                                     minfer_error* error) {
  if (inner == nullptr) {
    void* library = dlopen(PROXY_OF, RTLD_NOW | RTLD_LOCAL);
    auto* query =
        library == nullptr
            ? nullptr
            : reinterpret_cast<minfer_plugin_query_fn>(dlsym(library, MINFER_QUERY_SYMBOL));
    if (query == nullptr) {
      std::snprintf(error->text, sizeof error->text, "proxy: %s", dlerror());
      return MINFER_INTERNAL;
    }
    if (const minfer_status status = query(host, &inner, error); status != MINFER_OK) return status;
  }
  static const minfer_plugin table = make_table();
  *out = &table;
  return MINFER_OK;
}
