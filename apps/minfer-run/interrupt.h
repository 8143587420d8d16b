// Ctrl-C: ends the run cleanly. A second one ends the process as usual.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace minfer::run {

/// Waits for SIGINT on a thread of its own; create it before any other thread exists, so that all
/// inherit the blocked signal. While no action is set, the signal ends the process as usual. A
/// process that was started with the signal ignored (a script's background job) goes on ignoring
/// it.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const { return requested_; }
  /// Called on the waiting thread when the signal arrives and, as it may have come just before the
  /// step that it should end, again every 20 ms until an empty function is set.
  void on_request(std::function<void()> action);

 private:
  void wait();

  bool ignored_ = false;
  std::atomic<bool> requested_ = false;
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
  std::function<void()> action_;
  std::thread thread_;
};

}  // namespace minfer::run
