// The end of a tile in the prefill kernel: token scales, bias, residual or gated unit, stores.
//
// A warpgroup holds 64 rows by N tokens as wgmma leaves them: thread (g, t) of warp w, g = lane /
// 4, t = lane % 4, has in sums 4 j .. 4 j + 3 tokens 8 j + 2 t, 8 j + 2 t + 1 of its first row,
// then of its second row. Loads go first, in batches, then stores: a load that follows a store
// would wait for it.
#pragma once

#include "prefill_common.cuh"

namespace minfer_cuda::hopper {

#ifdef MINFER_SM90A

/// Rows of a thread's fragment. Plain: rows of one group, the second a partner such that the lanes'
/// rows g = 0..7 use all banks. Gated: the same row of a gate and an up group, ordered so that
/// after a transposition neighbouring lanes' pairs are neighbours in fragment order.
template <bool Gated>
__device__ __forceinline__ FragmentRows fragment_rows(int warp, int lane) {
  const uint32_t g = lane >> 2, word = (lane & 3) * 4;
  if constexpr (Gated) {
    const uint32_t row = warp * 8 + (g & 4) + ((g & 1) << 1) + ((g >> 1) & 1);
    return {0, row, 1, row, word};
  } else {
    const uint32_t t = g >> 1, row = (warp & 1) * 16 + 4 * t + 2 * (t >> 1) + (g & 1);
    const uint32_t group = warp >> 1;
    return {group, row, group, row ^ 2, word};
  }
}

/// Writes N tokens from `first_token` of the 64 rows (32 gated ones) from `first_row` of a segment.
/// Narrow: all tokens of the launch, whose scales are in shared memory.
template <int N, bool Gated, bool Narrow>
struct Epilogue {
  const Params& p;
  int warpgroup, thread;  ///< thread of the warpgroup
  int first_row, first_token;
  uint32_t scales, squares;  ///< narrow: in shared memory, N scales, a row of N for each warp

  __device__ __forceinline__ int lane() const { return thread & 31; }
  __device__ __forceinline__ int warp() const { return thread >> 5; }

  __device__ __forceinline__ void write(const Segment& s, float (&acc)[N / 2]) const {
    const int valid = valid_of(p.valid, p.tokens);
    scale(acc, valid);
    if constexpr (Gated) {
      write_gated(acc, valid);
    } else {
      write_plain(s, acc, valid);
    }
  }

 private:
  /// Multiplies the sums by their tokens' scales; padding tokens become zero. Every lane loads a
  /// token in 32, and passes it on.
  __device__ __forceinline__ void scale(float (&acc)[N / 2], int valid) const {
    float s[(N + 31) / 32];
#pragma unroll
    for (int i = 0; i < (N + 31) / 32; ++i) {
      const int token = first_token + i * 32 + lane();
      if constexpr (Narrow) {
        s[i] = __uint_as_float(load_shared_4(scales + min(i * 32 + lane(), N - 1) * 4));
      } else {
        s[i] = token < valid ? p.x_factor : 0.f;
        if (p.x_scale && token < valid) s[i] *= __ldcg(p.x_scale + token);
      }
    }
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float v = __shfl_sync(~0u, s[j / 4], (j % 4) * 8 + (lane() & 3) * 2 + e);
        acc[4 * j + e] *= v;
        acc[4 * j + 2 + e] *= v;
      }
    }
  }

  /// Adds the residual. Loads go ahead in batches, and addresses outside are moved inside, so that
  /// no branch or store comes between them.
  __device__ __forceinline__ void add_residual(const Segment& s, int r0, int r1, int token0,
                                               float (&acc)[N / 2]) const {
    constexpr int kBatch = N > 128 ? 2 : N >= 32 ? 4 : N / 8;
    const float* column0 = s.residual + min(r0, s.od - 1);
    const float* column1 = s.residual + min(r1, s.od - 1);
#pragma unroll
    for (int base = 0; base < N / 8; base += kBatch) {
      float v[kBatch * 4];
#pragma unroll
      for (int i = 0; i < kBatch * 2; ++i) {
        const int token = token0 + (base + i / 2) * 8 + i % 2;
        const int64_t at = min(token, p.tokens - 1) * s.residual_stride;
        v[2 * i] = __ldcg(column0 + at);
        v[2 * i + 1] = __ldcg(column1 + at);
      }
#pragma unroll
      for (int i = 0; i < kBatch * 2; ++i) {
        acc[4 * (base + i / 2) + i % 2] += v[2 * i];
        acc[4 * (base + i / 2) + 2 + i % 2] += v[2 * i + 1];
      }
    }
  }

  __device__ __forceinline__ void write_plain(const Segment& s, float (&acc)[N / 2],
                                              int valid) const {
    const FragmentRows rows = fragment_rows<false>(warp(), lane());
    const int row = first_row + static_cast<int>(rows.first_group) * 32;
    const int r0 = row + static_cast<int>(rows.first_row);
    const int r1 = row + static_cast<int>(rows.second_row);
    const bool real0 = r0 < s.od, real1 = r1 < s.od;
    const int token0 = first_token + (lane() & 3) * 2;
    if (s.bias) {
      const float b0 = real0 ? s.bias[r0] : 0.f, b1 = real1 ? s.bias[r1] : 0.f;
#pragma unroll
      for (int i = 0; i < N / 2; ++i) acc[i] += i & 2 ? b1 : b0;
    }
    if (s.residual) add_residual(s, r0, r1, token0, acc);
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int token = token0 + j * 8 + e;
        if (token >= p.tokens) continue;
        float* to = s.out + token * s.out_stride;
        if (real0) to[r0] = token < valid ? acc[4 * j + e] : 0.f;
        if (real1) to[r1] = token < valid ? acc[4 * j + 2 + e] : 0.f;
      }
    }
    if constexpr (Narrow) {
      if (p.out_squares && first_row < s.od) publish(s.od, r0, r1, acc, valid);
    }
  }

  /// Rows r0 and r1 = r0 ^ 2 are neighbours in fragment order.
  __device__ __forceinline__ void publish(int od, int r0, int r1, float (&acc)[N / 2],
                                          int valid) const {
    constexpr float kFactor = 1.f / kPublishedScale;
    const float w0 = p.out_weight ? p.out_weight[r0] + p.out_weight_offset : 1.f;
    const float w1 = p.out_weight ? p.out_weight[r1] + p.out_weight_offset : 1.f;
    const int k = min(r0, r1);  // 0 or 1 of four: see fragment_position
    __half* to = p.half_out + (k & ~15) + 2 * ((k & 15) >> 2) + 8 * (k & 1);
    const uint32_t sums = squares + (warpgroup * 4 + warp()) * N * 4;
    named_barrier(1 + warpgroup, kWarpgroup);  // the last sums were read
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int local = j * 8 + (lane() & 3) * 2 + e, token = first_token + local;
        const float v0 = token < valid ? acc[4 * j + e] : 0.f;
        const float v1 = token < valid ? acc[4 * j + 2 + e] : 0.f;
        float sum = v0 * v0 + v1 * v1;
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
        if (lane() < 4) store_shared_4(sums + local * 4, __float_as_uint(sum));
        const float f0 = within_half(v0 * w0 * kFactor), f1 = within_half(v1 * w1 * kFactor);
        const __half2 pair = r0 < r1 ? __floats2half2_rn(f0, f1) : __floats2half2_rn(f1, f0);
        if (token < p.tokens) {
          *reinterpret_cast<__half2*>(to + static_cast<size_t>(token) * od) = pair;
        }
      }
    }
    named_barrier(1 + warpgroup, kWarpgroup);
    const uint32_t column = squares + warpgroup * 4 * N * 4 + thread * 4;
    if (thread < N && first_token + thread < p.tokens) {
      float sum = 0.f;
#pragma unroll
      for (int i = 0; i < 4; ++i) sum += __uint_as_float(load_shared_4(column + i * N * 4));
      p.out_squares[static_cast<size_t>(first_row / 64) * p.tokens + first_token + thread] = sum;
    }
  }

  static __device__ __forceinline__ float within_half(float v) {
    return fminf(fmaxf(v, -65504.f), 65504.f);
  }

  /// fn(gate) * up in place of gate.
  template <class F>
  static __device__ __forceinline__ void apply_gate(float (&acc)[N / 2], float bias_gate,
                                                    float bias_up, F fn) {
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        acc[4 * j + e] = within_half(fn(acc[4 * j + e] + bias_gate) *
                                     (acc[4 * j + 2 + e] + bias_up) * (1.f / kGatedScale));
      }
    }
  }

  __device__ __forceinline__ void write_gated(float (&acc)[N / 2], int valid) const {
    const int od = p.segments[0].od, group_row = first_row + warp() * 8;
    const int g = lane() >> 2, t = lane() & 3;
    const int row = group_row + (g & 4) + ((g & 1) << 1) + ((g >> 1) & 1);
    const float* gate_bias = p.segments[0].bias;
    const float* up_bias = p.segments[1].bias;
    const float bg = gate_bias && row < od ? gate_bias[row] : 0.f;
    const float bu = up_bias && row < od ? up_bias[row] : 0.f;
    if (p.gate_fn == GateFn::kSilu) {
      apply_gate(acc, bg, bu, [](float v) { return __fdividef(v, 1.f + __expf(-v)); });
    } else {
      apply_gate(acc, bg, bu, [fn = p.gate_fn](float v) { return gate_value(fn, v); });
    }
    // After the transposition this lane holds rows k and k + 2 of token g: two neighbours.
    const int position = group_row / 16 * 16 + (warp() & 1) * 4 + (t >> 1) * 2 + (t & 1) * 8;
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const int token = first_token + t * 2 + j * 8;
      const float v0 = token < valid ? acc[4 * j] : 0.f;
      const float v1 = token + 1 < valid ? acc[4 * j + 1] : 0.f;
      const uint32_t pair = transpose_8x8(bits_of(__floats2half2_rn(v0, v1)));
      const int to = first_token + j * 8 + g;
      if (to < p.tokens && group_row < od) {
        *reinterpret_cast<uint32_t*>(p.half_out + static_cast<size_t>(to) * od + position) = pair;
      }
    }
  }
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
