// Devices of the simulation: memory, what they refuse, weights with counted releases, KV sizes.
#include <algorithm>

#include "sim.h"

/// An import, with every release counted.
struct minfer_weights {
  minfer_device* device = nullptr;
  minfer_weights* inner = nullptr;
  uint64_t bytes = 0;
  uint64_t model = 0;
  minfer_release_fn release = nullptr;
  void* release_ctx = nullptr;
  std::mutex mutex;
  std::map<uint64_t, int> releases;  ///< by weight id
};

namespace minfer_sim {
namespace {

minfer_status device_enumerate(minfer_device_info* out, uint32_t stride, uint32_t capacity,
                               uint32_t* n, minfer_error*) {
  static const char* const kDetails[kDevices] = {"first", "second"};
  for (uint32_t i = 0; i < std::min(capacity, kDevices); ++i) {
    minfer_device_info info{};
    info.struct_size = sizeof info;
    info.kind = MINFER_DEVICE_OTHER;
    info.score = 50;
    info.name = "simulated device";
    info.details = kDetails[i];
    info.buffer_alignment = kAlignment;
    std::memcpy(reinterpret_cast<char*>(out) + uint64_t{i} * stride, &info,
                std::min<size_t>(stride, sizeof info));
  }
  *n = kDevices;
  return MINFER_OK;
}

minfer_status device_open(uint32_t index, const minfer_gate_values* gates, minfer_device** out,
                          minfer_error* error) {
  auto device = std::make_unique<minfer_device>();
  const minfer_status status = inner().device_open(0, nullptr, &device->inner, error);
  if (status != MINFER_OK) return status;
  device->index = index;
  device->extra_workspace = gates && gates->n > 0 ? gates->values[0] : 0;
  const std::lock_guard lock(world().mutex);
  device->memory = world().memory ? world().memory : uint64_t{4} << 30;
  device->threaded = world().threaded;
  *out = device.release();
  return MINFER_OK;
}

void device_close(minfer_device* device) {
  if (device->held != 0)
    world().violation(nullptr, "a device is closed while %llu bytes are held",
                      static_cast<unsigned long long>(device->held.load()));
  inner().device_close(device->inner);
  delete device;
}

minfer_status device_memory(minfer_device* device, minfer_memory* out, minfer_error*) {
  minfer_memory memory{};
  memory.struct_size = sizeof memory;
  memory.total = device->memory;
  memory.held = device->held;
  memory.peak = device->peak;
  memory.free = memory.total - std::min(memory.total, memory.held);
  *out = memory;
  return MINFER_OK;
}

minfer_status supports(minfer_device* device, const minfer_split* split, const minfer_gate_values*,
                       minfer_verdict* out, minfer_error* error) {
  uint32_t op = MINFER_NONE;
  uint32_t type = MINFER_NONE;
  if (device->index == 0) {
    const std::lock_guard lock(world().mutex);
    op = world().refused_op;
    type = world().refused_type;
  }
  for (uint32_t n = 0; n < split->n_nodes; ++n) {
    if (split->nodes[n].op != op) continue;
    out->supported = 0;
    out->node = n;
    out->tensor = MINFER_NONE;
    snprintf(out->reason, sizeof out->reason, "this simulated device has no operator %u", op);
    return MINFER_OK;
  }
  for (uint32_t t = 0; t < split->n_tensors; ++t) {
    if (split->tensors[t].type != type || split->tensors[t].kind != MINFER_TENSOR_WEIGHT) continue;
    out->supported = 0;
    out->node = MINFER_NONE;
    out->tensor = t;
    snprintf(out->reason, sizeof out->reason, "weights of type %u are unknown here", type);
    return MINFER_OK;
  }
  return inner().supports(device->inner, split, nullptr, out, error);
}

minfer_status weights_size(minfer_device* device, const minfer_weight_unit* unit,
                           const minfer_gate_values*, uint64_t* bytes, minfer_error* error) {
  return inner().weights_size(device->inner, unit, nullptr, bytes, error);
}

void count_release(void* context, uint64_t id) {
  auto& import = *static_cast<minfer_weights*>(context);
  {
    const std::lock_guard lock(import.mutex);
    if (++import.releases[id] > 1)
      world().violation(nullptr, "weight %llu is released twice",
                        static_cast<unsigned long long>(id));
  }
  {
    const std::lock_guard lock(world().mutex);
    ++world().stats.released;
  }
  import.release(import.release_ctx, id);
}

minfer_status weights_import(minfer_device* device, const minfer_weight_unit* unit,
                             const minfer_gate_values*, minfer_weights** out, minfer_error* error) {
  auto import = std::make_unique<minfer_weights>();
  minfer_status status = inner().weights_size(device->inner, unit, nullptr, &import->bytes, error);
  if (status != MINFER_OK) return status;
  if (world().allocation_fails() || device->held + import->bytes > device->memory)
    return set_error(error, MINFER_OOM_DEVICE, "weights of %llu bytes, %llu of %llu are held",
                     static_cast<unsigned long long>(import->bytes),
                     static_cast<unsigned long long>(device->held.load()),
                     static_cast<unsigned long long>(device->memory));
  import->device = device;
  import->model = unit->model;
  import->release = unit->release;
  import->release_ctx = unit->release_ctx;
  minfer_weight_unit counted = *unit;
  counted.release = count_release;
  counted.release_ctx = import.get();
  status = inner().weights_import(device->inner, &counted, nullptr, &import->inner, error);
  if (status != MINFER_OK) return status;
  device->take(import->bytes);
  {
    const std::lock_guard lock(device->mutex);
    for (uint32_t i = 0; i < unit->n_weights; ++i) {
      device->imported.emplace(unit->model, unit->weights[i].id);
      import->releases[unit->weights[i].id] += 0;
    }
  }
  const std::lock_guard lock(world().mutex);
  world().stats.imported += unit->n_weights;
  ++world().stats.live_imports;
  *out = import.release();
  return MINFER_OK;
}

void weights_free(minfer_weights* weights) {
  inner().weights_free(weights->inner);
  for (const auto& [id, count] : weights->releases)
    if (count != 1)
      world().violation(nullptr, "weight %llu was released %d times",
                        static_cast<unsigned long long>(id), count);
  minfer_device* device = weights->device;
  device->held -= weights->bytes;
  {
    const std::lock_guard lock(device->mutex);
    for (const auto& [id, count] : weights->releases) {
      auto [first, last] = device->imported.equal_range(weights->model);
      const auto it = std::find_if(first, last, [&](const auto& e) { return e.second == id; });
      if (it != last) device->imported.erase(it);
    }
  }
  delete weights;
  const std::lock_guard lock(world().mutex);
  --world().stats.live_imports;
}

minfer_status kv_page_sizes(minfer_device* device, const minfer_kv_desc* kv, uint32_t* sizes,
                            uint32_t* n, minfer_error* error) {
  return inner().kv_page_sizes(device->inner, kv, sizes, n, error);
}

minfer_status kv_page_bytes(minfer_device* device, const minfer_kv_desc* kv, uint64_t* bytes,
                            minfer_error* error) {
  return inner().kv_page_bytes(device->inner, kv, bytes, error);
}

}  // namespace

void fill_device_slots(minfer_plugin& table) {
  table.device_enumerate = device_enumerate;
  table.device_open = device_open;
  table.device_close = device_close;
  table.device_memory = device_memory;
  table.supports = supports;
  table.weights_size = weights_size;
  table.weights_import = weights_import;
  table.weights_free = weights_free;
  table.kv_page_sizes = kv_page_sizes;
  table.kv_page_bytes = kv_page_bytes;
}

}  // namespace minfer_sim
