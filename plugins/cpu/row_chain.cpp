// How a chain of row operators is cut into tasks.
#include <algorithm>

#include "plan.h"

namespace minfer_cpu {
namespace {

// Work below this many elements is done by the thread that is there anyway: waking others costs
// more.
constexpr int64_t kSerialElements = 16384;
// Rows go through the chain in blocks of about this many elements, which stay in the first cache.
constexpr int64_t kBlockElements = 4096;
constexpr int64_t kTasksPerThread = 4;

}  // namespace

void RowChain::append(std::unique_ptr<RowOp> op, uint32_t node, int64_t row_cost) {
  links_.push_back({std::move(op), node});
  row_cost_ += std::max<int64_t>(1, row_cost);
}

uint64_t RowChain::scratch_bytes() const {
  uint64_t bytes = 0;
  for (const Link& link : links_) bytes = std::max(bytes, link.op->scratch_bytes());
  return bytes;
}

int64_t RowChain::prepare(const Run& run) {
  n_rows_ = run.count(rows_.dyn, rows_.fixed);
  if (n_rows_ == 0) return 0;
  if (n_rows_ * row_cost_ < kSerialElements) {
    rows_per_task_ = n_rows_;
    return 1;
  }
  const int64_t wanted = kTasksPerThread * run.threads;
  const int64_t least = std::max<int64_t>(1, kSerialElements / 4 / row_cost_);
  rows_per_task_ = std::max(least, (n_rows_ + wanted - 1) / wanted);
  return (n_rows_ + rows_per_task_ - 1) / rows_per_task_;
}

void RowChain::task(const Run& run, int64_t index, unsigned thread) {
  const int64_t begin = index * rows_per_task_;
  const int64_t end = std::min(n_rows_, begin + rows_per_task_);
  if (part_ >= 0) {
    links_[static_cast<size_t>(part_)].op->rows(run, begin, end, thread);
    return;
  }
  const int64_t per_op = row_cost_ / static_cast<int64_t>(links_.size());
  const int64_t block = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, per_op));
  for (int64_t r = begin; r < end; r += block) {
    const int64_t r1 = std::min(end, r + block);
    for (const Link& link : links_) link.op->rows(run, r, r1, thread);
  }
}

}  // namespace minfer_cpu
