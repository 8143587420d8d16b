// The CPU plugin's thread pool: every task once and in its section, whatever the number of threads,
// callers and exceptions; and no processor time when idle.
#include "thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace minfer_cpu {
namespace {

// Sections of given sizes. Each task counts itself; `next` checks that the section before is
// complete.
class Sections final : public Job {
 public:
  explicit Sections(std::vector<int64_t> counts) : counts_(std::move(counts)) {
    for (int64_t count : counts_) runs_.push_back(std::vector<std::atomic<int>>(count));
  }

  int64_t next(unsigned) override {
    if (section_ > 0) {
      for (const auto& runs : runs_[section_ - 1]) bad_ += runs.load() != 1;
    }
    if (section_ == counts_.size()) return 0;
    return counts_[section_++];
  }

  void task(int64_t index, unsigned thread) override {
    runs_[section_ - 1][static_cast<size_t>(index)].fetch_add(1, std::memory_order_relaxed);
    if (thread >= kMaxThreads) ++bad_;
    plain_[static_cast<size_t>(thread)] += 1;  // a data race if two threads had one index
  }

  int bad() const { return bad_; }
  int64_t total() const {
    int64_t sum = 0;
    for (int64_t n : plain_) sum += n;
    return sum;
  }

 private:
  std::vector<int64_t> counts_;
  std::vector<std::vector<std::atomic<int>>> runs_;
  std::vector<int64_t> plain_ = std::vector<int64_t>(kMaxThreads, 0);
  size_t section_ = 0;
  std::atomic<int> bad_{0};
};

std::vector<int64_t> random_counts(std::mt19937_64& rng, size_t n) {
  std::vector<int64_t> counts(n);
  for (int64_t& count : counts)
    count = 1 + static_cast<int64_t>(rng() % 4 == 0 ? rng() % 200 : rng() % 5);
  return counts;
}

int64_t sum_of(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (int64_t n : counts) sum += n;
  return sum;
}

class Pool : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Threads, Pool, testing::Values(1u, 2u, 3u, 8u, 33u));

TEST_P(Pool, RunsEveryTaskOnceAndSectionsInOrder) {
  std::mt19937_64 rng(std::random_device{}());
  for (const bool spin : {true, false}) {
    ThreadPool pool(GetParam(), spin);
    for (int round = 0; round < 20; ++round) {
      const auto counts = random_counts(rng, 60);
      Sections job(counts);
      pool.run(job);
      ASSERT_EQ(job.bad(), 0);
      ASSERT_EQ(job.total(), sum_of(counts));
    }
  }
}

TEST_P(Pool, SeveralCallersTakeTurns) {
  ThreadPool pool(GetParam(), true);
  std::vector<std::thread> callers;
  std::atomic<int> bad{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      std::mt19937_64 rng(static_cast<uint64_t>(c));
      for (int round = 0; round < 10; ++round) {
        const auto counts = random_counts(rng, 20);
        Sections job(counts);
        pool.run(job);
        bad += job.bad() + (job.total() != sum_of(counts));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(bad.load(), 0);
}

TEST_P(Pool, AnExceptionEndsTheJobAndThePoolStaysUsable) {
  ThreadPool pool(GetParam(), true);
  for (int round = 0; round < 5; ++round) {
    EXPECT_THROW(parallel_for(pool, 50,
                              [](int64_t index, unsigned) {
                                if (index == 17) throw std::runtime_error("task 17");
                              }),
                 std::runtime_error);
    std::atomic<int> count{0};
    parallel_for(pool, 50, [&](int64_t, unsigned) { ++count; });
    EXPECT_EQ(count.load(), 50);
  }
}

TEST(PoolIdle, TakesNoProcessorTime) {
  ThreadPool pool(4, true);
  parallel_for(pool, 100, [](int64_t, unsigned) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto processor_time = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const double before = processor_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(processor_time() - before, 0.02);
}

}  // namespace
}  // namespace minfer_cpu
