#include "work_queue.h"

#include <chrono>

namespace minfer_sim {

WorkQueue::WorkQueue(bool threaded) {
  if (threaded) thread_ = std::thread([this] { loop(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WorkQueue::push(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++pushed_;
  }
  changed_.notify_all();
}

uint64_t WorkQueue::pushed() {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

bool WorkQueue::idle() {
  const std::lock_guard lock(mutex_);
  return done_ == pushed_;
}

void WorkQueue::run_one(std::unique_lock<std::mutex>& lock) {
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  running_ = true;
  const bool skip = fault_ != MINFER_OK || cancelled_;
  lock.unlock();
  minfer_error text{};
  // A skipped task still runs its bookkeeping: a null error tells it to do nothing else.
  const minfer_status status = task(skip ? nullptr : &text);
  lock.lock();
  running_ = false;
  ++done_;
  if (!skip && status != MINFER_OK) {
    fault_ = status;
    fault_text_ = text;
  }
  changed_.notify_all();
}

void WorkQueue::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const auto delay = std::chrono::microseconds(random_() % 100);
    lock.unlock();
    std::this_thread::sleep_for(delay);
    lock.lock();
    run_one(lock);
  }
}

minfer_status WorkQueue::status_locked(minfer_error* error) const {
  if (fault_ != MINFER_OK) {
    if (error) *error = fault_text_;
    return fault_;
  }
  return cancelled_ ? MINFER_CANCELLED : MINFER_OK;
}

minfer_status WorkQueue::wait(uint64_t ticket, minfer_error* error) {
  std::unique_lock lock(mutex_);
  if (thread_.joinable()) {
    changed_.wait(lock, [&] { return done_ >= ticket; });
  } else {
    while (done_ < ticket) run_one(lock);
  }
  return status_locked(error);
}

minfer_status WorkQueue::query(uint64_t ticket, minfer_error* error) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable() && done_ < ticket && random_() % 2) run_one(lock);
  if (done_ < ticket) return MINFER_NOT_READY;
  return status_locked(error);
}

void WorkQueue::cancel() {
  const std::lock_guard lock(mutex_);
  if (done_ != pushed_) cancelled_ = true;
}

minfer_status WorkQueue::finish(minfer_error* error) {
  const minfer_status status = wait(pushed(), error);
  const std::lock_guard lock(mutex_);
  cancelled_ = false;
  return status;
}

}  // namespace minfer_sim
