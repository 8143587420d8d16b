// Devices come and go in a process that lives long: what one held is given back with it.
#include "../alloc_counter.h"

#include "checks.h"
#include "process.h"
#include "small_plan.h"

namespace conformance {
namespace {

constexpr int kCycles = 100;
constexpr int kWarmUp = 10;  ///< drivers and allocators keep something of the first ones
constexpr uint64_t kMaxGrowth = 16u << 20;

void cycle(int i) {
  Device device;
  Bench bench{device, seeded_rng(fmt::format("cycle {}", i))};
  SmallPlan plan(bench);
  plan.run_and_check(device.queue, fmt::format("cycle {}", i));
}

}  // namespace

void check_reopen(const Target&) {
  for (int i = 0; i < kWarmUp; ++i) cycle(i);
  const Holdings before = measure_holdings();
  for (int i = kWarmUp; i < kCycles; ++i) cycle(i);
  const Holdings after = measure_holdings(before.threads);
  expect_equal(after.threads, before.threads, "threads after 90 more cycles");
  expect_equal(after.files, before.files, "open files after 90 more cycles");
  if (!minfer::testing::can_count_allocations()) return;  // a sanitizer keeps freed memory back
  expect_below(
      static_cast<double>(after.resident_bytes),
      static_cast<double>(before.resident_bytes + kMaxGrowth),
      fmt::format("bytes of memory after 90 more cycles, {} before", before.resident_bytes));
}

}  // namespace conformance
