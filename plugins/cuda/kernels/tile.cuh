// Readers of tile32 (layout.h): one specialisation of Tile per type.
//
// Every quantised type is presented in one form, 32 elements (a sub-block) at a time: eight words
// of four int8 quants, and scales so that element i is s * q + m, where (s, m) may differ between
// elements 0..15 and 16..31. Integer kernels use words and scales; dequantize32 turns them into
// floats, exactly as the file's type defines it up to one f32 rounding. Pointers may be global or
// shared memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "layout.h"
#include "minfer/plugin_abi.h"

namespace minfer_cuda {

/// Element i of a sub-block is s0 * q + m0 for i < 16, s1 * q + m1 above.
struct Scales {
  float s0, s1, m0, m1;
};

template <class T>
__device__ __forceinline__ T load_as(const uint8_t* p) {
  return *reinterpret_cast<const T*>(p);
}

__device__ __forceinline__ float half_bits(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/// Four bytes of value 0..15 or wider, each minus `offset`, as int8.
__device__ __forceinline__ int subtract_bytes(uint32_t q, uint32_t offset) {
  return static_cast<int>(__vsub4(q, offset * 0x01010101u));
}

/// Bits 0..3 of `bits` become bit `to` of bytes 0..3.
__device__ __forceinline__ uint32_t spread_bits(uint32_t bits, int to) {
  // The multiplication puts bit i at bit 8 i; its partial products never overlap there.
  return (((bits & 0xfu) * 0x00204081u) & 0x01010101u) << to;
}

/// Bytes 0..3 of `nibbles` (each 0..15) looked up in a table of 16 int8 values in two words of 64
/// bits.
__device__ __forceinline__ int lookup_bytes(uint32_t nibbles, uint64_t low, uint64_t high) {
  uint32_t out = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t n = (nibbles >> (8 * i)) & 0xf;
    const uint32_t value = static_cast<uint32_t>((n < 8 ? low : high) >> (8 * (n & 7))) & 0xff;
    out |= value << (8 * i);
  }
  return static_cast<int>(out);
}

inline constexpr uint32_t kNibbles = 0x0f0f0f0fu;
inline constexpr uint32_t kPairs = 0x03030303u;

/// Values -127, -104, -83, -65, -49, -35, -22, -10 | 1, 13, 25, 38, 53, 69, 89, 113 (IQ4).
inline constexpr uint64_t kIq4Low = 0xf6eaddcfbfad9881ull;
inline constexpr uint64_t kIq4High = 0x7159453526190d01ull;
/// Twice the e2m1 values: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives (MXFP4).
inline constexpr uint64_t kFp4Low = 0x0c08060403020100ull;
inline constexpr uint64_t kFp4High = 0xf4f8fafcfdfeff00ull;

template <uint32_t Type>
struct Tile;

/// What the specialisations share. K: elements of a block, Bytes: its bytes.
template <int K, int Bytes, bool TwoScales, bool HasMin>
struct TileBase {
  static constexpr int kBlockK = K;
  static constexpr int kBlockBytes = Bytes;
  static constexpr int kTileBytes = kTileRows * Bytes;
  static constexpr int kSubs = K / 32;           ///< sub-blocks of a tile
  static constexpr bool kTwoScales = TwoScales;  ///< s0 != s1 is possible
  static constexpr bool kHasMin = HasMin;        ///< m0, m1 may be non-zero
  static constexpr bool kInt8 = true;

  static __device__ __forceinline__ uint4 unit(const uint8_t* tile, int row, int i) {
    return load_as<uint4>(tile + i * 512 + row * 16);
  }
  static __device__ __forceinline__ uint32_t unit_word(const uint8_t* tile, int row, int i, int w) {
    return load_as<uint32_t>(tile + i * 512 + row * 16 + w * 4);
  }
};

/// Types whose 32 nibbles are one 16-byte segment: elements 0..15 low, 16..31 high.
template <class Self, int Bytes, bool HasMin>
struct NibbleTile : TileBase<32, Bytes, false, HasMin> {
  using Base = TileBase<32, Bytes, false, HasMin>;
  static __device__ __forceinline__ void words(const uint8_t* tile, int row, int, int (&w)[8]) {
    const uint4 q = Base::unit(tile, row, 0);
    const uint32_t raw[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[i] = Self::quant(tile, row, raw[i] & kNibbles, i);
      w[i + 4] = Self::quant(tile, row, (raw[i] >> 4) & kNibbles, i + 4);
    }
  }
  static __device__ __forceinline__ int word(const uint8_t* tile, int row, int, int i) {
    const uint32_t raw = Base::unit_word(tile, row, 0, i & 3);
    return Self::quant(tile, row, (raw >> (i & 4)) & kNibbles, i);
  }
};

template <>
struct Tile<MINFER_TYPE_Q4_0> : NibbleTile<Tile<MINFER_TYPE_Q4_0>, 18, false> {
  static __device__ __forceinline__ int quant(const uint8_t*, int, uint32_t q, int) {
    return subtract_bytes(q, 8);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int) {
    const float d = half_bits(load_as<uint16_t>(tile + 512 + row * 2));
    return {d, d, 0.f, 0.f};
  }
};

template <>
struct Tile<MINFER_TYPE_Q4_1> : NibbleTile<Tile<MINFER_TYPE_Q4_1>, 20, true> {
  static __device__ __forceinline__ int quant(const uint8_t*, int, uint32_t q, int) {
    return static_cast<int>(q);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int) {
    const uint32_t dm = load_as<uint32_t>(tile + 512 + row * 4);
    const float d = half_bits(dm & 0xffff), m = half_bits(dm >> 16);
    return {d, d, m, m};
  }
};

template <>
struct Tile<MINFER_TYPE_Q5_0> : NibbleTile<Tile<MINFER_TYPE_Q5_0>, 22, false> {
  static __device__ __forceinline__ int quant(const uint8_t* tile, int row, uint32_t q, int i) {
    const uint32_t high = load_as<uint32_t>(tile + 512 + row * 4);
    return subtract_bytes(q | spread_bits(high >> (4 * i), 4), 16);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int) {
    const float d = half_bits(load_as<uint16_t>(tile + 640 + row * 2));
    return {d, d, 0.f, 0.f};
  }
};

template <>
struct Tile<MINFER_TYPE_Q5_1> : NibbleTile<Tile<MINFER_TYPE_Q5_1>, 24, true> {
  static __device__ __forceinline__ int quant(const uint8_t* tile, int row, uint32_t q, int i) {
    const uint32_t high = load_as<uint32_t>(tile + 640 + row * 4);
    return static_cast<int>(q | spread_bits(high >> (4 * i), 4));
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int) {
    const uint32_t dm = load_as<uint32_t>(tile + 512 + row * 4);
    const float d = half_bits(dm & 0xffff), m = half_bits(dm >> 16);
    return {d, d, m, m};
  }
};

template <>
struct Tile<MINFER_TYPE_IQ4_NL> : NibbleTile<Tile<MINFER_TYPE_IQ4_NL>, 18, false> {
  static __device__ __forceinline__ int quant(const uint8_t*, int, uint32_t q, int) {
    return lookup_bytes(q, kIq4Low, kIq4High);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int) {
    const float d = half_bits(load_as<uint16_t>(tile + 512 + row * 2));
    return {d, d, 0.f, 0.f};
  }
};

template <>
struct Tile<MINFER_TYPE_MXFP4> : NibbleTile<Tile<MINFER_TYPE_MXFP4>, 17, false> {
  static __device__ __forceinline__ int quant(const uint8_t*, int, uint32_t q, int) {
    return lookup_bytes(q, kFp4Low, kFp4High);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int) {
    // 2^(e - 127) halved, because the table holds doubled values; below 2^-126 it is subnormal.
    const uint32_t e = tile[512 + row];
    const float d = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    return {d, d, 0.f, 0.f};
  }
};

template <>
struct Tile<MINFER_TYPE_Q8_0> : TileBase<32, 34, false, false> {
  static __device__ __forceinline__ void words(const uint8_t* tile, int row, int, int (&w)[8]) {
    const int4 a = load_as<int4>(tile + row * 16), b = load_as<int4>(tile + 512 + row * 16);
    w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w;
    w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
  }
  static __device__ __forceinline__ int word(const uint8_t* tile, int row, int, int i) {
    return static_cast<int>(unit_word(tile, row, i >> 2, i & 3));
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int) {
    const float d = half_bits(load_as<uint16_t>(tile + 1024 + row * 2));
    return {d, d, 0.f, 0.f};
  }
};

/// The 6-bit scale (x) and minimum (y) of sub-block b from a Q4_K or Q5_K header.
__device__ __forceinline__ uint2 k4_scale_min(const uint4& header, int b) {
  const int shift = 8 * (b & 3);
  const uint32_t a = header.y >> shift, c = header.z >> shift, e = header.w >> shift;
  if (b < 4) return make_uint2(a & 63u, c & 63u);
  return make_uint2((e & 15u) | ((a >> 2) & 48u), ((e >> 4) & 15u) | ((c >> 2) & 48u));
}

__device__ __forceinline__ Scales k4_scales(const uint4& header, int b) {
  const uint2 sm = k4_scale_min(header, b);
  const float s = half_bits(header.x & 0xffff) * static_cast<float>(sm.x);
  const float m = -half_bits(header.x >> 16) * static_cast<float>(sm.y);
  return {s, s, m, m};
}

template <>
struct Tile<MINFER_TYPE_Q4_K> : TileBase<256, 144, false, true> {
  static __device__ __forceinline__ void words(const uint8_t* tile, int row, int b, int (&w)[8]) {
    const uint4 p = unit(tile, row, 1 + (b & 6)), q = unit(tile, row, 2 + (b & 6));
    const uint32_t raw[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = static_cast<int>((raw[i] >> (4 * (b & 1))) & kNibbles);
  }
  static __device__ __forceinline__ int word(const uint8_t* tile, int row, int b, int i) {
    const uint32_t raw = unit_word(tile, row, 1 + (b & 6) + (i >> 2), i & 3);
    return static_cast<int>((raw >> (4 * (b & 1))) & kNibbles);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int b) {
    return k4_scales(unit(tile, row, 0), b);
  }
};

template <>
struct Tile<MINFER_TYPE_Q5_K> : TileBase<256, 176, false, true> {
  static __device__ __forceinline__ uint32_t quant(uint32_t low, uint32_t high, int b) {
    return ((low >> (4 * (b & 1))) & kNibbles) | (((high >> b) & 0x01010101u) << 4);
  }
  static __device__ __forceinline__ void words(const uint8_t* tile, int row, int b, int (&w)[8]) {
    const uint4 p = unit(tile, row, 3 + (b & 6)), q = unit(tile, row, 4 + (b & 6));
    const uint4 h = unit(tile, row, 1), k = unit(tile, row, 2);
    const uint32_t raw[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
    const uint32_t high[8] = {h.x, h.y, h.z, h.w, k.x, k.y, k.z, k.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = static_cast<int>(quant(raw[i], high[i], b));
  }
  static __device__ __forceinline__ int word(const uint8_t* tile, int row, int b, int i) {
    const uint32_t raw = unit_word(tile, row, 3 + (b & 6) + (i >> 2), i & 3);
    return static_cast<int>(quant(raw, unit_word(tile, row, 1 + (i >> 2), i & 3), b));
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int b) {
    return k4_scales(unit(tile, row, 0), b);
  }
};

template <>
struct Tile<MINFER_TYPE_Q6_K> : TileBase<256, 210, true, false> {
  static __device__ __forceinline__ int quant(uint32_t low, uint32_t high, int b) {
    const uint32_t l = (low >> (2 * (b & 2))) & kNibbles;
    return subtract_bytes(l | (((high >> (2 * (b & 3))) & kPairs) << 4), 32);
  }
  static __device__ __forceinline__ int low_unit(int b) { return (b & 4) + (b & 1) * 2; }
  static __device__ __forceinline__ int high_unit(int b) { return 8 + (b >> 2) * 2; }
  static __device__ __forceinline__ void words(const uint8_t* tile, int row, int b, int (&w)[8]) {
    const uint4 p = unit(tile, row, low_unit(b)), q = unit(tile, row, low_unit(b) + 1);
    const uint4 h = unit(tile, row, high_unit(b)), k = unit(tile, row, high_unit(b) + 1);
    const uint32_t raw[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
    const uint32_t high[8] = {h.x, h.y, h.z, h.w, k.x, k.y, k.z, k.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = quant(raw[i], high[i], b);
  }
  static __device__ __forceinline__ int word(const uint8_t* tile, int row, int b, int i) {
    return quant(unit_word(tile, row, low_unit(b) + (i >> 2), i & 3),
                 unit_word(tile, row, high_unit(b) + (i >> 2), i & 3), b);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int b) {
    const float d = half_bits(load_as<uint16_t>(tile + 13 * 512 + row * 2));
    const uint32_t pair = load_as<uint16_t>(tile + 12 * 512 + row * 16 + b * 2);
    return {d * static_cast<float>(static_cast<int8_t>(pair & 0xff)),
            d * static_cast<float>(static_cast<int8_t>(pair >> 8)), 0.f, 0.f};
  }
};

template <>
struct Tile<MINFER_TYPE_Q2_K> : TileBase<256, 84, true, true> {
  static __device__ __forceinline__ int word(const uint8_t* tile, int row, int b, int i) {
    const uint32_t raw = unit_word(tile, row, 1 + (b >> 2) * 2 + (i >> 2), i & 3);
    return static_cast<int>((raw >> (2 * (b & 3))) & kPairs);
  }
  static __device__ __forceinline__ void words(const uint8_t* tile, int row, int b, int (&w)[8]) {
    const int first = 1 + (b >> 2) * 2;
    const uint4 p = unit(tile, row, first), q = unit(tile, row, first + 1);
    const uint32_t raw[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = static_cast<int>((raw[i] >> (2 * (b & 3))) & kPairs);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int b) {
    const uint32_t dm = load_as<uint32_t>(tile + 5 * 512 + row * 4);
    const float d = half_bits(dm & 0xffff), m = -half_bits(dm >> 16);
    const uint32_t pair = load_as<uint16_t>(tile + row * 16 + b * 2);
    return {d * static_cast<float>(pair & 15), d * static_cast<float>((pair >> 8) & 15),
            m * static_cast<float>((pair >> 4) & 15), m * static_cast<float>(pair >> 12)};
  }
};

template <>
struct Tile<MINFER_TYPE_Q3_K> : TileBase<256, 110, true, false> {
  static __device__ __forceinline__ int quant(uint32_t low, uint32_t mask, int b) {
    const uint32_t q = (low >> (2 * (b & 3))) & kPairs;
    return subtract_bytes(q | (((mask >> b) & 0x01010101u) << 2), 4);
  }
  static __device__ __forceinline__ int word(const uint8_t* tile, int row, int b, int i) {
    return quant(unit_word(tile, row, 2 + (b >> 2) * 2 + (i >> 2), i & 3),
                 unit_word(tile, row, i >> 2, i & 3), b);
  }
  static __device__ __forceinline__ void words(const uint8_t* tile, int row, int b, int (&w)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = word(tile, row, b, i);
  }
  /// 6-bit scale `i` of 16, minus 32.
  static __device__ __forceinline__ int scale(uint32_t s0, uint32_t s1, uint32_t s2, int i) {
    const int shift = 8 * (i & 3);
    const uint32_t low = ((i & 4 ? s1 : s0) >> shift) >> (i & 8 ? 4 : 0);
    const uint32_t high = (s2 >> shift) >> (2 * (i >> 2));
    return static_cast<int>((low & 15u) | ((high & 3u) << 4)) - 32;
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int b) {
    const uint8_t* words_at = tile + 6 * 512 + row * 4;
    const uint32_t s0 = load_as<uint32_t>(words_at), s1 = load_as<uint32_t>(words_at + 128);
    const uint32_t s2 = load_as<uint32_t>(words_at + 256);
    const float d = half_bits(load_as<uint16_t>(tile + 6 * 512 + 384 + row * 2));
    return {d * static_cast<float>(scale(s0, s1, s2, 2 * b)),
            d * static_cast<float>(scale(s0, s1, s2, 2 * b + 1)), 0.f, 0.f};
  }
};

template <>
struct Tile<MINFER_TYPE_IQ4_XS> : TileBase<256, 136, false, false> {
  static __device__ __forceinline__ int word(const uint8_t* tile, int row, int b, int i) {
    const uint32_t raw = unit_word(tile, row, b, i & 3);
    return lookup_bytes((raw >> (i & 4)) & kNibbles, kIq4Low, kIq4High);
  }
  static __device__ __forceinline__ void words(const uint8_t* tile, int row, int b, int (&w)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = word(tile, row, b, i);
  }
  static __device__ __forceinline__ Scales scales(const uint8_t* tile, int row, int b) {
    const uint32_t head = load_as<uint32_t>(tile + 8 * 512 + row * 4);
    const uint32_t low = load_as<uint32_t>(tile + 8 * 512 + 128 + row * 4);
    const uint32_t ls = ((low >> (4 * b)) & 15u) | (((head >> (16 + 2 * b)) & 3u) << 4);
    const float d = half_bits(head & 0xffff) * static_cast<float>(static_cast<int>(ls) - 32);
    return {d, d, 0.f, 0.f};
  }
};

/// F32, F16 and BF16 have no quants; only dequantize32 reads them.
template <int Bytes>
struct FloatTile : TileBase<32, Bytes, false, false> {
  static constexpr bool kInt8 = false;
};
template <>
struct Tile<MINFER_TYPE_F32> : FloatTile<128> {};
template <>
struct Tile<MINFER_TYPE_F16> : FloatTile<64> {};
template <>
struct Tile<MINFER_TYPE_BF16> : FloatTile<64> {};

/// Tiles along k of a row of `id` elements.
template <class T>
__device__ __forceinline__ int tiles_of_row(int id) {
  return (id + T::kBlockK - 1) / T::kBlockK;
}

/// The 32 elements of sub-block b of a row.
template <uint32_t Type>
__device__ __forceinline__ void dequantize32(const uint8_t* tile, int row, int b, float (&v)[32]) {
  using T = Tile<Type>;
  if constexpr (Type == MINFER_TYPE_F32) {
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      const float4 f = load_as<float4>(tile + u * 512 + row * 16);
      v[4 * u] = f.x, v[4 * u + 1] = f.y, v[4 * u + 2] = f.z, v[4 * u + 3] = f.w;
    }
  } else if constexpr (!T::kInt8) {
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const uint4 f = T::unit(tile, row, u);
      const uint32_t raw[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (Type == MINFER_TYPE_F16) {
          v[8 * u + 2 * i] = half_bits(raw[i] & 0xffff);
          v[8 * u + 2 * i + 1] = half_bits(raw[i] >> 16);
        } else {
          v[8 * u + 2 * i] = __uint_as_float(raw[i] << 16);
          v[8 * u + 2 * i + 1] = __uint_as_float(raw[i] & 0xffff0000u);
        }
      }
    }
  } else {
    int w[8];
    T::words(tile, row, b, w);
    const Scales sc = T::scales(tile, row, b);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float s = i < 4 ? sc.s0 : sc.s1, m = i < 4 ? sc.m0 : sc.m1;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float q = static_cast<float>(static_cast<int8_t>((w[i] >> (8 * j)) & 0xff));
        v[4 * i + j] = T::kHasMin ? fmaf(s, q, m) : s * q;
      }
    }
  }
}

/// Calls f.template operator()<Type>() for a run-time type that has a layout; false otherwise.
template <class F>
bool dispatch_type(uint32_t type, F&& f) {
  switch (type) {
#define MINFER_CASE(t)          \
  case t:                       \
    f.template operator()<t>(); \
    return true;
    MINFER_CASE(MINFER_TYPE_F32)
    MINFER_CASE(MINFER_TYPE_F16)
    MINFER_CASE(MINFER_TYPE_BF16)
    MINFER_CASE(MINFER_TYPE_Q4_0)
    MINFER_CASE(MINFER_TYPE_Q4_1)
    MINFER_CASE(MINFER_TYPE_Q5_0)
    MINFER_CASE(MINFER_TYPE_Q5_1)
    MINFER_CASE(MINFER_TYPE_Q8_0)
    MINFER_CASE(MINFER_TYPE_Q2_K)
    MINFER_CASE(MINFER_TYPE_Q3_K)
    MINFER_CASE(MINFER_TYPE_Q4_K)
    MINFER_CASE(MINFER_TYPE_Q5_K)
    MINFER_CASE(MINFER_TYPE_Q6_K)
    MINFER_CASE(MINFER_TYPE_IQ4_NL)
    MINFER_CASE(MINFER_TYPE_IQ4_XS)
    MINFER_CASE(MINFER_TYPE_MXFP4)
#undef MINFER_CASE
    default:
      return false;
  }
}

}  // namespace minfer_cuda
