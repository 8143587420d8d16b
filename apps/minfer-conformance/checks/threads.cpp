// Threads: a queue and its plans belong to no thread, and queues do not share state that others
// see.
#include <atomic>
#include <thread>

#include "checks.h"
#include "small_plan.h"

namespace conformance {
namespace {

/// Runs `body` on a thread of its own and brings what it throws back.
template <class Body>
void on_another_thread(Body body) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

void check_migration(Bench& bench) {
  SmallPlan plan(bench);
  plan.run_and_check(bench.device.queue, "on the thread that made it");
  for (int i = 0; i < 20; ++i) {
    on_another_thread([&] {
      plan.run_and_check(bench.device.queue, fmt::format("on thread {} after it", i + 1));
    });
  }
  plan.run_and_check(bench.device.queue, "back on the first thread");
  variant("queued on one thread, awaited on another", [&] {
    const auto x = plan.random_x();
    std::vector<float> got(x.size());
    minfer_queue* queue = bench.device.queue;
    on_another_thread([&] {
      MINFER_CALL(buffer_write, queue, plan.x().buffer, plan.x().start, x.data(),
                  SmallPlan::kBytes);
      plan.enqueue(queue);
    });
    MINFER_CALL(buffer_read, queue, plan.out().buffer, plan.out().start, got.data(),
                SmallPlan::kBytes);
    MINFER_CALL(queue_wait, queue);
    expect_below(relative_error(got, plan.answer(x)), 1e-5);
  });
  variant("destroyed on another thread", [&] {
    minfer_queue* queue = nullptr;
    MINFER_CALL(queue_create, bench.device.handle, &queue);
    plan.run_and_check(queue, "on a new queue");
    on_another_thread([&] { plugin().queue_destroy(queue); });
  });
}

void check_concurrency(Bench& bench) {
  constexpr int kRuns = 100;
  constexpr uint64_t kThreads = 3;
  // Each thread has a generator of its own.
  std::vector<std::unique_ptr<Bench>> benches;
  std::vector<std::unique_ptr<SmallPlan>> plans;
  for (uint64_t i = 0; i < kThreads; ++i) {
    benches.push_back(std::make_unique<Bench>(Bench{bench.device, std::mt19937_64(bench.rng())}));
    plans.push_back(std::make_unique<SmallPlan>(*benches.back(), i + 1));
  }
  std::atomic<bool> done{false};
  // Memory and questions from yet another thread, as when another model is being loaded.
  std::thread loader([&] {
    try {
      while (!done) {
        minfer_buffer* buffer = nullptr;
        MINFER_CALL(buffer_alloc, bench.device.handle, 1 << 16, &buffer);
        plugin().buffer_free(buffer);
      }
    } catch (const std::exception& error) {
      fail(std::string("beside the runs: ") + error.what());
    }
  });
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      minfer_queue* queue = nullptr;
      try {
        MINFER_CALL(queue_create, bench.device.handle, &queue);
        for (int run = 0; run < kRuns; ++run) {
          if (!plans[i]->run_and_check(queue, fmt::format("thread {}, run {}", i, run))) break;
        }
      } catch (const std::exception& error) {
        fail(fmt::format("thread {}: {}", i, error.what()));
      }
      if (queue != nullptr) plugin().queue_destroy(queue);
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  loader.join();
}

}  // namespace conformance
