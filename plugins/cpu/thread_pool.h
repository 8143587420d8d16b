// The CPU plugin's threads. A job is a sequence of sections, each a number of independent tasks; a
// section starts when all tasks of the one before are done.
//
// Tasks are claimed one by one, and the thread that ends a section's last task prepares the next
// section. There is no barrier that every thread must reach, so that a thread the operating system
// has taken off its core delays nothing but the task it holds. Idle threads spin for a short time,
// then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace minfer_cpu {

/// Most tasks of one section.
inline constexpr int64_t kMaxTasks = (1 << 20) - 4096;
/// Most threads of a pool.
inline constexpr unsigned kMaxThreads = 1024;

/// What a pool runs. Calls are ordered: everything a section's tasks wrote is visible to the next
/// call of `next` and to later tasks.
class Job {
 public:
  virtual ~Job() = default;
  /// Prepares the next section and returns how many tasks it has (at most kMaxTasks); 0 ends the
  /// job. Called by one thread at a time, `thread` in [0, size).
  virtual int64_t next(unsigned thread) = 0;
  /// Runs one task of the current section.
  virtual void task(int64_t index, unsigned thread) = 0;
};

class ThreadPool {
 public:
  /// A pool of `threads` in all: the caller of run is one of them, threads - 1 are started.
  /// `spin`: whether idle threads spin at all; false where they are more than the cores.
  ThreadPool(unsigned threads, bool spin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned size() const { return static_cast<unsigned>(workers_.size()) + 1; }

  /// Runs the job to its end. Jobs from several threads run one after the other. An exception of
  /// the job ends it at the section's end and is rethrown here.
  void run(Job& job);

 private:
  // The current section in one word, so that claiming a task and learning which section it belongs
  // to are one atomic step: a serial number, the number of tasks, the next unclaimed task.
  struct Section {
    uint64_t serial, count, next;
    static Section unpack(uint64_t word);
    uint64_t pack() const;
    bool has_task() const { return next < count; }
  };

  void work(unsigned thread);
  bool run_task(unsigned thread);
  void advance(unsigned thread);
  void publish(uint64_t count);
  void wake();
  template <class Ready>
  void wait_until(Ready ready);

  const bool spin_;
  std::vector<std::thread> workers_;
  std::mutex one_job_;
  Job* job_ = nullptr;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;

  alignas(64) std::atomic<uint64_t> section_{0};
  alignas(64) std::atomic<uint64_t> done_{0};
  alignas(64) std::atomic<uint32_t> wakes_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> finished_{true};
  std::atomic<bool> failed_{false};
  std::atomic<bool> stop_{false};
};

/// Calls body(index, thread) for every index in [0, count) on the pool.
template <class Body>
void parallel_for(ThreadPool& pool, int64_t count, Body body) {
  class Loop final : public Job {
   public:
    Loop(int64_t count, Body& body) : count_(count), body_(body) {}
    int64_t next(unsigned) override {
      const int64_t count = count_;
      count_ = 0;
      return count;
    }
    void task(int64_t index, unsigned thread) override { body_(index, thread); }

   private:
    int64_t count_;
    Body& body_;
  } loop(count, body);
  pool.run(loop);
}

}  // namespace minfer_cpu
