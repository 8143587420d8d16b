// Order: what is queued happens one after the other, copies and runs alike; events mark a place in
// a queue; a cancelled queue can be used again.
//
// Steps are queued without a wait in between, each with host memory of its own, so that a copy that
// overtakes a run, or the other way round, shows in the results.
#include <algorithm>
#include <thread>

#include "checks.h"
#include "small_plan.h"

namespace conformance {
namespace {

constexpr size_t kSteps = 64;

/// Inputs and results of many steps.
class Steps {
 public:
  Steps(Bench& bench, SmallPlan& plan)
      : plan_(plan),
        to_(bench.device, kSteps * SmallPlan::kBytes),
        from_(bench.device, kSteps * SmallPlan::kBytes) {
    for (size_t i = 0; i < kSteps; ++i) {
      inputs_.push_back(plan.random_x());
      std::copy(inputs_[i].begin(), inputs_[i].end(), to_.floats(i * SmallPlan::kBytes));
    }
  }

  void enqueue(minfer_queue* queue, size_t i) {
    MINFER_CALL(buffer_write, queue, plan_.x().buffer, plan_.x().start,
                to_.floats(i * SmallPlan::kBytes), SmallPlan::kBytes);
    plan_.enqueue(queue);
    MINFER_CALL(buffer_read, queue, plan_.out().buffer, plan_.out().start,
                from_.floats(i * SmallPlan::kBytes), SmallPlan::kBytes);
  }

  bool expect_result(size_t i, const std::string& when) {
    const float* begin = from_.floats(i * SmallPlan::kBytes);
    const std::vector<float> got(begin, begin + SmallPlan::kBytes / sizeof(float));
    return expect_below(relative_error(got, plan_.answer(inputs_[i])), 1e-5,
                        fmt::format("step {} {}", i, when));
  }

 private:
  SmallPlan& plan_;
  HostMemory to_, from_;
  std::vector<std::vector<float>> inputs_;
};

class Event {
 public:
  explicit Event(Bench& bench) { MINFER_CALL(event_create, bench.device.handle, &handle); }
  ~Event() { plugin().event_destroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  minfer_event* handle = nullptr;
};

/// Copies within the device stand in the same order.
void check_device_copies(Bench& bench, SmallPlan& plan) {
  if (!MINFER_HAS_FN(&plugin(), buffer_copy)) {
    listener().note("the plugin has no buffer_copy");
    return;
  }
  Memory spare(bench.device, SmallPlan::kBytes);
  HostMemory to(bench.device, 2 * SmallPlan::kBytes), from(bench.device, SmallPlan::kBytes);
  const auto first = plan.random_x(), second = plan.random_x();
  std::copy(first.begin(), first.end(), to.floats());
  std::copy(second.begin(), second.end(), to.floats(SmallPlan::kBytes));
  minfer_queue* queue = bench.device.queue;
  const auto write = [&](uint64_t at) {
    MINFER_CALL(buffer_write, queue, plan.x().buffer, plan.x().start, to.floats(at),
                SmallPlan::kBytes);
  };
  write(0);
  MINFER_CALL(buffer_copy, queue, spare.buffer, spare.start, plan.x().buffer, plan.x().start,
              SmallPlan::kBytes);
  write(SmallPlan::kBytes);
  MINFER_CALL(buffer_copy, queue, plan.x().buffer, plan.x().start, spare.buffer, spare.start,
              SmallPlan::kBytes);
  plan.enqueue(queue);
  MINFER_CALL(buffer_read, queue, plan.out().buffer, plan.out().start, from.floats(),
              SmallPlan::kBytes);
  MINFER_CALL(queue_wait, queue);
  const std::vector<float> got(from.floats(), from.floats() + first.size());
  expect_below(relative_error(got, plan.answer(first)), 1e-5, "after copies within the device");
}

}  // namespace

void check_ordering(Bench& bench) {
  SmallPlan plan(bench);
  Steps steps(bench, plan);
  for (size_t i = 0; i < kSteps; ++i) steps.enqueue(bench.device.queue, i);
  MINFER_CALL(queue_wait, bench.device.queue);
  for (size_t i = 0; i < kSteps; ++i) {
    if (!steps.expect_result(i, "of those queued together")) break;
  }
  check_device_copies(bench, plan);
}

void check_events(Bench& bench) {
  SmallPlan plan(bench);
  Steps steps(bench, plan);
  Event early(bench), late(bench);
  minfer_queue* queue = bench.device.queue;
  for (size_t i = 0; i < kSteps; ++i) {
    steps.enqueue(queue, i);
    if (i == kSteps / 4) MINFER_CALL(event_record, early.handle, queue);
  }
  MINFER_CALL(event_record, late.handle, queue);
  MINFER_CALL(event_wait, early.handle);
  steps.expect_result(kSteps / 4, "after its event");
  // Completion must come without a wait, and be seen by a query.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  minfer_error error = {};
  minfer_status status;
  while ((status = plugin().event_query(late.handle, &error)) == MINFER_NOT_READY &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  expect_equal(status, MINFER_OK, "status of event_query within 30 s");
  steps.expect_result(kSteps - 1, "once its event is ready");
  MINFER_CALL(event_wait, late.handle);
  MINFER_CALL(queue_wait, queue);

  if (!MINFER_HAS_FN(&plugin(), queue_wait_event)) return;
  // A second queue that waits for the first reads what that one wrote.
  minfer_queue* other = nullptr;
  MINFER_CALL(queue_create, bench.device.handle, &other);
  HostMemory to(bench.device, SmallPlan::kBytes), from(bench.device, SmallPlan::kBytes);
  const auto x = plan.random_x();
  std::copy(x.begin(), x.end(), to.floats());
  MINFER_CALL(buffer_write, queue, plan.x().buffer, plan.x().start, to.floats(), SmallPlan::kBytes);
  plan.enqueue(queue);
  MINFER_CALL(event_record, late.handle, queue);
  MINFER_CALL(queue_wait_event, other, late.handle);
  MINFER_CALL(buffer_read, other, plan.out().buffer, plan.out().start, from.floats(),
              SmallPlan::kBytes);
  MINFER_CALL(queue_wait, other);
  MINFER_CALL(queue_wait, queue);
  plugin().queue_destroy(other);
  const std::vector<float> got(from.floats(), from.floats() + x.size());
  expect_below(relative_error(got, plan.answer(x)), 1e-5, "read by a queue that waited");
}

void check_cancel(Bench& bench) {
  if (!MINFER_HAS_FN(&plugin(), queue_cancel))
    throw Refused("the plugin has no queue_cancel (optional)");
  SmallPlan plan(bench);
  Steps steps(bench, plan);
  minfer_queue* queue = bench.device.queue;
  for (const bool busy : {false, true}) {
    minfer_error error = {};
    for (size_t i = 0; busy && i < kSteps; ++i) steps.enqueue(queue, i);
    MINFER_CALL(queue_cancel, queue);
    const minfer_status status = plugin().queue_wait(queue, &error);
    expect(status == MINFER_OK || status == MINFER_CANCELLED,
           fmt::format("the wait after a cancel returned {}: {}", status, error.text));
    plan.run_and_check(queue, busy ? "after cancelled work" : "after a cancel of an idle queue");
  }
}

}  // namespace conformance
