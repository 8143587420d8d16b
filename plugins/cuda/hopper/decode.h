// Hopper decode: one to sixteen tokens times up to four matrices in tile32, with the work around
// them fused.
//
//   y[o] = f * sum_i W[i, o] * x[i] + bias[o]                                  (plain)
//   y[o] = fn(f * Wg x + bias_g)[o] * (f * Wu x + bias_u)[o]                   (gated: two
//   matrices) out  = y + residual          and, for the next matrix, int8(out * scale[o]) with its
//   sums and
//                                the sum of squares of out
//
// x arrives as int8 with a scale per 32 (Int8Rows of activation.h). f is 1, or the factor of an RMS
// norm, rsqrt(sum of squares / id + eps), whose weight the producer already multiplied in: so a
// norm costs no launch of its own. Integer products are exact, sums are f32 in a fixed order;
// tolerance against the dequantised weights and exact activations 2e-2, against the int8
// activations 1e-4.
//
// One block per SM owns whole row groups of 32 rows and streams them through a ring of bulk copies
// per warp; lane = row for few tokens, so nothing is reduced in the loop; int8 tensor cores for
// more. With `overlap` the launch is a programmatic dependent one: weights are requested before the
// previous kernel has finished. Weights are read only, 16-byte aligned. Thread-safe; nothing is
// allocated, launches can be captured.
#pragma once

#include "../kernels/activation.h"

namespace minfer_cuda::hopper {

/// Dynamic shared memory that a block of these kernels may take.
inline constexpr uint64_t kSharedBytes = 227 * 1024;
inline constexpr int kMaxDecodeSegments = 4;
inline constexpr int kMaxDecodeTokens = 16;
inline constexpr int kMaxRowTokens = 4;  ///< that a lane can take with its row

struct DecodeSegment {
  const uint8_t* weight = nullptr;  ///< tile32, 16-byte aligned
  uint32_t type = 0;                ///< MINFER_TYPE_*
  int32_t od = 0;
  const float* bias = nullptr;      ///< [od] or null
  const float* residual = nullptr;  ///< [tokens][od], added last, or null; may be `out`
  float* out = nullptr;             ///< [tokens][od] f32, or null where only int8 is wanted
  int64_t residual_stride = 0, out_stride = 0;  ///< in floats, between tokens
};

struct DecodeCall {
  DecodeSegment segments[kMaxDecodeSegments];
  int32_t n_segments = 0;
  int32_t id = 0;
  int32_t tokens = 1;
  int32_t row_tokens = 1;  ///< up to which a lane takes a row; more run on int8 tensor cores
  int32_t most_warps = 0;  ///< of a block, for several tokens; 0: as many as are best
  Int8Rows x;              ///< [tokens]
  const float* squares =
      nullptr;  ///< [tokens][id / 32] partial sums of squares of a normed x, or null
  float eps = 0.f;
  bool gated = false;  ///< two segments of one type and length: gate, up; out of segment 0
  GateFn gate_fn = GateFn::kSilu;
  /// Of the first segment's result, for its next reader; null where not wanted. od is then a
  /// multiple of 32.
  Int8Rows out_int8;
  const float* out_scale = nullptr;  ///< [od], multiplied in before quantising, or null
  float out_scale_offset = 0.f;      ///< added to out_scale
  float* out_squares = nullptr;      ///< [tokens][od / 32]
  const int32_t* valid = nullptr;    ///< tokens in use; the others' results are zero
  bool overlap = false;
};

/// True when the kernel takes matrices of these types (in any order) and this input length.
bool decode_fits(const uint32_t* types, int n, int64_t id, int64_t tokens);

cudaError_t launch_decode(const DecodeCall& call, int sms, cudaStream_t stream);

}  // namespace minfer_cuda::hopper
