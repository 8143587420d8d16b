// Queues, events, buffers and copies (see queue.h).
#include "queue.h"

using minfer_cuda::check;
using minfer_cuda::DeviceMemory;
using minfer_cuda::DeviceScope;
using minfer_cuda::guard;
using minfer_cuda::PluginError;
using minfer_cuda::text;

namespace minfer_cuda {

void Fault::require_none() const {
  if (status != MINFER_OK) throw PluginError(status, message);
}

void Fault::raise(cudaError_t error, int ordinal, const char* where) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  status = status_of(error);
  message = text("cuda:", ordinal, ": ", where, ": ", cudaGetErrorString(error), " (",
                 cudaGetErrorName(error), ")");
  throw PluginError(status, message);
}

}  // namespace minfer_cuda

char* minfer_buffer::at(uint64_t offset, uint64_t bytes) const {
  if (offset > memory.bytes() || bytes > memory.bytes() - offset) {
    throw PluginError(MINFER_INVALID, text("bytes ", offset, " to ", offset + bytes,
                                           " lie outside a buffer of ", memory.bytes()));
  }
  return memory.get() + offset;
}

namespace minfer_cuda {
namespace {

minfer_status buffer_alloc(minfer_device* device, uint64_t bytes, minfer_buffer** out,
                           minfer_error* error) {
  return guard(error, [&] {
    auto buffer = std::make_unique<minfer_buffer>();
    buffer->device = device;
    buffer->memory = DeviceMemory(*device, bytes, "a buffer");
    *out = buffer.release();
  });
}

void buffer_free(minfer_buffer* buffer) {
  delete buffer;
}

void* buffer_host_pointer(minfer_buffer*) {
  return nullptr;
}

minfer_status buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                           const void* data, uint64_t bytes, minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    if (bytes == 0) return;
    char* to = buffer->at(offset, bytes);
    const DeviceScope scope(queue->device->caps().ordinal);
    queue->raise(cudaMemcpyAsync(to, data, bytes, cudaMemcpyHostToDevice, queue->stream),
                 "copy to the device");
  });
}

minfer_status buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset, void* data,
                          uint64_t bytes, minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    if (bytes == 0) return;
    const char* from = buffer->at(offset, bytes);
    const DeviceScope scope(queue->device->caps().ordinal);
    queue->raise(cudaMemcpyAsync(data, from, bytes, cudaMemcpyDeviceToHost, queue->stream),
                 "copy from the device");
  });
}

minfer_status buffer_copy(minfer_queue* queue, minfer_buffer* to, uint64_t to_offset,
                          minfer_buffer* from, uint64_t from_offset, uint64_t bytes,
                          minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    if (bytes == 0) return;
    char* target = to->at(to_offset, bytes);
    const char* source = from->at(from_offset, bytes);
    const DeviceScope scope(queue->device->caps().ordinal);
    queue->raise(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, queue->stream),
                 "copy on the device");
  });
}

minfer_status host_alloc(minfer_device* device, uint64_t bytes, void** out, minfer_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device->caps().ordinal);
    void* memory = nullptr;
    const cudaError_t result = cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocDefault);
    if (result == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw PluginError(MINFER_OOM_HOST, text("cuda: no ", bytes, " bytes of pinned host memory"));
    }
    check(result, "cudaHostAlloc");
    *out = memory;
  });
}

void host_free(minfer_device* device, void* memory) {
  if (!memory) return;
  const DeviceScope scope(device->caps().ordinal);
  cudaFreeHost(memory);
  cudaGetLastError();
}

minfer_status queue_create(minfer_device* device, minfer_queue** out, minfer_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device->caps().ordinal);
    auto queue = std::make_unique<minfer_queue>();
    queue->device = device;
    check(cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking), "create a stream");
    *out = queue.release();
  });
}

void queue_destroy(minfer_queue* queue) {
  if (!queue) return;
  const DeviceScope scope(queue->device->caps().ordinal);
  cudaStreamSynchronize(queue->stream);
  cudaStreamDestroy(queue->stream);
  cudaGetLastError();
  delete queue;
}

minfer_status queue_wait(minfer_queue* queue, minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    const DeviceScope scope(queue->device->caps().ordinal);
    queue->raise(cudaStreamSynchronize(queue->stream), "wait for a queue");
  });
}

minfer_status event_create(minfer_device* device, minfer_event** out, minfer_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device->caps().ordinal);
    auto event = std::make_unique<minfer_event>();
    event->device = device;
    check(cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming), "create an event");
    *out = event.release();
  });
}

void event_destroy(minfer_event* event) {
  if (!event) return;
  const DeviceScope scope(event->device->caps().ordinal);
  cudaEventDestroy(event->event);
  cudaGetLastError();
  delete event;
}

minfer_status event_record(minfer_event* event, minfer_queue* queue, minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    const DeviceScope scope(queue->device->caps().ordinal);
    queue->raise(cudaEventRecord(event->event, queue->stream), "record an event");
    event->fault = queue->fault;
  });
}

minfer_status event_wait(minfer_event* event, minfer_error* error) {
  return guard(error, [&] {
    if (!event->fault) return;
    event->fault->require_none();
    const DeviceScope scope(event->device->caps().ordinal);
    event->fault->raise(cudaEventSynchronize(event->event), event->device->caps().ordinal,
                        "wait for an event");
  });
}

minfer_status event_query(minfer_event* event, minfer_error* error) {
  bool ready = true;
  const minfer_status status = guard(error, [&] {
    if (!event->fault) return;
    event->fault->require_none();
    const DeviceScope scope(event->device->caps().ordinal);
    const cudaError_t result = cudaEventQuery(event->event);
    if (result == cudaErrorNotReady) {
      cudaGetLastError();
      ready = false;
      return;
    }
    event->fault->raise(result, event->device->caps().ordinal, "query an event");
  });
  return status == MINFER_OK && !ready ? MINFER_NOT_READY : status;
}

minfer_status queue_wait_event(minfer_queue* queue, minfer_event* event, minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    const DeviceScope scope(queue->device->caps().ordinal);
    queue->raise(cudaStreamWaitEvent(queue->stream, event->event, 0), "wait for an event");
  });
}

}  // namespace

void fill_queue_table(minfer_plugin& table) {
  table.buffer_alloc = buffer_alloc;
  table.buffer_free = buffer_free;
  table.buffer_host_pointer = buffer_host_pointer;
  table.buffer_write = buffer_write;
  table.buffer_read = buffer_read;
  table.buffer_copy = buffer_copy;
  table.host_alloc = host_alloc;
  table.host_free = host_free;
  table.queue_create = queue_create;
  table.queue_destroy = queue_destroy;
  table.queue_wait = queue_wait;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_wait = event_wait;
  table.event_query = event_query;
  table.queue_wait_event = queue_wait_event;
}

}  // namespace minfer_cuda
