// Queues, events and buffers: thin owners of CUDA streams, events and allocations.
//
// A queue and what runs on it belong to one thread at a time. A fault seen at a wait stays with the
// queue: later calls on it report the same text.
#pragma once

#include <memory>
#include <string>

#include "device.h"

namespace minfer_cuda {

/// The first asynchronous error of a queue; it stays. Shared with the queue's events.
struct Fault {
  minfer_status status = MINFER_OK;
  std::string message;

  /// Throws the fault, if there is one.
  void require_none() const;
  /// Takes note of an error and throws it; nothing for cudaSuccess.
  void raise(cudaError_t error, int ordinal, const char* where);
};

}  // namespace minfer_cuda

struct minfer_queue {
  minfer_device* device = nullptr;
  cudaStream_t stream = nullptr;
  std::shared_ptr<minfer_cuda::Fault> fault = std::make_shared<minfer_cuda::Fault>();

  void require_healthy() const { fault->require_none(); }
  void raise(cudaError_t error, const char* where) {
    fault->raise(error, device->caps().ordinal, where);
  }
};

struct minfer_event {
  minfer_device* device = nullptr;
  cudaEvent_t event = nullptr;
  std::shared_ptr<minfer_cuda::Fault> fault;  ///< of the queue it was last recorded on, or null
};

struct minfer_buffer {
  minfer_device* device = nullptr;
  minfer_cuda::DeviceMemory memory;

  /// The address of `bytes` at `offset`; throws MINFER_INVALID outside the buffer.
  char* at(uint64_t offset, uint64_t bytes) const;
};

namespace minfer_cuda {

/// Fills the memory, queue and event slots of the plugin's table.
void fill_queue_table(minfer_plugin& table);

}  // namespace minfer_cuda
