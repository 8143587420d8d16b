// How matrices are cut into tasks.
#include "matmul_step.h"

#include <algorithm>

namespace minfer_cpu {
namespace {

class Convert final : public RowOp {
 public:
  Convert(const OpContext& ctx, const Activation* activation, Rows rows)
      : x_(&ctx.tensor(activation->tensor)), activation_(activation), rows_(rows) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const int64_t nt = run.count(rows_.dyn, rows_.fixed);
    activation_->kernel->convert(run.floats(activation_->tensor),
                                 x_->nb[1] / static_cast<int64_t>(sizeof(float)), x_->ne[0], nt, r0,
                                 r1, run.workspace + activation_->offset);
  }

 private:
  const Tensor* x_;
  const Activation* activation_;
  Rows rows_;
};

// Enough tasks that a thread that is late costs little, few enough that a task outweighs its claim.
constexpr uint64_t kTasksPerThread = 6;
constexpr uint64_t kLeastTaskWork = 16384;  // weight bytes times tokens
constexpr int64_t kLeastRows = 16;

}  // namespace

std::unique_ptr<RowOp> make_convert(const OpContext& ctx, const Activation* activation, Rows rows) {
  return std::make_unique<Convert>(ctx, activation, rows);
}

void MatmulStep::append(const Node& node, uint32_t index, const MatmulKernel* kernel) {
  const Tensor& weight = ctx_.tensor(node.src[0]);
  Part part;
  part.kernel = kernel;
  part.node = index;
  part.weight = node.src[0];
  part.bias = node.source(2);
  part.out = node.dst;
  part.id = weight.ne[0];
  part.od = weight.ne[1];
  part.out_stride = ctx_.tensor(node.dst).nb[1] / static_cast<int64_t>(sizeof(float));
  part.bytes = kernel->packed_bytes(part.id, part.od);
  parts_.push_back(part);
}

uint64_t MatmulStep::scratch_bytes() const {
  // Ask at capacity, and for one token: kernels may need more for few tokens than for many.
  uint64_t bytes = 0;
  for (const Part& part : parts_) {
    bytes = std::max({bytes, part.kernel->scratch_bytes(part.id, 1),
                      part.kernel->scratch_bytes(part.id, rows_.fixed)});
  }
  return bytes;
}

uint64_t MatmulStep::bytes_read() const {
  return selected_ < 0 ? 0 : parts_[static_cast<size_t>(selected_)].bytes;
}

int64_t MatmulStep::prepare(const Run& run) {
  nt_ = run.count(rows_.dyn, rows_.fixed);
  uint64_t total = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (selected_ < 0 || selected_ == static_cast<int64_t>(i)) total += parts_[i].bytes;
  }
  if (nt_ == 0 || total == 0) return 0;
  const uint64_t least = kLeastTaskWork / static_cast<uint64_t>(nt_) + 1;
  const uint64_t bytes_per_task = std::max(least, total / (kTasksPerThread * run.threads) + 1);
  int64_t tasks = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    part.first_task = tasks;
    part.tasks = 0;
    if (selected_ >= 0 && selected_ != static_cast<int64_t>(i)) continue;
    const uint64_t row_bytes = std::max<uint64_t>(1, part.bytes / static_cast<uint64_t>(part.od));
    const int64_t group = part.kernel->row_group;
    const int64_t wanted =
        std::max({group, kLeastRows, static_cast<int64_t>(bytes_per_task / row_bytes)});
    part.rows_per_task = (wanted + group - 1) / group * group;
    part.tasks = (part.od + part.rows_per_task - 1) / part.rows_per_task;
    tasks += part.tasks;
  }
  return tasks;
}

void MatmulStep::task(const Run& run, int64_t index, unsigned thread) {
  const Part* part = parts_.data();
  while (index >= part->first_task + part->tasks) ++part;
  const int64_t row0 = (index - part->first_task) * part->rows_per_task;
  const int64_t row1 = std::min(part->od, row0 + part->rows_per_task);
  part->kernel->run(run.packed[part->weight]->data, part->id, part->od, activation_->data(run), nt_,
                    row0, row1, part->bias == MINFER_NONE ? nullptr : run.floats(part->bias),
                    run.floats(part->out), part->out_stride, run.scratch(thread));
}

}  // namespace minfer_cpu
