// One lane's share of a decode step: a row's quants times the int8 activations.
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

template <uint32_t Type>
struct StepDot;

template <>
struct StepDot<MINFER_TYPE_Q4_K> {
  static __device__ __forceinline__ float dot(const uint8_t* step, int lane, const int4* x,
                                              const BlockMeta* meta) {
    const uint8_t* base = step + lane * 16;
    const KScales ks(plane(base, 0));
    float low = 0.f, high = 0.f, mins = 0.f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint4 p = plane(base, 1 + 2 * j), q = plane(base, 2 + 2 * j);
      const int4 a0 = x[4 * j], a1 = x[4 * j + 1], b0 = x[4 * j + 2], b1 = x[4 * j + 3];
      const float2 ma = *reinterpret_cast<const float2*>(&meta[2 * j]);
      const float2 mb = *reinterpret_cast<const float2*>(&meta[2 * j + 1]);
      constexpr uint32_t kLow = 0x0f0f0f0fu, kHigh = 0xf0f0f0f0u;
      int l = kMagic, h = kMagic;
      l = dot_u8(p.x & kLow, a0.x, l), h = dot_u8(p.x & kHigh, b0.x, h);
      l = dot_u8(p.y & kLow, a0.y, l), h = dot_u8(p.y & kHigh, b0.y, h);
      l = dot_u8(p.z & kLow, a0.z, l), h = dot_u8(p.z & kHigh, b0.z, h);
      l = dot_u8(p.w & kLow, a0.w, l), h = dot_u8(p.w & kHigh, b0.w, h);
      l = dot_u8(q.x & kLow, a1.x, l), h = dot_u8(q.x & kHigh, b1.x, h);
      l = dot_u8(q.y & kLow, a1.y, l), h = dot_u8(q.y & kHigh, b1.y, h);
      l = dot_u8(q.z & kLow, a1.z, l), h = dot_u8(q.z & kHigh, b1.z, h);
      l = dot_u8(q.w & kLow, a1.w, l), h = dot_u8(q.w & kHigh, b1.w, h);
      const int b = (2 * j) & 3;
      low = fmaf(byte_of(ks.scale[j >> 1], b), from_magic(l) * ma.x, low);
      high = fmaf(byte_of(ks.scale[j >> 1], b + 1), from_magic(h) * mb.x, high);
      mins = fmaf(byte_of(ks.min[j >> 1], b), ma.y, mins);
      mins = fmaf(byte_of(ks.min[j >> 1], b + 1), mb.y, mins);
    }
    // High nibbles were multiplied in place, 16 times too large.
    return ks.d * fmaf(high, 0.0625f, low) - ks.dmin * mins;
  }
};

template <>
struct StepDot<MINFER_TYPE_Q5_K> {
  /// Bit `bit` of each byte of h, at bit 4.
  static __device__ __forceinline__ uint32_t fifth(uint32_t h, int bit) {
    return (bit <= 4 ? h << (4 - bit) : h >> (bit - 4)) & 0x10101010u;
  }
  static __device__ __forceinline__ float dot(const uint8_t* step, int lane, const int4* x,
                                              const BlockMeta* meta) {
    const uint8_t* base = step + lane * 16;
    const KScales ks(plane(base, 0));
    const uint4 h0 = plane(base, 1), h1 = plane(base, 2);
    const uint32_t hb[8] = {h0.x, h0.y, h0.z, h0.w, h1.x, h1.y, h1.z, h1.w};
    float sum = 0.f, mins = 0.f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint4 p = plane(base, 3 + 2 * j), q = plane(base, 4 + 2 * j);
      const uint32_t w[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
      const int* a = reinterpret_cast<const int*>(x + 4 * j);
      int l = kMagic, h = kMagic;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        l = dot_u8((w[i] & 0x0f0f0f0fu) | fifth(hb[i], 2 * j), a[i], l);
        h = dot_u8(((w[i] >> 4) & 0x0f0f0f0fu) | fifth(hb[i], 2 * j + 1), a[8 + i], h);
      }
      const float2 ma = *reinterpret_cast<const float2*>(&meta[2 * j]);
      const float2 mb = *reinterpret_cast<const float2*>(&meta[2 * j + 1]);
      const int b = (2 * j) & 3;
      sum = fmaf(byte_of(ks.scale[j >> 1], b), from_magic(l) * ma.x, sum);
      sum = fmaf(byte_of(ks.scale[j >> 1], b + 1), from_magic(h) * mb.x, sum);
      mins = fmaf(byte_of(ks.min[j >> 1], b), ma.y, mins);
      mins = fmaf(byte_of(ks.min[j >> 1], b + 1), mb.y, mins);
    }
    return ks.d * sum - ks.dmin * mins;
  }
};

template <>
struct StepDot<MINFER_TYPE_Q6_K> {
  static __device__ __forceinline__ float dot(const uint8_t* step, int lane, const int4* x,
                                              const BlockMeta* meta) {
    const uint8_t* base = step + lane * 16;
    const uint4 sc = plane(base, 12);
    const uint32_t scale[4] = {sc.x, sc.y, sc.z, sc.w};
    float sum = 0.f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      BlockMeta m[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) m[i] = meta[4 * half + i];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 a = plane(base, 4 * half + i), b = plane(base, 4 * half + 2 + i);
        const uint4 h = plane(base, 8 + 2 * half + i);
        const int4* at = x + 8 * half + i;
        const int4 x0 = at[0], x1 = at[2], x2 = at[4], x3 = at[6];
        // Starting at kMagic - 32 * sum takes the quants' offset out.
        int c0 = __float_as_int(i ? m[0].w : m[0].z), c1 = __float_as_int(i ? m[1].w : m[1].z);
        int c2 = __float_as_int(i ? m[2].w : m[2].z), c3 = __float_as_int(i ? m[3].w : m[3].z);
        add_word(a.x, b.x, h.x, x0.x, x1.x, x2.x, x3.x, c0, c1, c2, c3);
        add_word(a.y, b.y, h.y, x0.y, x1.y, x2.y, x3.y, c0, c1, c2, c3);
        add_word(a.z, b.z, h.z, x0.z, x1.z, x2.z, x3.z, c0, c1, c2, c3);
        add_word(a.w, b.w, h.w, x0.w, x1.w, x2.w, x3.w, c0, c1, c2, c3);
        const int o = 2 * half;
        sum = fmaf(signed_byte_of(scale[o], i), from_magic(c0) * m[0].x, sum);
        sum = fmaf(signed_byte_of(scale[o], 2 + i), from_magic(c1) * m[1].x, sum);
        sum = fmaf(signed_byte_of(scale[o + 1], i), from_magic(c2) * m[2].x, sum);
        sum = fmaf(signed_byte_of(scale[o + 1], 2 + i), from_magic(c3) * m[3].x, sum);
      }
    }
    return half_at(step + 13 * 512 + lane * 2) * sum;
  }
  static __device__ __forceinline__ void add_word(uint32_t a, uint32_t b, uint32_t h, int x0,
                                                  int x1, int x2, int x3, int& c0, int& c1, int& c2,
                                                  int& c3) {
    constexpr uint32_t kLow = 0x0f0f0f0fu, kHigh = 0x30303030u;
    c0 = dot_u8((a & kLow) | ((h << 4) & kHigh), x0, c0);
    c1 = dot_u8((b & kLow) | ((h << 2) & kHigh), x1, c1);
    c2 = dot_u8(((a >> 4) & kLow) | (h & kHigh), x2, c2);
    c3 = dot_u8(((b >> 4) & kLow) | ((h >> 2) & kHigh), x3, c3);
  }
};

/// Types of 32-element blocks: four tiles a step.
template <class Self, int TileBytes>
struct BlockStepDot {
  static __device__ __forceinline__ float dot(const uint8_t* step, int lane, const int4* x,
                                              const BlockMeta* meta) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum += Self::block(step + i * TileBytes, lane, x[2 * i], x[2 * i + 1], meta[i]);
    }
    return sum;
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
