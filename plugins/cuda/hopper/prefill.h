// Hopper prefill: many tokens times matrices in tile32, on the tensor cores by wgmma.
//
//   y[o, t] = s[t] * sum_i W[i, o] * x[i, t] + bias[o] + residual[o, t]                (plain, f32)
//   h[o, t] = fn(s Wg x + bias_g) * (s Wu x + bias_u) / kGatedScale                   (gated, f16)
//
// Weights are dequantised to f16 in registers on their way from shared memory to the tensor cores
// (scale and minimum rounded once each); activations are f16 rows in fragment order (see
// fragment_position); sums are f32. Relative error against float64 about 5e-4, tolerance 2e-3.
//
// Persistent blocks of 128 or 256 weight rows by 16 to 256 tokens. Only valid tokens are computed,
// in steps of 64: the kernel reads their count and takes whole token tiles, then a narrower one.
// Where the tiles do not fill the device evenly the last ones are cut along k, and the parts are
// added in a fixed order: results do not depend on timing. Parts wait in a workspace; the flags
// beside it are zero before and after every launch, so that launches can be captured and replayed.
// Blocks wait only for blocks of lower index. Thread-safe; nothing is allocated.
#pragma once

#include "../kernels/activation.h"
#include "prefill_plan.h"

namespace minfer_cuda::hopper {

inline constexpr int kMaxPrefillSegments = 4;

/// Gated results are divided by this on the way to f16, and saturate at its limits.
inline constexpr float kGatedScale = 16.f;

/// Rows that a matmul publishes for a norm after it are divided by this, and saturate too.
inline constexpr float kPublishedScale = 16.f;
/// Most tokens of launches that publish, or read published rows.
inline constexpr int kMaxPublishedTokens = 32;

/// f16 rows are stored with k permuted inside each group of 16, so that a thread's two words of
/// activations match the four consecutive quants of its word of weights: k = 4 t + (0, 2, 1, 3) is
/// at position 2 t, 2 t + 1, 2 t + 8, 2 t + 9.
constexpr int fragment_position(int k) {
  const int t = (k & 15) >> 2, e = k & 3;
  return (k & ~15) + 2 * t + (e >> 1) + 8 * (e & 1);
}

struct PrefillSegment {
  const uint8_t* weight = nullptr;  ///< tile32, 16-byte aligned
  const float* bias = nullptr;
  const float* residual = nullptr;  ///< may be `out`
  int64_t residual_stride = 0;      ///< in floats
  float* out = nullptr;
  int64_t out_stride = 0;  ///< in floats
};

/// Addresses and numbers of a launch; its shape is in the plan.
struct PrefillCall {
  PrefillSegment segments[kMaxPrefillSegments];
  const uint16_t* x = nullptr;     ///< f16 [tokens][id] in fragment order, 16-byte aligned
  const float* x_scale = nullptr;  ///< s[t], or null for x_factor alone
  float x_factor = 1.f;            ///< multiplies s
  /// Of published rows: sums of squares [id / 64][tokens]; s[t] = 1 / sqrt(their sum / id + eps).
  const float* x_squares = nullptr;
  float eps = 0.f;
  bool gated = false;  ///< two segments of one length: gate, up
  GateFn gate_fn = GateFn::kSilu;
  /// Gated: f16 [tokens][od] in fragment order; od % 32 == 0. Rows past the valid ones are
  /// undefined, as they may be in `x`.
  uint16_t* half_out = nullptr;
  /// Publishing, of one plain segment with od % 64 == 0: half_out gets y * (out_weight +
  /// out_weight_offset) / kPublishedScale, out_squares [od / 64][tokens] sums of squares of y.
  float* out_squares = nullptr;
  const float* out_weight = nullptr;  ///< null: ones
  float out_weight_offset = 0.f;
  const int32_t* valid = nullptr;  ///< tokens in use; the others' f32 results are zero
  float* workspace = nullptr;      ///< of the plan, 16-byte aligned
  uint32_t* flags = nullptr;       ///< kPrefillFlagBytes of zeros, used by one stream at a time
  bool overlap = false;            ///< programmatic dependent launch
};

inline constexpr int kMaxFragmentRow = 65536;
inline constexpr uint64_t kPrefillFlagBytes = 32768;

cudaError_t launch_prefill(const PrefillCall& call, const PrefillPlan& plan, int sms,
                           cudaStream_t stream);

/// x rows [n] f32 to f16 in fragment order, each row divided by a power of two that keeps it below
/// 2^14 (stored in `scale`). Padding rows are left alone. n is a multiple of 16 up to
/// kMaxFragmentRow. `overlap`: see ../kernels/overlap.cuh.
cudaError_t launch_to_fragments(const float* x, int64_t x_stride, int n, int tokens,
                                const int32_t* valid, uint16_t* out, float* scale, bool overlap,
                                cudaStream_t stream);

/// RMS norm and conversion at once: x / sqrt(mean(x^2) + eps) * (w + weight_offset).
cudaError_t launch_norm_to_fragments(const float* x, int64_t x_stride, const float* w,
                                     float weight_offset, float eps, int n, int tokens,
                                     const int32_t* valid, uint16_t* out, float* scale,
                                     bool overlap, cudaStream_t stream);

}  // namespace minfer_cuda::hopper
