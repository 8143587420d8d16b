// The claim protocol. A thread learns from one fetch_add on section_ both the section and the task.
// A section cannot end while a claimed task of it runs, so whatever a claimed task reads (job_, the
// job's own state) is stable; a thread that claims nothing reads nothing else.
#include "thread_pool.h"

#include <chrono>

namespace minfer_cpu {
namespace {

constexpr int kSerialBits = 24;
constexpr int kCountBits = 20;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr uint64_t kSerialMask = (uint64_t{1} << kSerialBits) - 1;

// Longer than the gaps between sections of a decode step, far shorter than a scheduler's slice.
constexpr auto kSpinTime = std::chrono::microseconds(100);
constexpr int kPausesPerClock = 32;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

ThreadPool::Section ThreadPool::Section::unpack(uint64_t word) {
  return {word >> (2 * kCountBits), (word >> kCountBits) & kCountMask, word & kCountMask};
}

uint64_t ThreadPool::Section::pack() const {
  return ((serial & kSerialMask) << (2 * kCountBits)) | (count << kCountBits) | next;
}

ThreadPool::ThreadPool(unsigned threads, bool spin) : spin_(spin) {
  workers_.reserve(threads);
  for (unsigned thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  wake();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(Job& job) {
  const std::lock_guard lock(one_job_);
  job_ = &job;
  failure_ = nullptr;
  failed_.store(false);
  finished_.store(false);
  advance(0);
  while (!finished_.load()) {
    if (!run_task(0)) {
      wait_until(
          [this] { return finished_.load() || Section::unpack(section_.load()).has_task(); });
    }
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void ThreadPool::work(unsigned thread) {
  while (!stop_.load()) {
    if (!run_task(thread)) {
      wait_until([this] { return stop_.load() || Section::unpack(section_.load()).has_task(); });
    }
  }
}

bool ThreadPool::run_task(unsigned thread) {
  // Looking first keeps the counter from running away under threads that find nothing.
  if (!Section::unpack(section_.load()).has_task()) return false;
  const Section claimed = Section::unpack(section_.fetch_add(1));
  if (!claimed.has_task()) return false;
  try {
    job_->task(static_cast<int64_t>(claimed.next), thread);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    failure_ = std::current_exception();
    failed_.store(true);
  }
  if (done_.fetch_add(1) + 1 == claimed.count) advance(thread);
  return true;
}

// Runs by the thread that ended the last task, hence alone. Sections of one task are run here at
// once: nobody else could help.
void ThreadPool::advance(unsigned thread) {
  int64_t count = 0;
  try {
    while (!failed_.load() && (count = job_->next(thread)) == 1) job_->task(0, thread);
  } catch (...) {
    failure_ = std::current_exception();
    failed_.store(true);
  }
  if (failed_.load() || count == 0) {
    finished_.store(true);
    wake();
    return;
  }
  publish(static_cast<uint64_t>(count));
}

void ThreadPool::publish(uint64_t count) {
  done_.store(0);
  const Section last = Section::unpack(section_.load());
  section_.store(Section{last.serial + 1, count, 0}.pack());
  wake();
}

void ThreadPool::wake() {
  // Sequentially consistent with wait_until: either the sleeper sees the new section, or this sees
  // the sleeper.
  if (sleepers_.load() == 0) return;
  wakes_.fetch_add(1);
  wakes_.notify_all();
}

template <class Ready>
void ThreadPool::wait_until(Ready ready) {
  if (spin_) {
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < kPausesPerClock; ++i) {
        if (ready()) return;
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  sleepers_.fetch_add(1);
  for (;;) {
    const uint32_t seen = wakes_.load();
    if (ready()) break;
    wakes_.wait(seen);
  }
  sleepers_.fetch_sub(1);
}

}  // namespace minfer_cpu
