#include "ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "micro_plan.h"
#include "minfer/graph.h"

namespace minfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMeasureSeconds = 0.4;  ///< spent on each ceiling, at least
constexpr double kBatchSeconds = 0.02;   ///< of runs queued together
constexpr uint32_t kMaxBatch = 1000;

/// A discrete GPU needs more work to be filled than a CPU.
struct Sizes {
  int64_t row = 4096;
  uint32_t copy_rows = 4096;  ///< 64 MiB of f32
  uint32_t product_rows = 512;
};
Sizes sizes_for(const DeviceInfo& info) {
  if (info.kind == MINFER_DEVICE_DISCRETE)
    return {.row = 8192, .copy_rows = 16384, .product_rows = 4096};
  return {};
}

/// The best time of one run of `once(runs)`, which queues several and returns seconds of one.
template <class Once>
Result<double> best_time(const Once& once) {
  const auto start = Clock::now();
  MINFER_ASSIGN(double best, once(1));
  while (std::chrono::duration<double>(Clock::now() - start).count() < kMeasureSeconds) {
    const auto runs =
        static_cast<uint32_t>(std::clamp(kBatchSeconds / best, 1.0, double{kMaxBatch}));
    MINFER_ASSIGN(const double seconds, once(runs));
    best = std::min(best, seconds);
  }
  return best;
}

/// The plugin's own copy between buffers; kUnsupported where it has none.
Result<double> copy_buffers(Device& device, uint64_t bytes) {
  const minfer_plugin& table = device.table();
  if (!MINFER_HAS_FN(&table, buffer_copy)) return fail(ErrorCode::kUnsupported, "no buffer_copy");
  MINFER_ASSIGN(const BufferHandle from, device.buffer_alloc(bytes));
  MINFER_ASSIGN(const BufferHandle to, device.buffer_alloc(bytes));
  MINFER_ASSIGN(const QueueHandle queue, device.queue_create());
  // Pages that were never written may all be one and the same.
  const std::vector<uint8_t> data(bytes, 1);
  for (const BufferHandle* buffer : {&from, &to})
    MINFER_TRY(device.buffer_write(queue.get(), buffer->get(), 0, data.data(), bytes));
  MINFER_TRY(device.queue_wait(queue.get()));
  return best_time([&](uint32_t runs) -> Result<double> {
    const auto start = Clock::now();
    for (uint32_t i = 0; i < runs; ++i) {
      minfer_error error{};
      if (table.buffer_copy(queue.get(), to.get(), 0, from.get(), 0, bytes, &error) != MINFER_OK)
        return fail(ErrorCode::kDevice, error.text, device.info().id);
    }
    MINFER_TRY(device.queue_wait(queue.get()));
    return std::chrono::duration<double>(Clock::now() - start).count() / runs;
  });
}

/// An elementwise operator reads and writes as a copy does, with all of a device's threads.
Result<double> copy_by_scale(const std::shared_ptr<Device>& device, const Sizes& sizes) {
  const MicroShape shape{.op = MINFER_OP_SCALE,
                         .length = sizes.row,
                         .out_length = sizes.row,
                         .rows = sizes.copy_rows,
                         .weight_type = {}};
  MINFER_ASSIGN(const auto plan, MicroPlan::create(device, shape, {}));
  return best_time([&](uint32_t runs) { return plan->time(sizes.copy_rows, runs); });
}

void measure_copy(const std::shared_ptr<Device>& device, Ceilings& out) {
  const Sizes sizes = sizes_for(device->info());
  const uint64_t bytes = 4ull * static_cast<uint64_t>(sizes.row) * sizes.copy_rows;
  const auto rate = [&](const Result<double>& seconds) {
    return seconds ? 2.0 * static_cast<double>(bytes) / *seconds : 0;
  };
  const auto copied = copy_buffers(*device, bytes);
  const auto scaled = copy_by_scale(device, sizes);
  const bool by_copy = rate(copied) >= rate(scaled);
  out.copy_bytes_per_second = std::max(rate(copied), rate(scaled));
  if (!copied && !scaled)
    out.copy_how = scaled.error().message();
  else
    out.copy_how = fmt::format("{} of {} MiB", by_copy ? "buffer_copy" : "Scale", bytes >> 20);
}

/// Blocks of a tensor of this type, over and over: real scales, so that no kernel meets a value
/// that a model would not hold. Empty when the file has none.
std::vector<uint8_t> fill_matrix(const GgufFile& file, uint32_t type, uint64_t bytes) {
  for (const GgufTensor& t : file.tensors()) {
    if (t.type->id != type || t.bytes == 0) continue;
    std::vector<uint8_t> out(bytes);
    for (uint64_t at = 0; at < bytes; at += t.bytes)
      std::memcpy(out.data() + at, file.data(t), std::min(t.bytes, bytes - at));
    return out;
  }
  return {};
}

Result<void> measure_product(const std::shared_ptr<Device>& device, uint32_t type,
                             const GgufFile& file, Ceilings& out) {
  const Sizes sizes = sizes_for(device->info());
  const MicroShape shape{.op = MINFER_OP_MATMUL,
                         .length = sizes.row,
                         .out_length = sizes.row,
                         .rows = sizes.product_rows,
                         .weight_type = type};
  const uint64_t bytes = type_row_bytes(type, sizes.row) * static_cast<uint64_t>(sizes.row);
  MINFER_ASSIGN(const auto plan, MicroPlan::create(device, shape, fill_matrix(file, type, bytes)));
  MINFER_ASSIGN(const double seconds,
                best_time([&](uint32_t runs) { return plan->time(sizes.product_rows, runs); }));
  const auto side = static_cast<double>(sizes.row);
  out.flops_per_second = 2 * side * side * sizes.product_rows / seconds;
  MINFER_ASSIGN(const std::string kernel, plan->kernel());
  out.product_how =
      fmt::format("{} of [{}, {}] by {} rows", kernel, sizes.row, sizes.row, sizes.product_rows);
  return {};
}

Ceilings measure(PluginHost& host, const std::string& id, uint32_t type, const GgufFile& file) {
  Ceilings out;
  const auto open = [&]() -> Result<std::shared_ptr<Device>> {
    MINFER_ASSIGN(const DeviceInfo* info, host.find_device(id));
    return host.open(*info);
  };
  const auto device = open();
  if (!device) {
    out.copy_how = out.product_how = device.error().message();
    return out;
  }
  measure_copy(*device, out);
  if (auto product = measure_product(*device, type, file, out); !product)
    out.product_how = product.error().message();
  return out;
}

}  // namespace

const Ceilings& CeilingCache::of(PluginHost& host, const std::string& device, uint32_t type,
                                 const GgufFile& file) {
  const auto key = std::make_pair(device, type);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, measure(host, device, type, file)).first->second;
}

}  // namespace minfer::bench
