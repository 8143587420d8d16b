// Import of placement units (see weights.h).
#include "weights.h"

#include "../kernels/layout.h"
#include "abi_read.h"
#include "uploader.h"

namespace minfer_cuda {

std::shared_ptr<const WeightEntry> WeightRegistry::find(uint64_t model, uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find({model, id});
  return it == entries_.end() ? nullptr : it->second.lock();
}

/// The import's view of the registry.
struct ImportAccess {
  static void publish(WeightRegistry& registry, uint64_t model, uint64_t id,
                      const std::shared_ptr<const WeightEntry>& entry) {
    const std::lock_guard lock(registry.mutex_);
    registry.entries_[{model, id}] = entry;
  }
};

namespace {

constexpr uint64_t kAlign = 256;

minfer_weight weight_at(const minfer_weight_unit& unit, uint32_t i) {
  return read_element(unit.weights, unit.weight_stride, i);
}

int64_t rows_of(const minfer_weight& w) {
  return w.ne[1] * w.ne[2] * w.ne[3];
}

bool is_matrix(const minfer_weight& w) {
  return (w.uses & (MINFER_USE_MATMUL | MINFER_USE_GATHER)) != 0;
}

/// Bytes of one weight on the device; throws when it cannot be held.
uint64_t device_bytes(const minfer_weight& w) {
  if (!is_matrix(w)) return w.bytes;
  const TypeLayout* layout = find_layout(w.type);
  if (!layout) {
    throw PluginError(MINFER_UNSUPPORTED,
                      text(w.name, ": no layout on cuda for matrices of type ", w.type));
  }
  if (!fits_rows(*layout, w.ne[0])) {
    throw PluginError(MINFER_UNSUPPORTED, text(w.name, ": rows of ", w.ne[0], " ", layout->name,
                                               " elements are no multiple of ", layout->block_k));
  }
  const auto expected = static_cast<uint64_t>(file_row_bytes(*layout, w.ne[0]) * rows_of(w));
  if (w.bytes != expected) {
    throw PluginError(MINFER_INVALID, text(w.name, ": ", w.bytes, " bytes, but ", layout->name,
                                           " of this shape has ", expected));
  }
  // The matrices of an expert weight start at row groups of their own.
  const int64_t matrices = w.ne[2] * w.ne[3];
  return tiled_bytes(*layout, w.ne[0], w.ne[1]) * static_cast<uint64_t>(matrices);
}

void require_in_mapping(const minfer_weight& w) {
  if (w.offset > w.mapping_bytes || w.bytes > w.mapping_bytes - w.offset) {
    throw PluginError(MINFER_INVALID, text(w.name, ": bytes ", w.offset, " to ", w.offset + w.bytes,
                                           " lie outside a mapping of ", w.mapping_bytes));
  }
}

uint64_t align_up(uint64_t n) {
  return (n + kAlign - 1) / kAlign * kAlign;
}

/// Bytes of the weights that no live import of the model holds yet.
uint64_t unit_bytes(Device& device, const minfer_weight_unit& unit) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < unit.n_weights; ++i) {
    const minfer_weight w = weight_at(unit, i);
    const uint64_t bytes = device_bytes(w);
    if (!device.weights().find(unit.model, w.id)) total += align_up(bytes);
  }
  return total;
}

void queue(Device& device, const minfer_weight& w, char* to) {
  const uint8_t* data = w.mapping + w.offset;
  if (!is_matrix(w)) {
    device.uploader().queue_plain(data, w.bytes, to);
    return;
  }
  const TypeLayout& layout = *find_layout(w.type);
  const int64_t matrices = w.ne[2] * w.ne[3];
  const uint64_t file_bytes = w.bytes / static_cast<uint64_t>(matrices);
  const uint64_t tiled = tiled_bytes(layout, w.ne[0], w.ne[1]);
  for (int64_t m = 0; m < matrices; ++m) {
    const auto i = static_cast<uint64_t>(m);
    device.uploader().queue_matrix(layout, data + i * file_bytes, w.ne[0], w.ne[1], to + i * tiled);
  }
}

std::unique_ptr<minfer_weights> import_unit(Device& device, const minfer_weight_unit& unit) {
  const std::lock_guard lock(device.uploader().mutex());
  auto memory = std::make_shared<const DeviceMemory>(device, unit_bytes(device, unit), "weights");
  auto result = std::make_unique<minfer_weights>();
  char* at = memory->get();
  try {
    for (uint32_t i = 0; i < unit.n_weights; ++i) {
      const minfer_weight w = weight_at(unit, i);
      require_in_mapping(w);
      if (auto shared = device.weights().find(unit.model, w.id)) {
        result->entries.push_back(std::move(shared));
        continue;
      }
      auto entry = std::make_shared<WeightEntry>();
      entry->memory = memory;
      entry->data = at;
      entry->type = w.type;
      entry->tiled = is_matrix(w);
      std::copy(std::begin(w.ne), std::end(w.ne), entry->ne);
      queue(device, w, at);
      at += align_up(device_bytes(w));
      result->entries.push_back(std::move(entry));
    }
    device.uploader().run();
  } catch (...) {
    // The allocation must not be freed under a running copy.
    device.uploader().release_staging();
    throw;
  }
  for (uint32_t i = 0; i < unit.n_weights; ++i) {
    const minfer_weight w = weight_at(unit, i);
    ImportAccess::publish(device.weights(), unit.model, w.id, result->entries[i]);
    if (unit.release) unit.release(unit.release_ctx, w.id);
  }
  return result;
}

minfer_status weights_size(minfer_device* device, const minfer_weight_unit* unit,
                           const minfer_gate_values*, uint64_t* bytes, minfer_error* error) {
  return guard(error, [&] { *bytes = unit_bytes(*device, read_struct(unit)); });
}

minfer_status weights_import(minfer_device* device, const minfer_weight_unit* unit,
                             const minfer_gate_values*, minfer_weights** out, minfer_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device->caps().ordinal);
    *out = import_unit(*device, read_struct(unit)).release();
  });
}

void weights_free(minfer_weights* weights) {
  delete weights;
}

}  // namespace

void fill_weight_table(minfer_plugin& table) {
  table.weights_size = weights_size;
  table.weights_import = weights_import;
  table.weights_free = weights_free;
}

}  // namespace minfer_cuda
