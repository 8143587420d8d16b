#include "plugin/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "minfer/log.h"

namespace minfer {

PluginDevice::PluginDevice(std::shared_ptr<const Plugin> plugin, DeviceInfo info,
                           std::vector<int64_t> gates)
    : plugin_(std::move(plugin)), table_(plugin_->table), info_(std::move(info)) {
  set_gates(std::move(gates));
}

PluginDevice::~PluginDevice() {
  if (!raw_) return;
  try {
    table_.device_close(raw_);
  } catch (...) {
    log(LogLevel::kError, fmt::format("{}: device_close threw an exception", info_.id));
  }
}

Result<void> PluginDevice::open() {
  MINFER_TRY(call("device_open", [&](minfer_error* e) {
    return table_.device_open(info_.index, &gates_, &raw_, e);
  }));
  if (!raw_) return broken("device_open", "it succeeded and returned NULL");
  return {};
}

Result<std::shared_ptr<Device>> open_device(std::shared_ptr<const Plugin> plugin,
                                            const DeviceInfo& info, std::vector<int64_t> gates) {
  auto device = std::make_shared<PluginDevice>(std::move(plugin), info, std::move(gates));
  MINFER_TRY(device->open());
  return device;
}

bool PluginDevice::has_op(uint32_t op, uint32_t revision) const {
  return std::any_of(plugin_->ops.begin(), plugin_->ops.end(), [&](const minfer_op_support& known) {
    return known.op == op && known.revision >= revision;
  });
}

void PluginDevice::set_gates(std::vector<int64_t> values) {
  // A plugin indexes the values by its own table, so there are always as many as it declared.
  for (size_t i = values.size(); i < plugin_->gates.size(); ++i)
    values.push_back(plugin_->gates[i].default_value);
  values.resize(plugin_->gates.size());
  gate_values_ = std::move(values);
  gates_ = {.struct_size = sizeof(minfer_gate_values),
            .n = static_cast<uint32_t>(gate_values_.size()),
            .values = gate_values_.data()};
}

Result<minfer_memory> PluginDevice::memory() {
  minfer_memory out{};
  out.struct_size = sizeof(out);
  MINFER_TRY(
      call("device_memory", [&](minfer_error* e) { return table_.device_memory(raw_, &out, e); }));
  if (out.total != 0 && out.free > out.total)
    return broken("device_memory",
                  fmt::format("free = {} exceeds total = {}", out.free, out.total));
  if (out.held > out.peak)
    return broken("device_memory", fmt::format("held = {} exceeds peak = {}", out.held, out.peak));
  return out;
}

Result<BufferHandle> PluginDevice::buffer_alloc(uint64_t bytes) {
  if (info_.max_buffer_bytes != 0 && bytes > info_.max_buffer_bytes)
    return fail(ErrorCode::kOutOfMemory,
                fmt::format("a buffer of {} bytes exceeds the device's largest, {} bytes", bytes,
                            info_.max_buffer_bytes),
                info_.id);
  return create<minfer_buffer>("buffer_alloc", table_.buffer_free,
                               [&](minfer_buffer** out, minfer_error* e) {
                                 return table_.buffer_alloc(raw_, bytes, out, e);
                               });
}

Result<void> PluginDevice::buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                        const void* data, uint64_t bytes) {
  return call("buffer_write", [&](minfer_error* e) {
    return table_.buffer_write(queue, buffer, offset, data, bytes, e);
  });
}

Result<void> PluginDevice::buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                       void* data, uint64_t bytes) {
  return call("buffer_read", [&](minfer_error* e) {
    return table_.buffer_read(queue, buffer, offset, data, bytes, e);
  });
}

Result<std::shared_ptr<void>> PluginDevice::host_alloc(uint64_t bytes) {
  constexpr uint64_t kAlign = 4096;
  if (!table_.host_alloc) {
    if (bytes > SIZE_MAX - kAlign)
      return fail(ErrorCode::kOutOfMemory, fmt::format("{} bytes of host memory", bytes), info_.id);
    const size_t rounded = std::max<size_t>(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
    void* memory = std::aligned_alloc(kAlign, rounded);
    if (!memory)
      return fail(ErrorCode::kOutOfMemory, fmt::format("{} bytes of host memory", bytes), info_.id);
    return std::shared_ptr<void>(memory, std::free);
  }
  void* memory = nullptr;
  MINFER_TRY(call("host_alloc",
                  [&](minfer_error* e) { return table_.host_alloc(raw_, bytes, &memory, e); }));
  if (!memory) return broken("host_alloc", "it succeeded and returned NULL");
  auto self = std::static_pointer_cast<PluginDevice>(shared_from_this());
  return std::shared_ptr<void>(memory, [self](void* p) { self->table_.host_free(self->raw_, p); });
}

Result<QueueHandle> PluginDevice::queue_create() {
  return create<minfer_queue>(
      "queue_create", table_.queue_destroy,
      [&](minfer_queue** out, minfer_error* e) { return table_.queue_create(raw_, out, e); });
}

Result<void> PluginDevice::queue_wait(minfer_queue* queue) {
  return call("queue_wait", [&](minfer_error* e) { return table_.queue_wait(queue, e); });
}

Result<void> PluginDevice::queue_cancel(minfer_queue* queue) {
  if (!table_.queue_cancel) return absent("queue_cancel");
  return call("queue_cancel", [&](minfer_error* e) { return table_.queue_cancel(queue, e); });
}

Result<EventHandle> PluginDevice::event_create() {
  return create<minfer_event>(
      "event_create", table_.event_destroy,
      [&](minfer_event** out, minfer_error* e) { return table_.event_create(raw_, out, e); });
}

Result<void> PluginDevice::event_record(minfer_event* event, minfer_queue* queue) {
  return call("event_record",
              [&](minfer_error* e) { return table_.event_record(event, queue, e); });
}

Result<void> PluginDevice::event_wait(minfer_event* event) {
  return call("event_wait", [&](minfer_error* e) { return table_.event_wait(event, e); });
}

Result<bool> PluginDevice::event_query(minfer_event* event) {
  minfer_error error;
  const minfer_status status =
      guarded_call(error, [&](minfer_error* e) { return table_.event_query(event, e); });
  if (status == MINFER_OK) return true;
  if (status == MINFER_NOT_READY) return false;
  return tl::make_unexpected(status_error(status, error, info_.id, "event_query"));
}

}  // namespace minfer
