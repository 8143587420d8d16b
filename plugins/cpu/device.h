// The objects behind the ABI's opaque handles: device, buffer, queue, event.
//
// The CPU device is synchronous: whatever is queued is complete when the call returns, so queues
// and events hold no work. A device must outlive what was made on it.
#pragma once

#include <atomic>
#include <memory>

#include "gates.h"
#include "memory.h"
#include "minfer/plugin_abi.h"
#include "thread_pool.h"
#include "weights.h"

/// One opened CPU device: threads, memory counts, imported weights. Thread-safe.
struct minfer_device {
  explicit minfer_device(const minfer_cpu::Gates& gates);

  minfer_cpu::MemoryCounter memory;
  minfer_cpu::ThreadPool pool;
  minfer_cpu::WeightStore weights;
};

struct minfer_buffer {
  minfer_cpu::Allocation memory;
};

struct minfer_queue {
  minfer_device* device = nullptr;
  std::atomic<bool> cancelled{false};  ///< set by queue_cancel, cleared by the wait that reports it
};

struct minfer_event {};
