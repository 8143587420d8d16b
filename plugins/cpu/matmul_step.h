// MATMUL in plans: conversion of activations, and sections that multiply one activation with one or
// several matrices. The steps are used by one run at a time.
#pragma once

#include <memory>
#include <vector>

#include "plan.h"
#include "row_ops.h"

namespace minfer_cpu {

/// An activation as kernels read it: converted into the workspace, or the tensor itself.
struct Activation {
  uint32_t tensor = MINFER_NONE;
  const MatmulKernel* kernel = nullptr;  ///< names the format and converts
  bool converted = false;                ///< false: rows of f32 without gaps, read in place
  uint64_t offset = 0;                   ///< in the workspace, once placed

  const uint8_t* data(const Run& run) const {
    return converted ? run.workspace + offset : run.data[tensor];
  }
};

/// Converts rows of a matrix [id, nt]. The valid count of rows is passed on, so that the buffer has
/// the layout for exactly the rows of the run.
std::unique_ptr<RowOp> make_convert(const OpContext& ctx, const Activation* activation, Rows rows);

/// Matrices that read one activation, in one section.
class MatmulStep final : public Step {
 public:
  MatmulStep(const OpContext& ctx, const Activation* activation, Rows rows)
      : ctx_(ctx), activation_(activation), rows_(rows) {}

  void append(const Node& node, uint32_t index, const MatmulKernel* kernel);
  /// Two matrices whose product is wanted only as out = act(gate) * up: tasks multiply a range of
  /// rows of both into their own scratch and combine it. `act` is a SILU or GELU node.
  void append_gated(const Node& gate, uint32_t index, const MatmulKernel* gate_kernel,
                    const Node& up, const MatmulKernel* up_kernel, const Node& act,
                    const Node& mul);

  int64_t prepare(const Run& run) override;
  void task(const Run& run, int64_t index, unsigned thread) override;
  uint64_t scratch_bytes() const override;
  uint64_t bytes_read() const override;
  uint32_t parts() const override { return static_cast<uint32_t>(parts_.size()); }
  void select_part(int64_t part) override { selected_ = part; }
  uint32_t node_of(uint32_t part) const override { return parts_[part].node; }

 private:
  struct Matrix {
    const MatmulKernel* kernel = nullptr;
    uint32_t weight = MINFER_NONE, bias = MINFER_NONE;
  };
  struct Part {
    Matrix matrix;
    Matrix up;  // of a gated pair; no kernel: a single matrix
    bool silu = false;
    uint32_t gelu_kind = 0;
    uint32_t node = 0, out = 0;
    int64_t id = 0, od = 0, out_stride = 0;
    int64_t row_group = 1;
    uint64_t bytes = 0;
    int64_t rows_per_task = 0, first_task = 0, tasks = 0;  // of the run
  };

  Part make_part(const Node& node, uint32_t index, const MatmulKernel* kernel, uint32_t out) const;
  int64_t most_rows(const Part& part) const;
  void multiply(const Run& run, const Part& part, const Matrix& matrix, int64_t row0, int64_t row1,
                float* out, int64_t stride, uint8_t* scratch) const;
  void multiply_gated(const Run& run, const Part& part, int64_t row0, int64_t row1,
                      uint8_t* scratch) const;
  uint64_t kernel_scratch() const;

  OpContext ctx_;
  const Activation* activation_;
  Rows rows_;
  std::vector<Part> parts_;
  int64_t selected_ = -1;  // part of a timed run; -1: all
  int64_t nt_ = 0;
  uint64_t kernel_scratch_ = 0;
};

}  // namespace minfer_cpu
