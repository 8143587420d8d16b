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
// Results of a gated pair that a task holds before combining them: small enough for the second
// cache.
constexpr int64_t kPairElements = 16384;

}  // namespace

std::unique_ptr<RowOp> make_convert(const OpContext& ctx, const Activation* activation, Rows rows) {
  return std::make_unique<Convert>(ctx, activation, rows);
}

MatmulStep::Part MatmulStep::make_part(const Node& node, uint32_t index, const MatmulKernel* kernel,
                                       uint32_t out) const {
  const Tensor& weight = ctx_.tensor(node.src[0]);
  Part part;
  part.matrix = {kernel, node.src[0], node.source(2)};
  part.node = index;
  part.out = out;
  part.id = weight.ne[0];
  part.od = weight.ne[1];
  part.out_stride = ctx_.tensor(out).nb[1] / static_cast<int64_t>(sizeof(float));
  part.row_group = kernel->row_group;
  part.bytes = kernel->packed_bytes(part.id, part.od);
  return part;
}

void MatmulStep::append(const Node& node, uint32_t index, const MatmulKernel* kernel) {
  parts_.push_back(make_part(node, index, kernel, node.dst));
}

void MatmulStep::append_gated(const Node& gate, uint32_t index, const MatmulKernel* gate_kernel,
                              const Node& up, const MatmulKernel* up_kernel, const Node& act,
                              const Node& mul) {
  Part part = make_part(gate, index, gate_kernel, mul.dst);
  part.up = {up_kernel, up.src[0], up.source(2)};
  part.silu = act.op == MINFER_OP_SILU;
  part.gelu_kind = part.silu ? 0 : act.params.gelu.kind;
  part.row_group = std::max<int64_t>(gate_kernel->row_group, up_kernel->row_group);
  part.bytes += up_kernel->packed_bytes(part.id, part.od);
  parts_.push_back(part);
}

// Rows of a gated pair that a task may take, so that its scratch stays small.
int64_t MatmulStep::most_rows(const Part& part) const {
  const int64_t rows = kPairElements / std::max<int64_t>(1, nt_) / part.row_group * part.row_group;
  return std::max(part.row_group, rows);
}

uint64_t MatmulStep::kernel_scratch() const {
  // Ask at capacity, and for one token: kernels may need more for few tokens than for many.
  uint64_t bytes = 0;
  for (const Part& part : parts_) {
    for (const Matrix& matrix : {part.matrix, part.up}) {
      if (matrix.kernel == nullptr) continue;
      bytes = std::max({bytes, matrix.kernel->scratch_bytes(part.id, 1),
                        matrix.kernel->scratch_bytes(part.id, rows_.fixed)});
    }
  }
  return align_up(bytes);
}

// The kernels' own, then gate and up of a gated pair.
uint64_t MatmulStep::scratch_bytes() const {
  int64_t elements = 0;
  for (const Part& part : parts_) {
    if (part.up.kernel == nullptr) continue;
    elements = std::max({elements, kPairElements, part.row_group * rows_.fixed});
  }
  return kernel_scratch() + 2 * align_up(static_cast<uint64_t>(elements) * sizeof(float));
}

uint64_t MatmulStep::bytes_read() const {
  return selected_ < 0 ? 0 : parts_[static_cast<size_t>(selected_)].bytes;
}

int64_t MatmulStep::prepare(const Run& run) {
  kernel_scratch_ = kernel_scratch();
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
    const int64_t group = part.row_group;
    const int64_t wanted =
        std::max({group, kLeastRows, static_cast<int64_t>(bytes_per_task / row_bytes)});
    part.rows_per_task = (wanted + group - 1) / group * group;
    if (part.up.kernel != nullptr) {
      part.rows_per_task = std::min(part.rows_per_task, most_rows(part));
    }
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
  if (part->up.kernel != nullptr) {
    multiply_gated(run, *part, row0, row1, run.scratch(thread));
  } else {
    multiply(run, *part, part->matrix, row0, row1, run.floats(part->out), part->out_stride,
             run.scratch(thread));
  }
}

void MatmulStep::multiply(const Run& run, const Part& part, const Matrix& matrix, int64_t row0,
                          int64_t row1, float* out, int64_t stride, uint8_t* scratch) const {
  matrix.kernel->run(run.packed[matrix.weight]->data, part.id, part.od, activation_->data(run), nt_,
                     row0, row1, matrix.bias == MINFER_NONE ? nullptr : run.floats(matrix.bias),
                     out, stride, scratch);
}

void MatmulStep::multiply_gated(const Run& run, const Part& part, int64_t row0, int64_t row1,
                                uint8_t* scratch) const {
  const int64_t rows = row1 - row0;
  float* gate = reinterpret_cast<float*>(scratch + kernel_scratch_);
  float* up = gate + rows * nt_;
  // Kernels address results by row of the whole matrix: these start at row0.
  multiply(run, part, part.matrix, row0, row1, gate - row0, rows, scratch);
  multiply(run, part, part.up, row0, row1, up - row0, rows, scratch);
  for (int64_t t = 0; t < nt_; ++t) {
    float* out = run.floats(part.out) + t * part.out_stride + row0;
    if (part.silu) {
      ctx_.vec->silu_mul(gate + t * rows, up + t * rows, rows, out);
    } else {
      ctx_.vec->gelu_mul(gate + t * rows, up + t * rows, rows, part.gelu_kind, out);
    }
  }
}

}  // namespace minfer_cpu
