// The forms in which activations are handed to matrix kernels, and the kernels that produce them.
//
// A producer (norm, gated unit, or a plain conversion) may write f32, int8 and f16 at once, so that
// an activation is converted once however many matrices read it.
#pragma once

#include "view.h"

namespace minfer_cuda {

/// Scale and integer sums of 32 int8 quants: value = d * q; lo, hi: sums of quants 0..15
/// and 16..31.
struct ActMeta {
  float d;
  int16_t lo;
  int16_t hi;
};

/// int8 rows [id] per token, then ActMeta rows [id / 32]; id is a multiple of 32.
struct Int8Rows {
  int8_t* quants = nullptr;
  ActMeta* meta = nullptr;
};

/// f16 rows [id padded to 32] per token; token t's values were multiplied by 1 / scale[t] to stay
/// in range.
struct HalfRows {
  uint16_t* data = nullptr;
  float* scale = nullptr;
};

/// Bytes of an Int8Rows buffer for `tokens` rows, 16-byte aligned parts.
inline uint64_t int8_rows_bytes(int64_t id, int64_t tokens) {
  return static_cast<uint64_t>(tokens * id + tokens * (id / 32) * 8);
}
inline Int8Rows int8_rows_at(void* base, int64_t id, int64_t tokens) {
  auto* quants = static_cast<int8_t*>(base);
  return {quants, reinterpret_cast<ActMeta*>(quants + tokens * id)};
}

/// Elements of an f16 row: id rounded up to 32, the tail zero.
inline int64_t half_row_elements(int64_t id) {
  return (id + 31) / 32 * 32;
}
inline uint64_t half_rows_bytes(int64_t id, int64_t tokens) {
  return static_cast<uint64_t>(tokens * half_row_elements(id) * 2 + tokens * 4);
}
inline HalfRows half_rows_at(void* base, int64_t id, int64_t tokens) {
  auto* data = static_cast<uint16_t*>(base);
  return {data, reinterpret_cast<float*>(data + tokens * half_row_elements(id))};
}

/// Where a producer of rows puts its result; absent parts are null.
struct ActivationOut {
  float* f32 = nullptr;
  int64_t f32_stride = 0;  ///< in floats
  Int8Rows int8;
};

/// x rows [n], n a multiple of 32, to int8. Padding tokens get zero scales and quants. `overlap`
/// here and below: see overlap.cuh.
cudaError_t launch_quantize(const float* x, int64_t x_stride, int n, int tokens,
                            const int32_t* valid, Int8Rows out, bool overlap, cudaStream_t stream);

/// x rows [n] to f16, each row scaled by a power of two so that its largest value is at most 2^14.
cudaError_t launch_to_half(const float* x, int64_t x_stride, int n, int tokens,
                           const int32_t* valid, HalfRows out, cudaStream_t stream);

/// out = x / sqrt(mean(x^2) + eps) * (w + weight_offset) per row of n; w may be null. Accumulates
/// in f32; tolerance 1e-5. n is a multiple of 32 where int8 is asked for.
cudaError_t launch_norm_rows(const float* x, int64_t x_stride, const float* w, float weight_offset,
                             float eps, int n, int tokens, const int32_t* valid, ActivationOut out,
                             bool overlap, cudaStream_t stream);

enum class GateFn : int32_t { kSilu, kGeluTanh, kGeluErf, kGeluQuick };

/// out = fn(gate) * up per row of n.
cudaError_t launch_gated_rows(GateFn fn, const float* gate, int64_t gate_stride, const float* up,
                              int64_t up_stride, int n, int tokens, const int32_t* valid,
                              ActivationOut out, bool overlap, cudaStream_t stream);

}  // namespace minfer_cuda
