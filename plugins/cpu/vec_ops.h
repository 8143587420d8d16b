// The seam between the CPU plugin's operators and its vector kernels: everything hot that is not a
// matmul, as one table of functions per instruction level.
//
// Every function is pure, takes any length (n may be 0 and need not be a multiple of anything),
// needs no alignment beyond the element's, and lets `out` be the same array as an input (never a
// partial overlap), unless it says otherwise. Thread-safe on disjoint outputs.
#pragma once

#include <cstdint>

#include "matmul.h"

namespace minfer_cpu {

/// Tokens that K is interleaved by inside a page. Page sizes are multiples of it.
inline constexpr int64_t kKvLanes = 16;

/// One type of KV cache. Inside a page, a KV head owns `page_tokens` tokens of K, then of V:
///
///  - K in blocks of kKvLanes tokens, dimension-major, so that a vector register holds one
///  dimension
///    of 16 tokens. f32, f16: `[dim][16]`. q8_0: for each 32 dimensions, 16 scales (f16, one per
///    token) followed by int8 `[32][16]`.
///  - V as rows of dim elements, one per token. f32, f16: plain. q8_0: blocks {f16 scale, int8[32]}
///    as in the file format.
///
/// q8_0 needs dim to be a multiple of 32. Places never stored may hold anything, NaN included.
struct KvOps {
  /// Bytes of kKvLanes tokens of K, and of one token of V.
  int64_t (*k_block_bytes)(int64_t dim);
  int64_t (*v_row_bytes)(int64_t dim);

  /// Converts one token's row of a head into place `lane` of a K block, or into a V row. f16 rounds
  /// to nearest even; q8_0: scale = f16(max|x| / 127), values = round-to-nearest(x * 127 / max|x|)
  /// with halves away from zero.
  void (*store_k)(const float* k, int64_t dim, uint8_t* block, int64_t lane);
  void (*store_v)(const float* v, int64_t dim, uint8_t* row);
  /// The inverses.
  void (*load_k)(const uint8_t* block, int64_t lane, int64_t dim, float* k);
  void (*load_v)(const uint8_t* row, int64_t dim, float* v);

  /// out[i * out_stride + j] = q_i . k_j for i in [0, nq) and j in [0, 16 * n_blocks): q_i starts
  /// at q + i * q_stride (floats). Columns of tokens never stored get unspecified values.
  void (*scores)(const float* q, int64_t q_stride, int64_t nq, const uint8_t* k, int64_t n_blocks,
                 int64_t dim, float* out, int64_t out_stride);
  /// acc[i * acc_stride + d] += sum over j in [0, nk) of p[i * p_stride + j] * v_j[d], d in [0,
  /// dim). Rows of V outside [0, nk) are not read.
  void (*values)(const float* p, int64_t p_stride, int64_t nq, const uint8_t* v, int64_t nk,
                 int64_t dim, float* acc, int64_t acc_stride);
};

/// Index into VecOps::kv.
enum KvType : uint32_t { kKvF32 = 0, kKvF16 = 1, kKvQ8 = 2, kKvTypes = 3 };

struct VecOps {
  const char* label;  ///< "scalar", "avx2", "avx512"

  // Elementwise.
  void (*add)(const float* a, const float* b, int64_t n, float* out);
  void (*mul)(const float* a, const float* b, int64_t n, float* out);
  /// out = x * factor + offset
  void (*scale)(const float* x, int64_t n, float factor, float offset, float* out);
  /// acc += x * factor
  void (*axpy)(const float* x, int64_t n, float factor, float* acc);
  /// x / (1 + exp(-x)); relative error below 2e-6, no overflow at any finite x.
  void (*silu)(const float* x, int64_t n, float* out);
  /// silu(gate) * up
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  /// `kind` is MINFER_GELU_*; formulas in docs/operators.md.
  void (*gelu)(const float* x, int64_t n, uint32_t kind, float* out);
  /// gelu(gate) * up
  void (*gelu_mul)(const float* gate, const float* up, int64_t n, uint32_t kind, float* out);
  /// cap * tanh(x / cap)
  void (*soft_cap)(const float* x, int64_t n, float cap, float* out);

  // Rows.
  /// The largest value; -infinity for n = 0. NaN is skipped.
  float (*max)(const float* x, int64_t n);
  /// Index of the largest value, the lowest among equals; NaN only if there is nothing else. n > 0.
  int64_t (*arg_max)(const float* x, int64_t n);
  /// out = exp(x - bias), returns the sum of out. exp of -infinity is 0. Relative error below 2e-6.
  float (*exp_sum)(const float* x, int64_t n, float bias, float* out);
  /// out = x / sqrt(mean(x^2) + eps) * (weight + weight_offset); weight NULL: the factor is 1.
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float weight_offset,
                   float* out);
  /// sum = a + b, out = rms_norm(sum). `sum` may be `a` or `b`; `out` is none of the three.
  void (*add_rms_norm)(const float* a, const float* b, const float* weight, int64_t n, float eps,
                       float weight_offset, float* sum, float* out);

  // Rotation of one head. cos and sin have `half` entries; writes 2 * half values.
  /// Pairs (i, i + half).
  void (*rope_neox)(const float* x, const float* cos, const float* sin, int64_t half, float* out);
  /// Pairs (2i, 2i + 1).
  void (*rope_interleaved)(const float* x, const float* cos, const float* sin, int64_t half,
                           float* out);

  KvOps kv[kKvTypes];
};

/// The tables. A level's own table may take scalar functions for what it does not speed up: copy
/// *vec_ops_scalar() and replace.
const VecOps* vec_ops_scalar();
const VecOps* vec_ops_avx2();
const VecOps* vec_ops_avx512();

/// The table for a level (AVX-512 VNNI takes that of AVX-512); built once, never NULL.
const VecOps* vec_ops(Isa isa);

}  // namespace minfer_cpu
