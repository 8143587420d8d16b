// Decode of up to sixteen tokens: a warp's step on the int8 tensor cores.
//
// A warp multiplies 32 rows by 8 or 16 tokens, two halves of 16 rows. `ldmatrix` hands out
// fragments as they lie: lane (g, t) = (lane / 4, lane % 4) gets word t of row g of eight rows of
// 16 bytes, of weights (a unit of tile32) as of activations (token rows, padded by 16 bytes so that
// eight of them fall into different banks). A lane owns the results of rows g, g + 8 and tokens
// 2 t, 2 t + 1. Integer sums start at kMagic, so that their bits are floats (decode_dot.cuh).
//
// Minima (Q4_K) and the quants' offset (Q6_K) are a product too, of a block's small integers with
// the scaled sums of its activations: tf32 tensor cores, the sums in two parts so that f32's digits
// are kept.
#pragma once

#include "../kernels/activation.h"
#include "decode_dot.cuh"

namespace minfer_cuda::hopper {

/// Activations of a step of K elements in shared memory: token rows of quants, then of ActMeta.
template <int K, int Tiles>
struct ActSlot {
  static constexpr int kTokens = 8 * Tiles;
  static constexpr int kRow = K + 16, kMetaRow = K / 4 + 16;
  static constexpr int kBytes = kTokens * (kRow + kMetaRow);
};

#ifdef MINFER_SM90A

/// Results of a lane: [tokens of 8][half][row g: tokens 2 t, 2 t + 1; row g + 8: the same].
template <int Tiles>
using MmaSums = float[Tiles][2][4];

/// d[16 x 8] = a[16 x 32] b[32 x 8] + kMagic; weights unsigned or signed, activations signed.
__device__ __forceinline__ void mma_u8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(kMagic));
}
__device__ __forceinline__ void mma_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(kMagic));
}
/// The same with k of 16.
__device__ __forceinline__ void mma_u8_k16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%7,%7,%7,%7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(kMagic));
}
/// d += a[16 x 8] b[8 x 8]; a exact in tf32, b in two parts.
__device__ __forceinline__ void mma_tf32(float (&d)[4], const float (&a)[4], float b0, float b1) {
  const auto add = [&](float x, float y) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(x)), "r"(__float_as_uint(y)));
  };
  const auto top = [](float v) { return __uint_as_float(__float_as_uint(v) & 0xffffe000u); };
  const float x = top(b0), y = top(b1);
  add(x, y);
  add(b0 - x, b1 - y);
}
/// Four 8 x 16-byte matrices; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&d)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

/// A lane's view of a slot's activations.
template <int K, int Tiles>
struct BatchActs {
  using Slot = ActSlot<K, Tiles>;
  uint32_t quants;  ///< address of this lane's row for load_matrices, of the first tile
  uint32_t pair;    ///< ActMeta of token 2 t
  uint32_t own;     ///< ActMeta of token g

  __device__ __forceinline__ BatchActs(uint32_t slot, int lane)
      : quants(slot + (lane & 7) * Slot::kRow),
        pair(slot + Slot::kTokens * Slot::kRow + (lane & 3) * 2 * Slot::kMetaRow),
        own(slot + Slot::kTokens * Slot::kRow + (lane >> 2) * Slot::kMetaRow) {}

  /// Fragments at byte `at` of the rows, four matrices `stride` bytes apart.
  __device__ __forceinline__ void fragments(uint32_t (&b)[4], int tile, uint32_t at,
                                            uint32_t stride, int lane) const {
    load_matrices(b, quants + tile * 8 * Slot::kRow + at + (lane >> 3) * stride);
  }
  /// Scales of blocks b and b + 1 (b even) of tokens 2 t and 2 t + 1.
  __device__ __forceinline__ void scales(float (&d)[2][2], int tile, int b) const {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint4 m = load_shared_16(pair + (tile * 8 + e) * Slot::kMetaRow + b * 8);
      d[0][e] = __uint_as_float(m.x), d[1][e] = __uint_as_float(m.z);
    }
  }
  /// Scale and packed sums of a block of token g.
  __device__ __forceinline__ uint2 sums(int tile, int b) const {
    return load_shared_8(own + tile * 8 * Slot::kMetaRow + b * 8);
  }
};

/// sum += scale * (c - kMagic) * d, of two rows and two tokens.
__device__ __forceinline__ void add_scaled(float (&sum)[4], const int (&c)[4],
                                           const float (&scale)[2], const float (&d)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float minus = -kMagicFloat * scale[r];  // exact: few bits times 1.5 * 2^23
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float v = fmaf(__int_as_float(c[2 * r + e]), scale[r], minus);
      sum[2 * r + e] = fmaf(v, d[e], sum[2 * r + e]);
    }
  }
}

template <uint32_t Type>
struct StepMma;

template <>
struct StepMma<MINFER_TYPE_Q4_K> {
  template <int Tiles>
  static __device__ __forceinline__ void run(const uint8_t* step, int lane,
                                             const BatchActs<256, Tiles>& x, MmaSums<Tiles>& acc) {
    const int g = lane >> 2, t = lane & 3;
    uint32_t scales[2][2][2];  // [half][row][word]
    float d[2][2];
    {
      float block_sums[Tiles][2];
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint2 m = x.sums(n, t + 4 * i);
          const int sum = static_cast<int16_t>(m.y & 0xffffu) + (static_cast<int>(m.y) >> 16);
          block_sums[n][i] = __uint_as_float(m.x) * static_cast<float>(sum);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float a[4], dmin[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const KScales ks(plane(step + (half * 16 + r * 8 + g) * 16, 0));
          scales[half][r][0] = ks.scale[0], scales[half][r][1] = ks.scale[1];
          d[half][r] = ks.d, dmin[r] = ks.dmin;
          a[r] = byte_of(ks.min[0], t), a[2 + r] = byte_of(ks.min[1], t);
        }
#pragma unroll
        for (int n = 0; n < Tiles; ++n) {
          float mins[4] = {};
          mma_tf32(mins, a, block_sums[n][0], block_sums[n][1]);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            acc[n][half][i] = fmaf(-dmin[i >> 1], mins[i], acc[n][half][i]);
          }
        }
      }
    }
    // Matrices: rows 0..7 and 8..15 of a half in unit 1 + 2 j, the same in unit 2 + 2 j.
    const uint32_t weights =
        shared_address(step) + 512 + (lane >> 4) * 512 + ((lane >> 3) & 1) * 128 + (lane & 7) * 16;
    float sum[Tiles][2][4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t b[Tiles][4];
      float xd[Tiles][2][2];
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
        x.fragments(b[n], n, j * 64, 16, lane);
        x.scales(xd[n], n, 2 * j);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t w[4], low[4], high[4];
        load_matrices(w, weights + j * 1024 + half * 256);
#pragma unroll
        for (int i = 0; i < 4; ++i) low[i] = w[i] & 0x0f0f0f0fu, high[i] = w[i] & 0xf0f0f0f0u;
        float even[2], odd[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const uint32_t word = scales[half][r][j >> 1];
          even[r] = byte_of(word, (2 * j) & 3);
          // High nibbles are multiplied in place, 16 times too large.
          odd[r] = byte_of(word, (2 * j + 1) & 3) * 0.0625f;
        }
#pragma unroll
        for (int n = 0; n < Tiles; ++n) {
          int c[4];
          mma_u8(c, low, b[n][0], b[n][1]);
          add_scaled(sum[n][half], c, even, xd[n][0]);
          mma_u8(c, high, b[n][2], b[n][3]);
          add_scaled(sum[n][half], c, odd, xd[n][1]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        acc[n][i >> 2][i & 3] =
            fmaf(d[i >> 2][(i >> 1) & 1], sum[n][i >> 2][i & 3], acc[n][i >> 2][i & 3]);
      }
    }
  }
};

template <>
struct StepMma<MINFER_TYPE_Q6_K> {
  /// Quants of quarter q of 128: four bits of `low`, two of `high`.
  static __device__ __forceinline__ uint32_t quants(uint32_t low, uint32_t high, int q) {
    const uint32_t l = q & 2 ? low >> 4 : low;
    const uint32_t u = q < 2 ? high << (4 - 2 * q) : high >> (2 * q - 4);
    return (l & 0x0f0f0f0fu) | (u & 0x30303030u);
  }
  template <int Tiles>
  static __device__ __forceinline__ void run(const uint8_t* step, int lane,
                                             const BatchActs<256, Tiles>& x, MmaSums<Tiles>& acc) {
    const int g = lane >> 2, t = lane & 3;
    uint32_t scales[2][2][4];  // [half][row][word]: 16 signed bytes
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 s = plane(step + (i * 8 + g) * 16, 12);
      uint32_t(&to)[4] = scales[i >> 1][i & 1];
      to[0] = s.x, to[1] = s.y, to[2] = s.z, to[3] = s.w;
    }
    // The offset of 32: sub-blocks of 16, eight to a product.
    float sum[Tiles][2][4] = {};
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      float offsets[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // sub-block t + 4 i of token g
        const uint2 m = x.sums(n, 2 * i + (t >> 1));
        const int of16 = t & 1 ? static_cast<int>(m.y) >> 16 : static_cast<int16_t>(m.y & 0xffffu);
        offsets[i] = -32.f * __uint_as_float(m.x) * static_cast<float>(of16);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          const float a[4] = {
              signed_byte_of(scales[half][0][i], t), signed_byte_of(scales[half][1][i], t),
              signed_byte_of(scales[half][0][i + 1], t), signed_byte_of(scales[half][1][i + 1], t)};
          mma_tf32(sum[n][half], a, offsets[i], offsets[i + 1]);
        }
      }
    }
    // Matrices: rows 0..7 and 8..15 of a half in units 4 h + i and 4 h + 2 + i.
    const uint32_t base = shared_address(step);
    const uint32_t lows = base + (lane >> 4) * 1024 + ((lane >> 3) & 1) * 128 + (lane & 7) * 16;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float xd[Tiles][4][2];
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
#pragma unroll
        for (int q = 0; q < 4; q += 2) {
          float pair[2][2];
          x.scales(pair, n, 4 * h + q);
#pragma unroll
          for (int e = 0; e < 4; ++e) xd[n][q + (e >> 1)][e & 1] = pair[e >> 1][e & 1];
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t b[Tiles][4], high[4];
#pragma unroll
        for (int n = 0; n < Tiles; ++n) x.fragments(b[n], n, h * 128 + i * 16, 32, lane);
        load_matrices(high, base + (8 + 2 * h + i) * 512 + lane * 16);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t low[4];
          load_matrices(low, lows + (4 * h + i) * 512 + half * 256);
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            const uint32_t a0 = quants(low[(q & 1) * 2], high[half * 2], q);
            const uint32_t a1 = quants(low[(q & 1) * 2 + 1], high[half * 2 + 1], q);
            const int s = (4 * h + q) * 2 + i;
            const float scale[2] = {signed_byte_of(scales[half][0][s >> 2], s & 3),
                                    signed_byte_of(scales[half][1][s >> 2], s & 3)};
#pragma unroll
            for (int n = 0; n < Tiles; ++n) {
              int c[4];
              mma_u8_k16(c, a0, a1, b[n][q]);
              add_scaled(sum[n][half], c, scale, xd[n][q]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = (i >> 2) * 16 + ((i >> 1) & 1) * 8 + g;
      const float d = half_at(step + 13 * 512 + row * 2);
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
        acc[n][i >> 2][i & 3] = fmaf(d, sum[n][i >> 2][i & 3], acc[n][i >> 2][i & 3]);
      }
    }
  }
};

template <>
struct StepMma<MINFER_TYPE_Q8_0> {
  template <int Tiles>
  static __device__ __forceinline__ void run(const uint8_t* step, int lane,
                                             const BatchActs<128, Tiles>& x, MmaSums<Tiles>& acc) {
    const int g = lane >> 2;
    const uint32_t weights =
        shared_address(step) + (lane >> 4) * 512 + ((lane >> 3) & 1) * 128 + (lane & 7) * 16;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      uint32_t b[Tiles][4];
      float xd[Tiles][2][2];
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
        x.fragments(b[n], n, j * 64, 16, lane);
        x.scales(xd[n], n, 2 * j);
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int tile = (2 * j + k) * 1088;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t w[4];
          load_matrices(w, weights + tile + half * 256);
          const uint8_t* rows = step + tile + 1024 + (half * 16 + g) * 2;
          const float d[2] = {half_at(rows), half_at(rows + 16)};
#pragma unroll
          for (int n = 0; n < Tiles; ++n) {
            int c[4];
            mma_s8(c, w, b[n][2 * k], b[n][2 * k + 1]);
            add_scaled(acc[n][half], c, d, xd[n][k]);
          }
        }
      }
    }
  }
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
