// Fills a VecOps table with the generic kernels over a vector V. All static (see unroll.h).
#pragma once

#include "kernels/vec_kv.h"
#include "kernels/vec_rows.h"
#include "vec_ops.h"

namespace minfer_cpu {
namespace {

template <class V>
VecOps vec_table(const char* label) {
  using Rows = RowOps<V>;
  VecOps ops = *vec_ops_scalar();
  ops.label = label;
  ops.add = Rows::add;
  ops.mul = Rows::mul;
  ops.scale = Rows::scale;
  ops.axpy = Rows::axpy;
  ops.silu = Rows::silu;
  ops.silu_mul = Rows::silu_mul;
  ops.gelu = Rows::gelu;
  ops.gelu_mul = Rows::gelu_mul;
  ops.soft_cap = Rows::soft_cap;
  ops.max = Rows::max;
  ops.arg_max = Rows::arg_max;
  ops.exp_sum = Rows::exp_sum;
  ops.rms_norm = Rows::rms_norm;
  ops.add_rms_norm = Rows::add_rms_norm;
  ops.rope_neox = Rows::rope_neox;
  ops.rope_interleaved = Rows::rope_interleaved;
  use_kv_ops<V>(ops);
  return ops;
}

}  // namespace
}  // namespace minfer_cpu
