// What tests ask of the simulated device and set on it, through get_interface("minfer_sim", 1).
// Settings are the process's; they apply to devices opened afterwards where a comment says so.
#pragma once

#include <cstdint>

namespace minfer_sim {

struct Stats {
  uint64_t violations = 0;  ///< of the contract, by the core (or by the plugin behind)
  char first_violation[400] = {};
  uint64_t runs = 0;
  uint64_t binds = 0;
  uint64_t imported = 0;  ///< weights
  uint64_t released = 0;  ///< weights; equal to `imported` once no import is alive
  uint64_t page_copies = 0;
  int64_t live_buffers = 0;
  int64_t live_plans = 0;
  int64_t live_imports = 0;
};

struct Control {
  /// Statistics to zero, faults and limits off.
  void (*reset)();
  void (*stats)(Stats* out);
  /// Bytes that each device has; of devices opened afterwards.
  void (*set_memory)(uint64_t bytes);
  /// Operator and type of weights that supports() of the first device refuses; 0xffffffff: none.
  void (*refuse)(uint32_t op, uint32_t type);
  /// The nth plan_run from now fails (0: none): at once, or as a fault of queued work.
  void (*fail_run)(uint32_t nth, int32_t status, uint32_t queued);
  /// The nth allocation or import from now is refused for lack of memory (0: none).
  void (*fail_allocation)(uint32_t nth);
  /// Queues of devices opened afterwards: false: work is done as late as possible, by whoever
  /// waits; true: by a thread, after random delays.
  void (*set_threaded)(bool threaded);
};

}  // namespace minfer_sim
