// Decode of up to eight tokens: a warp's step on the int8 tensor cores.
//
// A warp multiplies 32 rows by 8 tokens, two halves of 16 rows. Fragments need no shuffling: lane
// (g, t) = (lane / 4, lane % 4) takes word t of rows g and g + 8 of a half from a 16-byte unit, and
// word t of token g's quants; it owns the results of rows g, g + 8 and tokens 2 t, 2 t + 1. Sums
// start at kMagic, so that their bits are floats (decode_dot.cuh).
#pragma once

#include "../kernels/activation.h"
#include "decode_dot.cuh"

namespace minfer_cuda::hopper {

#ifdef MINFER_SM90A

/// Results of a lane: [half][row g: tokens 2 t, 2 t + 1; row g + 8: the same].
using MmaSums = float[2][4];

/// d[16 x 8] = a[16 x 32] b[32 x 8] + c; quants unsigned, activations signed.
__device__ __forceinline__ void mma_u8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(kMagic));
}
__device__ __forceinline__ void mma_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(kMagic));
}
/// k of 16; the sums of tokens 2 t and 2 t + 1 start at c0 and c1.
__device__ __forceinline__ void mma_u8_k16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b,
                                           int c0, int c1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%7,%8,%7,%8};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(c0), "r"(c1));
}

/// Where a lane finds its activations, at the first step.
struct BatchInput {
  const int8_t* quants;    ///< of token g, + 4 t
  const ActMeta* meta[2];  ///< of tokens 2 t and 2 t + 1
};

/// A step's activations of a lane, asked for before the weights are waited for. They are read by
/// one warp of the block only, and so come straight from the L2.
template <int Blocks>
struct BatchStep {
  uint32_t quants[Blocks][2];
  float d[Blocks][2];
  uint32_t sums[Blocks][2];  ///< of quants 0..15 in the low half, 16..31 in the high half

  __device__ __forceinline__ void load(const BatchInput& x, uint32_t k) {
#pragma unroll
    for (int b = 0; b < Blocks; ++b) {
      const auto* q = reinterpret_cast<const uint32_t*>(x.quants + k + b * 32);
      quants[b][0] = __ldcg(q);
      quants[b][1] = __ldcg(q + 4);
    }
#pragma unroll
    for (int b = 0; b < Blocks; b += 2) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const uint4 m = __ldcg(reinterpret_cast<const uint4*>(x.meta[e] + k / 32 + b));
        d[b][e] = __uint_as_float(m.x), sums[b][e] = m.y;
        d[b + 1][e] = __uint_as_float(m.z), sums[b + 1][e] = m.w;
      }
    }
  }
  __device__ __forceinline__ int low(int b, int e) const {
    return static_cast<int16_t>(sums[b][e] & 0xffffu);
  }
  __device__ __forceinline__ int high(int b, int e) const {
    return static_cast<int>(sums[b][e]) >> 16;
  }
};

__device__ __forceinline__ uint32_t word_at(const uint8_t* step, int unit, int row, int t) {
  return *reinterpret_cast<const uint32_t*>(step + unit * 512 + row * 16 + t * 4);
}

template <uint32_t Type>
struct StepMma;

template <>
struct StepMma<MINFER_TYPE_Q4_K> {
  static constexpr int kBlocks = 8;

  /// Sub-block b: sums of a half with the scales of its two rows.
  static __device__ __forceinline__ void add(const int (&c)[4], const KScales (&ks)[2], int b,
                                             const BatchStep<8>& x, float (&sum)[4],
                                             float (&mins)[4]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float scale = byte_of(ks[r].scale[b >> 2], b & 3),
                  min = byte_of(ks[r].min[b >> 2], b & 3);
      const float minus = -kMagicFloat * scale;  // exact: six bits times 1.5 * 2^23
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float v = fmaf(__int_as_float(c[2 * r + e]), scale, minus);
        sum[2 * r + e] = fmaf(v, x.d[b][e], sum[2 * r + e]);
        const float total = x.d[b][e] * static_cast<float>(x.low(b, e) + x.high(b, e));
        mins[2 * r + e] = fmaf(min, total, mins[2 * r + e]);
      }
    }
  }
  static __device__ __forceinline__ void run(const uint8_t* step, int lane, const BatchStep<8>& x,
                                             MmaSums& acc) {
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r0 = half * 16 + g, r1 = r0 + 8;
      const KScales ks[2] = {KScales(plane(step + r0 * 16, 0)), KScales(plane(step + r1 * 16, 0))};
      float low[4] = {}, high[4] = {}, mins[4] = {};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t w[4] = {word_at(step, 1 + 2 * j, r0, t), word_at(step, 1 + 2 * j, r1, t),
                               word_at(step, 2 + 2 * j, r0, t), word_at(step, 2 + 2 * j, r1, t)};
        uint32_t a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = w[i] & 0x0f0f0f0fu, b[i] = w[i] & 0xf0f0f0f0u;
        int c[4];
        mma_u8(c, a, x.quants[2 * j][0], x.quants[2 * j][1]);
        add(c, ks, 2 * j, x, low, mins);
        mma_u8(c, b, x.quants[2 * j + 1][0], x.quants[2 * j + 1][1]);
        add(c, ks, 2 * j + 1, x, high, mins);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const KScales& k = ks[i >> 1];
        acc[half][i] += k.d * fmaf(high[i], 0.0625f, low[i]) - k.dmin * mins[i];
      }
    }
  }
};

template <>
struct StepMma<MINFER_TYPE_Q6_K> {
  static constexpr int kBlocks = 8;

  static __device__ __forceinline__ void run(const uint8_t* step, int lane, const BatchStep<8>& x,
                                             MmaSums& acc) {
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int rows[2] = {half * 16 + g, half * 16 + g + 8};
      float sum[4] = {};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          uint32_t low[2][2], high[2];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            low[0][r] = word_at(step, 4 * h + i, rows[r], t);
            low[1][r] = word_at(step, 4 * h + 2 + i, rows[r], t);
            high[r] = word_at(step, 8 + 2 * h + i, rows[r], t);
          }
#pragma unroll
          for (int q = 0; q < 4; ++q) {  // 16 quants: half i of sub-block 4 h + q
            const int b = 4 * h + q;
            uint32_t a[2];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              const uint32_t l = low[q & 1][r] >> (q & 2 ? 4 : 0);
              const uint32_t u = q < 2 ? high[r] << (4 - 2 * q) : high[r] >> (2 * q - 4);
              a[r] = (l & 0x0f0f0f0fu) | (u & 0x30303030u);
            }
            int c[4];
            mma_u8_k16(c, a[0], a[1], x.quants[b][i],
                       kMagic - 32 * (i ? x.high(b, 0) : x.low(b, 0)),
                       kMagic - 32 * (i ? x.high(b, 1) : x.low(b, 1)));
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              const uint32_t word =
                  *reinterpret_cast<const uint32_t*>(step + 12 * 512 + rows[r] * 16 + b / 2 * 4);
              const float scale = signed_byte_of(word, (b & 1) * 2 + i);
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                const float v = from_magic(c[2 * r + e]) * x.d[b][e];
                sum[2 * r + e] = fmaf(v, scale, sum[2 * r + e]);
              }
            }
          }
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        acc[half][i] += half_at(step + 13 * 512 + rows[i >> 1] * 2) * sum[i];
      }
    }
  }
};

template <>
struct StepMma<MINFER_TYPE_Q8_0> {
  static constexpr int kBlocks = 4;

  static __device__ __forceinline__ void run(const uint8_t* step, int lane, const BatchStep<4>& x,
                                             MmaSums& acc) {
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r0 = half * 16 + g, r1 = r0 + 8;
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        const uint8_t* tile = step + b * 1088;
        const uint32_t a[4] = {word_at(tile, 0, r0, t), word_at(tile, 0, r1, t),
                               word_at(tile, 1, r0, t), word_at(tile, 1, r1, t)};
        int c[4];
        mma_s8(c, a, x.quants[b][0], x.quants[b][1]);
        const float d[2] = {half_at(tile + 1024 + r0 * 2), half_at(tile + 1024 + r1 * 2)};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          acc[half][i] = fmaf(from_magic(c[i]) * x.d[b][i & 1], d[i >> 1], acc[half][i]);
        }
      }
    }
  }
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
