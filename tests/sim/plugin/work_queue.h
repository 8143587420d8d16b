// Work that is done late: by the thread that waits for it, or by a thread of its own after random
// delays. Faults are sticky. Pushing and waiting belong to one thread at a time; cancel() is free.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "minfer/plugin_abi.h"

namespace minfer_sim {

class WorkQueue {
 public:
  using Task = std::function<minfer_status(minfer_error*)>;

  explicit WorkQueue(bool threaded);
  ~WorkQueue();

  void push(Task task);
  uint64_t pushed();
  /// Waits for the first `ticket` tasks; the sticky fault of the queue, if any.
  minfer_status wait(uint64_t ticket, minfer_error* error);
  /// As wait(), but MINFER_NOT_READY rather than waiting; may do a little work.
  minfer_status query(uint64_t ticket, minfer_error* error);
  /// Drops what has not begun; waits answer MINFER_CANCELLED until finish() was called.
  void cancel();
  /// Waits for everything; ends a cancelled state.
  minfer_status finish(minfer_error* error);
  bool idle();

 private:
  void run_one(std::unique_lock<std::mutex>& lock);
  void loop();
  minfer_status status_locked(minfer_error* error) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t pushed_ = 0;
  uint64_t done_ = 0;
  bool running_ = false;
  bool cancelled_ = false;
  bool stopping_ = false;
  minfer_status fault_ = MINFER_OK;
  minfer_error fault_text_{};
  std::mt19937 random_{1};
  std::thread thread_;
};

}  // namespace minfer_sim
