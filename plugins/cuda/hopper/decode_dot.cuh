// One lane's share of a decode step: a row's quants times the int8 activations of T tokens, for
// which they are unpacked once.
//
// A step is 256 elements along k of a K-quant, 128 of a type with 32-element blocks. Quants are
// used as unsigned bytes as far as the type allows; offsets come in through the activations' sums.
// Integer results start at kMagic, whose bits are those of the float 1.5 * 2^23: the sum's bits are
// then a float too, and one subtraction replaces a conversion.
#pragma once

#include "minfer/plugin_abi.h"
#include "ptx.cuh"

namespace minfer_cuda::hopper {

inline constexpr int kMagic = 0x4B400000;
inline constexpr float kMagicFloat = 12582912.f;

/// Of 32 activations: scale d, d * (sum of quants), and kMagic - 32 * the sums of quants 0..15 and
/// 16..31 (as bits).
using BlockMeta = float4;

/// Elements along k of a step.
constexpr int step_k(uint32_t type) {
  return type == MINFER_TYPE_Q4_K || type == MINFER_TYPE_Q5_K || type == MINFER_TYPE_Q6_K ? 256
                                                                                          : 128;
}

/// Bytes of a step of 32 rows; 0: the type has no decode kernel.
constexpr int step_bytes(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_Q4_K:
      return 32 * 144;
    case MINFER_TYPE_Q5_K:
      return 32 * 176;
    case MINFER_TYPE_Q6_K:
      return 32 * 210;
    case MINFER_TYPE_Q8_0:
      return 4 * 32 * 34;
    case MINFER_TYPE_Q4_0:
      return 4 * 32 * 18;
    case MINFER_TYPE_Q5_0:
      return 4 * 32 * 22;
    default:
      return 0;
  }
}

template <uint32_t Type>
inline constexpr uint32_t kStepK = step_k(Type);
template <uint32_t Type>
inline constexpr uint32_t kStepBytes = step_bytes(Type);

#ifdef MINFER_SM90A

__device__ __forceinline__ int dot_u8(uint32_t a, int b, int c) {
  int d;
  asm("dp4a.u32.s32 %0,%1,%2,%3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ float from_magic(int i) {
  return __int_as_float(i) - kMagicFloat;
}
__device__ __forceinline__ float byte_of(uint32_t w, int b) {
  return static_cast<float>((w >> (8 * b)) & 0xffu);
}
__device__ __forceinline__ float signed_byte_of(uint32_t w, int b) {
  return static_cast<float>(static_cast<int8_t>((w >> (8 * b)) & 0xffu));
}
__device__ __forceinline__ float half_at(const uint8_t* p) {
  return __half2float(*reinterpret_cast<const __half*>(p));
}
__device__ __forceinline__ uint4 plane(const uint8_t* lane_base, int p) {
  return *reinterpret_cast<const uint4*>(lane_base + p * 512);
}

/// The 6-bit scales and minima of Q4_K and Q5_K as bytes, four to a word.
struct KScales {
  uint32_t scale[2], min[2];
  float d, dmin;
  __device__ __forceinline__ explicit KScales(uint4 head) {
    const float2 dm = __half22float2(half2_of(head.x));
    d = dm.x;
    dmin = dm.y;
    scale[0] = head.y & 0x3f3f3f3fu;
    min[0] = head.z & 0x3f3f3f3fu;
    scale[1] = (head.w & 0x0f0f0f0fu) | ((head.y >> 2) & 0x30303030u);
    min[1] = ((head.w >> 4) & 0x0f0f0f0fu) | ((head.z >> 2) & 0x30303030u);
  }
};

/// A step's activations of several tokens: quants and meta of token t lie t strides further.
struct StepActs {
  const int4* x;
  const BlockMeta* meta;
  uint32_t x_stride, meta_stride;

  __device__ __forceinline__ const int4* quants(int t) const { return x + t * x_stride; }
  __device__ __forceinline__ const BlockMeta* block(int t, int i) const {
    return meta + t * meta_stride + i;
  }
  /// Scale, and scale times sum, of block i.
  __device__ __forceinline__ float2 scale(int t, int i) const {
    return *reinterpret_cast<const float2*>(block(t, i));
  }
};

/// add(step, lane, acts, acc): acc[t] += the row's product with token t.
template <uint32_t Type>
struct StepDot;

template <>
struct StepDot<MINFER_TYPE_Q4_K> {
  template <int T>
  static __device__ __forceinline__ void add(const uint8_t* step, int lane, const StepActs& acts,
                                             float (&acc)[T]) {
    const uint8_t* base = step + lane * 16;
    const KScales ks(plane(base, 0));
    float low[T] = {}, high[T] = {}, mins[T] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint4 p = plane(base, 1 + 2 * j), q = plane(base, 2 + 2 * j);
      const uint32_t w[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
      const int b = (2 * j) & 3;
      const float low_scale = byte_of(ks.scale[j >> 1], b);
      const float high_scale = byte_of(ks.scale[j >> 1], b + 1);
      const float low_min = byte_of(ks.min[j >> 1], b), high_min = byte_of(ks.min[j >> 1], b + 1);
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const int4* x = acts.quants(t) + 4 * j;
        const int4 a0 = x[0], a1 = x[1], b0 = x[2], b1 = x[3];
        const int a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
        const int c[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
        const float2 ma = acts.scale(t, 2 * j), mb = acts.scale(t, 2 * j + 1);
        int l = kMagic, h = kMagic;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          l = dot_u8(w[i] & 0x0f0f0f0fu, a[i], l), h = dot_u8(w[i] & 0xf0f0f0f0u, c[i], h);
        }
        low[t] = fmaf(low_scale, from_magic(l) * ma.x, low[t]);
        high[t] = fmaf(high_scale, from_magic(h) * mb.x, high[t]);
        mins[t] = fmaf(low_min, ma.y, mins[t]);
        mins[t] = fmaf(high_min, mb.y, mins[t]);
      }
    }
    // High nibbles were multiplied in place, 16 times too large.
#pragma unroll
    for (int t = 0; t < T; ++t) acc[t] += ks.d * fmaf(high[t], 0.0625f, low[t]) - ks.dmin * mins[t];
  }
};

template <>
struct StepDot<MINFER_TYPE_Q5_K> {
  /// Bit `bit` of each byte of h, at bit 4.
  static __device__ __forceinline__ uint32_t fifth(uint32_t h, int bit) {
    return (bit <= 4 ? h << (4 - bit) : h >> (bit - 4)) & 0x10101010u;
  }
  template <int T>
  static __device__ __forceinline__ void add(const uint8_t* step, int lane, const StepActs& acts,
                                             float (&acc)[T]) {
    const uint8_t* base = step + lane * 16;
    const KScales ks(plane(base, 0));
    const uint4 h0 = plane(base, 1), h1 = plane(base, 2);
    const uint32_t hb[8] = {h0.x, h0.y, h0.z, h0.w, h1.x, h1.y, h1.z, h1.w};
    float sum[T] = {}, mins[T] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint4 p = plane(base, 3 + 2 * j), q = plane(base, 4 + 2 * j);
      const uint32_t w[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
      const int b = (2 * j) & 3;
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const int* a = reinterpret_cast<const int*>(acts.quants(t) + 4 * j);
        int l = kMagic, h = kMagic;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          l = dot_u8((w[i] & 0x0f0f0f0fu) | fifth(hb[i], 2 * j), a[i], l);
          h = dot_u8(((w[i] >> 4) & 0x0f0f0f0fu) | fifth(hb[i], 2 * j + 1), a[8 + i], h);
        }
        const float2 ma = acts.scale(t, 2 * j), mb = acts.scale(t, 2 * j + 1);
        sum[t] = fmaf(byte_of(ks.scale[j >> 1], b), from_magic(l) * ma.x, sum[t]);
        sum[t] = fmaf(byte_of(ks.scale[j >> 1], b + 1), from_magic(h) * mb.x, sum[t]);
        mins[t] = fmaf(byte_of(ks.min[j >> 1], b), ma.y, mins[t]);
        mins[t] = fmaf(byte_of(ks.min[j >> 1], b + 1), mb.y, mins[t]);
      }
    }
#pragma unroll
    for (int t = 0; t < T; ++t) acc[t] += ks.d * sum[t] - ks.dmin * mins[t];
  }
};

template <>
struct StepDot<MINFER_TYPE_Q6_K> {
  template <int T>
  static __device__ __forceinline__ void add(const uint8_t* step, int lane, const StepActs& acts,
                                             float (&acc)[T]) {
    const uint8_t* base = step + lane * 16;
    const uint4 sc = plane(base, 12);
    const uint32_t scale[4] = {sc.x, sc.y, sc.z, sc.w};
    float sum[T] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 a = plane(base, 4 * half + i), b = plane(base, 4 * half + 2 + i);
        const uint4 h = plane(base, 8 + 2 * half + i);
        const int o = 2 * half;
        const float s[4] = {signed_byte_of(scale[o], i), signed_byte_of(scale[o], 2 + i),
                            signed_byte_of(scale[o + 1], i), signed_byte_of(scale[o + 1], 2 + i)};
#pragma unroll
        for (int t = 0; t < T; ++t) {
          const int4* at = acts.quants(t) + 8 * half + i;
          const int4 x0 = at[0], x1 = at[2], x2 = at[4], x3 = at[6];
          BlockMeta m[4];
          int c[4];
          // Starting at kMagic - 32 * sum takes the quants' offset out.
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            m[k] = *acts.block(t, 4 * half + k);
            c[k] = __float_as_int(i ? m[k].w : m[k].z);
          }
          add_word(a.x, b.x, h.x, x0.x, x1.x, x2.x, x3.x, c);
          add_word(a.y, b.y, h.y, x0.y, x1.y, x2.y, x3.y, c);
          add_word(a.z, b.z, h.z, x0.z, x1.z, x2.z, x3.z, c);
          add_word(a.w, b.w, h.w, x0.w, x1.w, x2.w, x3.w, c);
#pragma unroll
          for (int k = 0; k < 4; ++k) sum[t] = fmaf(s[k], from_magic(c[k]) * m[k].x, sum[t]);
        }
      }
    }
    const float d = half_at(step + 13 * 512 + lane * 2);
#pragma unroll
    for (int t = 0; t < T; ++t) acc[t] += d * sum[t];
  }
  static __device__ __forceinline__ void add_word(uint32_t a, uint32_t b, uint32_t h, int x0,
                                                  int x1, int x2, int x3, int (&c)[4]) {
    constexpr uint32_t kLow = 0x0f0f0f0fu, kHigh = 0x30303030u;
    c[0] = dot_u8((a & kLow) | ((h << 4) & kHigh), x0, c[0]);
    c[1] = dot_u8((b & kLow) | ((h << 2) & kHigh), x1, c[1]);
    c[2] = dot_u8(((a >> 4) & kLow) | (h & kHigh), x2, c[2]);
    c[3] = dot_u8(((b >> 4) & kLow) | ((h >> 2) & kHigh), x3, c[3]);
  }
};

/// Types of 32-element blocks: four tiles a step.
template <class Self, int TileBytes>
struct BlockStepDot {
  template <int T>
  static __device__ __forceinline__ void add(const uint8_t* step, int lane, const StepActs& acts,
                                             float (&acc)[T]) {
    float sum[T] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const int4* x = acts.quants(t) + 2 * i;
        sum[t] += Self::block(step + i * TileBytes, lane, x[0], x[1], *acts.block(t, i));
      }
    }
#pragma unroll
    for (int t = 0; t < T; ++t) acc[t] += sum[t];
  }
};

template <>
struct StepDot<MINFER_TYPE_Q8_0> : BlockStepDot<StepDot<MINFER_TYPE_Q8_0>, 1088> {
  static __device__ __forceinline__ float block(const uint8_t* tile, int lane, int4 a, int4 b,
                                                BlockMeta m) {
    const uint4 p = plane(tile + lane * 16, 0), q = plane(tile + lane * 16, 1);
    int c = 0, e = 0;
    c = __dp4a(static_cast<int>(p.x), a.x, c), e = __dp4a(static_cast<int>(q.x), b.x, e);
    c = __dp4a(static_cast<int>(p.y), a.y, c), e = __dp4a(static_cast<int>(q.y), b.y, e);
    c = __dp4a(static_cast<int>(p.z), a.z, c), e = __dp4a(static_cast<int>(q.z), b.z, e);
    c = __dp4a(static_cast<int>(p.w), a.w, c), e = __dp4a(static_cast<int>(q.w), b.w, e);
    return half_at(tile + 1024 + lane * 2) * (static_cast<float>(c + e) * m.x);
  }
};

template <>
struct StepDot<MINFER_TYPE_Q4_0> : BlockStepDot<StepDot<MINFER_TYPE_Q4_0>, 576> {
  static __device__ __forceinline__ float block(const uint8_t* tile, int lane, int4 a, int4 b,
                                                BlockMeta m) {
    const uint4 p = plane(tile + lane * 16, 0);
    constexpr uint32_t kLow = 0x0f0f0f0fu, kHigh = 0xf0f0f0f0u;
    int l = kMagic, h = kMagic;
    l = dot_u8(p.x & kLow, a.x, l), h = dot_u8(p.x & kHigh, b.x, h);
    l = dot_u8(p.y & kLow, a.y, l), h = dot_u8(p.y & kHigh, b.y, h);
    l = dot_u8(p.z & kLow, a.z, l), h = dot_u8(p.z & kHigh, b.z, h);
    l = dot_u8(p.w & kLow, a.w, l), h = dot_u8(p.w & kHigh, b.w, h);
    const float q = fmaf(from_magic(h), 0.0625f, from_magic(l));
    return half_at(tile + 512 + lane * 2) * fmaf(q, m.x, -8.f * m.y);
  }
};

template <>
struct StepDot<MINFER_TYPE_Q5_0> : BlockStepDot<StepDot<MINFER_TYPE_Q5_0>, 704> {
  /// Bits 0..3 of h at bit 4 of bytes 0..3; the product's partial terms never meet there.
  static __device__ __forceinline__ uint32_t fifth(uint32_t h) {
    return (((h & 0xfu) * 0x00204081u) & 0x01010101u) << 4;
  }
  static __device__ __forceinline__ float block(const uint8_t* tile, int lane, int4 a, int4 b,
                                                BlockMeta m) {
    const uint4 p = plane(tile + lane * 16, 0);
    const uint32_t bits = *reinterpret_cast<const uint32_t*>(tile + 512 + lane * 4);
    const uint32_t w[4] = {p.x, p.y, p.z, p.w};
    const int x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    int c = kMagic;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      c = dot_u8((w[i] & 0x0f0f0f0fu) | fifth(bits >> (4 * i)), x[i], c);
      c = dot_u8(((w[i] >> 4) & 0x0f0f0f0fu) | fifth(bits >> (16 + 4 * i)), x[4 + i], c);
    }
    return half_at(tile + 640 + lane * 2) * fmaf(from_magic(c), m.x, -16.f * m.y);
  }
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
