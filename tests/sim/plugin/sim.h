// The simulated device: the CPU plugin behind memory that the host cannot reach, queues that do
// their work late, and strict checks of what the core may do. It exists so that every mistake in
// staging, ordering, binding or lifetime shows without a GPU.
//
// Fresh and freed buffers, the workspace before each run, escaping tensors before they are written
// and rows beyond the valid count are filled with 0xff (a NaN in every float format), and a plan
// may only read what was written. A broken rule is a violation: counted, kept as text, and an
// error.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control.h"
#include "minfer/plugin_abi.h"
#include "work_queue.h"

namespace minfer_sim {

constexpr uint8_t kPoison = 0xff;
constexpr uint64_t kAlignment = 256;
constexpr uint32_t kDevices = 2;

/// State of the process: faults, statistics, pinned ranges, the plugin behind.
struct World {
  std::mutex mutex;
  Stats stats;
  uint64_t memory = 0;  ///< 0: 4 GiB
  uint32_t refused_op = MINFER_NONE;
  uint32_t refused_type = MINFER_NONE;
  uint32_t fail_in = 0;
  minfer_status fail_status = MINFER_OK;
  bool fail_queued = false;
  uint32_t fail_allocation_in = 0;
  bool threaded = false;
  std::map<const uint8_t*, uint64_t> pinned;

  /// True when a test ordered this allocation to fail.
  bool allocation_fails();
  /// Counts and keeps a broken rule; returns MINFER_INTERNAL.
  minfer_status violation(minfer_error* error, const char* format, ...)
      __attribute__((format(printf, 3, 4)));
};
World& world();

/// The plugin that does the arithmetic.
const minfer_plugin& inner();

minfer_status set_error(minfer_error* error, minfer_status status, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

/// Function table slots, by file.
void fill_device_slots(minfer_plugin& table);
void fill_memory_slots(minfer_plugin& table);
void fill_plan_slots(minfer_plugin& table);

}  // namespace minfer_sim

struct minfer_device {
  uint32_t index = 0;
  minfer_device* inner = nullptr;
  uint64_t memory = 0;
  std::atomic<uint64_t> held{0};
  std::atomic<uint64_t> peak{0};
  int64_t extra_workspace = 0;
  bool threaded = false;
  std::mutex mutex;
  std::multimap<uint64_t, uint64_t> imported;  ///< model -> weight id

  void take(uint64_t bytes) {
    const uint64_t now = held += bytes;
    if (now > peak) peak = now;
  }
};

struct minfer_buffer {
  minfer_device* device = nullptr;
  minfer_buffer* inner = nullptr;
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
  std::atomic<int> pending{0};  ///< queued tasks that touch it
  std::vector<bool> defined;    ///< per 4 bytes

  void set_defined(uint64_t offset, uint64_t n, bool value) {
    for (uint64_t i = offset / 4; i < (offset + n + 3) / 4 && i < defined.size(); ++i)
      defined[i] = value;
  }
  /// First undefined byte of a range, or `n` when there is none.
  uint64_t first_undefined(uint64_t offset, uint64_t n) const {
    for (uint64_t i = offset / 4; i < (offset + n + 3) / 4; ++i)
      if (!defined[i]) return i * 4 - offset;
    return n;
  }
};

struct minfer_queue {
  minfer_device* device = nullptr;
  minfer_queue* inner = nullptr;
  std::unique_ptr<minfer_sim::WorkQueue> work;
};

struct minfer_event {
  minfer_queue* queue = nullptr;
  uint64_t ticket = 0;
};
