// Buffers, pinned memory, queues and events of the simulated device.
#include <algorithm>
#include <cstdlib>

#include "sim.h"

namespace minfer_sim {
namespace {

bool is_pinned(const void* data, uint64_t bytes) {
  const auto* begin = static_cast<const uint8_t*>(data);
  const std::lock_guard lock(world().mutex);
  auto it = world().pinned.upper_bound(begin);
  if (it == world().pinned.begin()) return false;
  --it;
  return begin + bytes <= it->first + it->second;
}

minfer_status check_range(const minfer_queue* queue, const minfer_buffer* buffer, uint64_t offset,
                          uint64_t bytes, minfer_error* error) {
  if (buffer->device != queue->device)
    return world().violation(error, "a buffer of device %u on a queue of device %u",
                             buffer->device->index, queue->device->index);
  if (offset > buffer->bytes || bytes > buffer->bytes - offset)
    return world().violation(
        error, "bytes %llu + %llu of a buffer of %llu", static_cast<unsigned long long>(offset),
        static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(buffer->bytes));
  return MINFER_OK;
}

minfer_status buffer_alloc(minfer_device* device, uint64_t bytes, minfer_buffer** out,
                           minfer_error* error) {
  if (world().allocation_fails() ||
      bytes > device->memory - std::min<uint64_t>(device->memory, device->held))
    return set_error(error, MINFER_OOM_DEVICE, "%llu bytes asked for, %llu of %llu are held",
                     static_cast<unsigned long long>(bytes),
                     static_cast<unsigned long long>(device->held.load()),
                     static_cast<unsigned long long>(device->memory));
  auto buffer = std::make_unique<minfer_buffer>();
  const minfer_status status = inner().buffer_alloc(device->inner, bytes, &buffer->inner, error);
  if (status != MINFER_OK) return status;
  buffer->device = device;
  buffer->bytes = bytes;
  buffer->data = static_cast<uint8_t*>(inner().buffer_host_pointer(buffer->inner));
  buffer->defined.assign((bytes + 3) / 4, false);
  std::memset(buffer->data, kPoison, bytes);
  device->take(bytes);
  const std::lock_guard lock(world().mutex);
  ++world().stats.live_buffers;
  *out = buffer.release();
  return MINFER_OK;
}

void buffer_free(minfer_buffer* buffer) {
  if (buffer->pending > 0)
    world().violation(nullptr, "a buffer is freed while work is queued on it");
  std::memset(buffer->data, kPoison, buffer->bytes);
  inner().buffer_free(buffer->inner);
  buffer->device->held -= buffer->bytes;
  delete buffer;
  const std::lock_guard lock(world().mutex);
  --world().stats.live_buffers;
}

minfer_status buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                           const void* data, uint64_t bytes, minfer_error* error) {
  const minfer_status status = check_range(queue, buffer, offset, bytes, error);
  if (status != MINFER_OK) return status;
  // Pinned memory is read when the copy runs, anything else now.
  std::vector<uint8_t> copy;
  const auto* from = static_cast<const uint8_t*>(data);
  const bool late = is_pinned(data, bytes);
  if (!late) copy.assign(from, from + bytes);
  ++buffer->pending;
  queue->work->push([=, copy = std::move(copy)](minfer_error* run) {
    if (run) {
      std::memcpy(buffer->data + offset, late ? from : copy.data(), bytes);
      buffer->set_defined(offset, bytes, true);
    }
    --buffer->pending;
    return MINFER_OK;
  });
  return MINFER_OK;
}

minfer_status buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset, void* data,
                          uint64_t bytes, minfer_error* error) {
  const minfer_status status = check_range(queue, buffer, offset, bytes, error);
  if (status != MINFER_OK) return status;
  std::memset(data, kPoison, bytes);  // whoever looks too early sees this
  ++buffer->pending;
  queue->work->push([=](minfer_error* run) {
    minfer_status result = MINFER_OK;
    if (run) {
      const uint64_t bad = buffer->first_undefined(offset, bytes);
      if (bad < bytes)
        result = world().violation(
            run, "a read of %llu bytes at %llu meets byte %llu, never written",
            static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(offset),
            static_cast<unsigned long long>(bad));
      std::memcpy(data, buffer->data + offset, bytes);
    }
    --buffer->pending;
    return result;
  });
  return is_pinned(data, bytes) ? MINFER_OK : queue->work->wait(queue->work->pushed(), error);
}

minfer_status host_alloc(minfer_device*, uint64_t bytes, void** out, minfer_error* error) {
  void* memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!memory) return set_error(error, MINFER_OOM_HOST, "no host memory");
  std::memset(memory, kPoison, bytes);
  const std::lock_guard lock(world().mutex);
  world().pinned.emplace(static_cast<uint8_t*>(memory), bytes);
  *out = memory;
  return MINFER_OK;
}

void host_free(minfer_device*, void* memory) {
  {
    const std::lock_guard lock(world().mutex);
    world().pinned.erase(static_cast<uint8_t*>(memory));
  }
  std::free(memory);
}

minfer_status queue_create(minfer_device* device, minfer_queue** out, minfer_error* error) {
  auto queue = std::make_unique<minfer_queue>();
  queue->device = device;
  const minfer_status status = inner().queue_create(device->inner, &queue->inner, error);
  if (status != MINFER_OK) return status;
  queue->work = std::make_unique<WorkQueue>(device->threaded);
  *out = queue.release();
  return MINFER_OK;
}

void queue_destroy(minfer_queue* queue) {
  if (!queue->work->idle()) world().violation(nullptr, "a queue is destroyed with work on it");
  queue->work->finish(nullptr);
  queue->work.reset();
  inner().queue_destroy(queue->inner);
  delete queue;
}

minfer_status queue_wait(minfer_queue* queue, minfer_error* error) {
  return queue->work->finish(error);
}

minfer_status queue_cancel(minfer_queue* queue, minfer_error*) {
  queue->work->cancel();
  return MINFER_OK;
}

minfer_status event_create(minfer_device*, minfer_event** out, minfer_error*) {
  *out = new minfer_event;
  return MINFER_OK;
}

void event_destroy(minfer_event* event) {
  delete event;
}

minfer_status event_record(minfer_event* event, minfer_queue* queue, minfer_error*) {
  event->queue = queue;
  event->ticket = queue->work->pushed();
  return MINFER_OK;
}

minfer_status event_wait(minfer_event* event, minfer_error* error) {
  if (!event->queue) return world().violation(error, "a wait for an event that was never recorded");
  return event->queue->work->wait(event->ticket, error);
}

minfer_status event_query(minfer_event* event, minfer_error* error) {
  if (!event->queue) return world().violation(error, "a query of an event that was never recorded");
  return event->queue->work->query(event->ticket, error);
}

minfer_status kv_copy_pages(minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
                            const uint32_t* from, const uint32_t* to, uint32_t n, minfer_error*) {
  ++region->pending;
  {
    const std::lock_guard lock(world().mutex);
    world().stats.page_copies += n;
  }
  queue->work->push([=, desc = *kv, source = std::vector<uint32_t>(from, from + n),
                     target = std::vector<uint32_t>(to, to + n)](minfer_error* run) {
    minfer_status status = MINFER_OK;
    if (run) {
      status = inner().kv_copy_pages(queue->inner, &desc, region->inner, source.data(),
                                     target.data(), n, run);
      if (status == MINFER_OK) status = inner().queue_wait(queue->inner, run);
    }
    --region->pending;
    return status;
  });
  return MINFER_OK;
}

}  // namespace

void fill_memory_slots(minfer_plugin& table) {
  table.kv_copy_pages = kv_copy_pages;
  table.buffer_alloc = buffer_alloc;
  table.buffer_free = buffer_free;
  table.buffer_host_pointer = [](minfer_buffer*) -> void* { return nullptr; };
  table.buffer_write = buffer_write;
  table.buffer_read = buffer_read;
  table.host_alloc = host_alloc;
  table.host_free = host_free;
  table.queue_create = queue_create;
  table.queue_destroy = queue_destroy;
  table.queue_wait = queue_wait;
  table.queue_cancel = queue_cancel;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_wait = event_wait;
  table.event_query = event_query;
}

}  // namespace minfer_sim
