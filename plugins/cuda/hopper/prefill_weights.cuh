// Tile32 weights as wgmma fragments, dequantised to f16 in registers.
//
// A step is 64 elements along k, of two 32-row groups per consumer warpgroup. A thread holds two
// rows of a 16-row fragment: `first` for registers 0 and 2, `second` for 1 and 3. From a 16-byte
// unit of its rows it takes word t = lane % 4, the quants of k = 4 t .. 4 t + 3; activations are
// stored in the same order (fragment_position in prefill.h). Eight lanes with consecutive rows read
// eight times 16 bytes: all banks once.
//
// Quants become f16 exactly (1024 + q by its bits, minus 1024), then one multiply-add with the
// rounded scale and minimum. Addresses are those of a unit's first row group in shared memory, as
// it lies in tile32; row groups follow each other.
#pragma once

#include "minfer/plugin_abi.h"
#include "ptx.cuh"

namespace minfer_cuda::hopper {

/// What producers and the shared-memory plan need to know of a type. A unit is what lies together
/// along k, of 32 rows; a step is 64 elements; kSlotSteps of them share a load of words.
template <uint32_t Type>
struct WeightShape;
template <>
struct WeightShape<MINFER_TYPE_Q4_K> {
  static constexpr uint32_t kUnitSteps = 4, kUnitBytes = 4608, kSlotSteps = 1;
};
template <>
struct WeightShape<MINFER_TYPE_Q5_K> {
  static constexpr uint32_t kUnitSteps = 4, kUnitBytes = 5632, kSlotSteps = 1;
};
template <>
struct WeightShape<MINFER_TYPE_Q6_K> {
  static constexpr uint32_t kUnitSteps = 4, kUnitBytes = 6720, kSlotSteps = 2;
};
/// Types of 32-element blocks: two steps of two tiles.
template <uint32_t TileBytes>
struct BlockShape {
  static constexpr uint32_t kTileBytes = TileBytes;
  static constexpr uint32_t kUnitSteps = 2, kUnitBytes = 4 * TileBytes, kSlotSteps = 1;
};
template <>
struct WeightShape<MINFER_TYPE_Q8_0> : BlockShape<1088> {};
template <>
struct WeightShape<MINFER_TYPE_Q4_0> : BlockShape<576> {};
template <>
struct WeightShape<MINFER_TYPE_Q5_0> : BlockShape<704> {};

/// Bit patterns that come as kernel parameters: as literals they would cost a second logical
/// instruction wherever a mask is a literal too.
struct Patterns {
  uint32_t half = 0x64006400;   ///< two f16 1024
  uint32_t scale = 0x3c005c00;  ///< f16 256 and 1
};

#ifdef MINFER_SM90A

/// Where a thread reads its two rows: row group (0 or 1) and row in it.
struct FragmentRows {
  uint32_t first_group, first_row, second_group, second_row;
  uint32_t word;  ///< byte offset of the lane's word in a unit
};

/// Low nibbles of bytes 0 and 2 of w.
__device__ __forceinline__ __half2 low_nibbles(uint32_t w, uint32_t half) {
  return __hadd2(half2_of((w & 0x000f000fu) | half), __float2half2_rn(-1024.f));
}
/// High nibbles of bytes 0 and 2 of w; exact, the factor is a power of two.
__device__ __forceinline__ __half2 high_nibbles(uint32_t w, uint32_t half) {
  return __hfma2(half2_of((w & 0x00f000f0u) | half), __float2half2_rn(0.0625f),
                 __float2half2_rn(-64.f));
}
__device__ __forceinline__ uint32_t swap_bytes(uint32_t w) {
  return __byte_perm(w, w, 0x2301);
}

template <uint32_t Type>
struct Weights;

/// What Q4_K and Q5_K share: sub-blocks of 32 with 6-bit scales and minima.
template <uint32_t Type>
struct SubBlockWeights {
  using Shape = WeightShape<Type>;

  /// {d, -256 dmin}, that times -256 and -1, and the scales and minima as bytes times 4.
  struct Row {
    uint32_t scale0, min0, scale1, min1;
    __half2 factor, offset;
  };
  struct Slot {
    uint32_t words[2][2];  // [plane][row]
  };

  static __device__ __forceinline__ void load_row(Row& r, uint32_t address) {
    const uint4 h = load_shared_16(address);
    r.factor = __hmul2(half2_of(h.x), __floats2half2_rn(1.f, -256.f));
    r.offset = __hmul2(r.factor, __floats2half2_rn(-256.f, -1.f));
    r.scale0 = h.y << 2;
    r.min0 = h.z << 2;
    r.scale1 = ((h.w << 2) & 0x3c3c3c3cu) | (h.y & 0xc0c0c0c0u);
    r.min1 = ((h.w >> 2) & 0x3c3c3c3cu) | (h.z & 0xc0c0c0c0u);
  }
  /// Words of step Q.
  template <int Q>
  static __device__ __forceinline__ void load_slot(Slot& s, uint32_t at, const FragmentRows& f) {
    constexpr uint32_t kAt = Shape::kUnitBytes - 4096 + Q * 1024;
    const uint32_t a = at + f.first_group * Shape::kUnitBytes + f.first_row * 16 + f.word + kAt;
    const uint32_t b = at + f.second_group * Shape::kUnitBytes + f.second_row * 16 + f.word + kAt;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      s.words[u][0] = load_shared_4(a + u * 512);
      s.words[u][1] = load_shared_4(b + u * 512);
    }
  }
  /// {d * scale, -dmin * min} of sub-block J: bytes placed as 256 + scale and 1 + min / 256.
  template <int J>
  static __device__ __forceinline__ __half2 sub_block(const Row& r, const Patterns& c) {
    constexpr uint32_t j = J & 3, select = j | (j << 4) | ((4 + j) << 8) | ((4 + j) << 12);
    uint32_t x = __byte_perm(J < 4 ? r.scale0 : r.scale1, J < 4 ? r.min0 : r.min1, select);
    x = (x & 0x00fc00fcu) | c.scale;
    return __hfma2(half2_of(x), r.factor, r.offset);
  }
  /// q * scale + min, {scale, min} of a sub-block.
  static __device__ __forceinline__ uint32_t scaled(__half2 q, __half2 sub_block) {
    return bits_of(__hfma2(q, __low2half2(sub_block), __high2half2(sub_block)));
  }
};

template <>
struct Weights<MINFER_TYPE_Q4_K> : SubBlockWeights<MINFER_TYPE_Q4_K> {
  struct Head {
    Row rows[2];
  };

  static __device__ __forceinline__ void load_head(Head& head, uint32_t at, const FragmentRows& f) {
    load_row(head.rows[0], at + f.first_group * Shape::kUnitBytes + f.first_row * 16);
    load_row(head.rows[1], at + f.second_group * Shape::kUnitBytes + f.second_row * 16);
  }
  static __device__ __forceinline__ void expand(uint32_t w, __half2 low, __half2 high,
                                                uint32_t half, uint32_t& l0, uint32_t& l1,
                                                uint32_t& h0, uint32_t& h1) {
    const uint32_t odd = swap_bytes(w);
    l0 = scaled(low_nibbles(w, half), low);
    l1 = scaled(low_nibbles(odd, half), low);
    h0 = scaled(high_nibbles(w, half), high);
    h1 = scaled(high_nibbles(odd, half), high);
  }
  /// Fragments of k groups u and u + 2 of step Q.
  template <int Q>
  static __device__ __forceinline__ void fragments(const Head& h, const Slot& s, int u,
                                                   const Patterns& c, uint32_t (&f)[8]) {
    expand(s.words[u][0], sub_block<2 * Q>(h.rows[0], c), sub_block<2 * Q + 1>(h.rows[0], c),
           c.half, f[0], f[2], f[4], f[6]);
    expand(s.words[u][1], sub_block<2 * Q>(h.rows[1], c), sub_block<2 * Q + 1>(h.rows[1], c),
           c.half, f[1], f[3], f[5], f[7]);
  }
};

template <>
struct Weights<MINFER_TYPE_Q5_K> : SubBlockWeights<MINFER_TYPE_Q5_K> {
  struct Head {
    Row rows[2];
    uint32_t fifth[2][2];  // [plane][row], a bit per sub-block in each byte
  };

  static __device__ __forceinline__ void load_half(Head& head, int i, uint32_t at, uint32_t row,
                                                   uint32_t word) {
    load_row(head.rows[i], at + row * 16);
    head.fifth[0][i] = load_shared_4(at + 512 + row * 16 + word);
    head.fifth[1][i] = load_shared_4(at + 1024 + row * 16 + word);
  }
  static __device__ __forceinline__ void load_head(Head& head, uint32_t at, const FragmentRows& f) {
    load_half(head, 0, at + f.first_group * Shape::kUnitBytes, f.first_row, f.word);
    load_half(head, 1, at + f.second_group * Shape::kUnitBytes, f.second_row, f.word);
  }
  /// Bytes 0 and 2: low nibbles with bit 2 Q of h, high nibbles with bit 2 Q + 1.
  template <int Q>
  static __device__ __forceinline__ void two(uint32_t w, uint32_t h, __half2 low, __half2 high,
                                             uint32_t half, uint32_t& l, uint32_t& r) {
    uint32_t x = (w & 0x000f000fu) | half, y = (w & 0x00f000f0u) | half;
    x |= (Q < 2 ? h << (4 - 2 * Q) : h >> (2 * Q - 4)) & 0x00100010u;
    y |= (h << (7 - 2 * Q)) & 0x01000100u;
    l = scaled(__hadd2(half2_of(x), __float2half2_rn(-1024.f)), low);
    r = scaled(__hfma2(half2_of(y), __float2half2_rn(0.0625f), __float2half2_rn(-64.f)), high);
  }
  /// Fragments of k groups u and u + 2 of step Q.
  template <int Q>
  static __device__ __forceinline__ void fragments(const Head& head, const Slot& s, int u,
                                                   const Patterns& c, uint32_t (&f)[8]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const __half2 low = sub_block<2 * Q>(head.rows[i], c);
      const __half2 high = sub_block<2 * Q + 1>(head.rows[i], c);
      const uint32_t w = s.words[u][i], h = head.fifth[u][i];
      two<Q>(w, h, low, high, c.half, f[i], f[4 + i]);
      two<Q>(w >> 8, h >> 8, low, high, c.half, f[2 + i], f[6 + i]);
    }
  }
};

template <>
struct Weights<MINFER_TYPE_Q6_K> {
  using Shape = WeightShape<MINFER_TYPE_Q6_K>;

  struct Head {
    uint4 scales[2];  // bytes biased by 128
    __half2 d[2];
  };
  /// Two steps' worth: the second takes the high nibbles of the same words.
  struct Slot {
    uint32_t low[4][2];
    uint32_t high[2][2];
  };

  static __device__ __forceinline__ void load_row(Head& h, int i, uint32_t at, uint32_t row) {
    const uint4 s = load_shared_16(at + row * 16);
    constexpr uint32_t kBias = 0x80808080u;
    h.scales[i] = make_uint4(s.x ^ kBias, s.y ^ kBias, s.z ^ kBias, s.w ^ kBias);
    h.d[i] = __half2half2(__ushort_as_half(load_shared_2(at + 512 + row * 2)));
  }
  static __device__ __forceinline__ void load_head(Head& head, uint32_t at, const FragmentRows& f) {
    load_row(head, 0, at + f.first_group * Shape::kUnitBytes + 6144, f.first_row);
    load_row(head, 1, at + f.second_group * Shape::kUnitBytes + 6144, f.second_row);
  }
  /// Words of steps Q and Q + 1.
  template <int Q>
  static __device__ __forceinline__ void load_slot(Slot& s, uint32_t at, const FragmentRows& f) {
    constexpr uint32_t kLow = Q * 1024, kHigh = 4096 + Q * 512;
    const uint32_t a = at + f.first_group * Shape::kUnitBytes + f.first_row * 16 + f.word;
    const uint32_t b = at + f.second_group * Shape::kUnitBytes + f.second_row * 16 + f.word;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      s.low[u][0] = load_shared_4(a + kLow + u * 512);
      s.low[u][1] = load_shared_4(b + kLow + u * 512);
    }
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      s.high[u][0] = load_shared_4(a + kHigh + u * 512);
      s.high[u][1] = load_shared_4(b + kHigh + u * 512);
    }
  }
  /// d * scale of k group G of the unit.
  template <int G>
  static __device__ __forceinline__ __half2 scale(const Head& h, int row) {
    const uint4& s = h.scales[row];
    const uint32_t word = G / 4 == 0 ? s.x : G / 4 == 1 ? s.y : G / 4 == 2 ? s.z : s.w;
    constexpr uint32_t j = G & 3, select = j | (4 << 4) | (j << 8) | (4 << 12);
    const uint32_t x = __byte_perm(word, 0x64646464u, select);
    return __hmul2(__hadd2(half2_of(x), __float2half2_rn(-1152.f)), h.d[row]);
  }
  /// Quants from nibbles (bits 0-3 of bytes 0 and 2 of w) and pairs (bits 4-5 of h), minus 32.
  static __device__ __forceinline__ uint32_t two(uint32_t w, uint32_t h, uint32_t half,
                                                 __half2 scale) {
    uint32_t x = (w & 0x000f000fu) | half;
    x |= h & 0x00300030u;
    return bits_of(__hmul2(__hadd2(half2_of(x), __float2half2_rn(-1056.f)), scale));
  }
  /// Row `row` of k group `unit` (0..3) of step Q; G is 2 for groups 2 and 3.
  template <int Q, int G>
  static __device__ __forceinline__ void group(const Head& head, const Slot& s, int unit, int row,
                                               uint32_t half, uint32_t& r0, uint32_t& r1) {
    constexpr int kLow = (Q & 1) * 4, kHigh = (Q & 1) * 4 + G;
    const uint32_t w = s.low[unit][row] >> kLow, raw = s.high[unit & 1][row];
    const uint32_t h = kHigh < 4 ? raw << (4 - kHigh) : raw >> (kHigh - 4);
    // The scale's index depends on the unit, which is a constant after unrolling.
    const __half2 sc = unit & 1 ? scale<4 * Q + G + 1>(head, row) : scale<4 * Q + G>(head, row);
    r0 = two(w, h, half, sc);
    r1 = two(w >> 8, h >> 8, half, sc);
  }
  template <int Q>
  static __device__ __forceinline__ void fragments(const Head& h, const Slot& s, int u,
                                                   const Patterns& c, uint32_t (&f)[8]) {
    group<Q, 0>(h, s, u, 0, c.half, f[0], f[2]);
    group<Q, 0>(h, s, u, 1, c.half, f[1], f[3]);
    group<Q, 2>(h, s, u + 2, 0, c.half, f[4], f[6]);
    group<Q, 2>(h, s, u + 2, 1, c.half, f[5], f[7]);
  }
};

/// What types of 32-element blocks share: two tiles a step, their scales behind their quants.
template <uint32_t Type, uint32_t ScalesAt>
struct BlockWeights {
  using Shape = WeightShape<Type>;
  struct Head {};

  static __device__ __forceinline__ void load_head(Head&, uint32_t, const FragmentRows&) {}
  static __device__ __forceinline__ __half2 load_scale(uint32_t tile, uint32_t row) {
    return __half2half2(__ushort_as_half(load_shared_2(tile + ScalesAt + row * 2)));
  }
  /// Address of a tile of the unit at `at`.
  static __device__ __forceinline__ uint32_t tile_at(uint32_t at, uint32_t group, uint32_t tile) {
    return at + group * Shape::kUnitBytes + tile * Shape::kTileBytes;
  }
};

template <>
struct Weights<MINFER_TYPE_Q8_0> : BlockWeights<MINFER_TYPE_Q8_0, 1024> {
  struct Slot {
    uint32_t words[4][2];  // [k group][row]
    __half2 d[2][2];       // [tile][row]
  };

  template <int Q>
  static __device__ __forceinline__ void load_slot(Slot& s, uint32_t at, const FragmentRows& f) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const uint32_t a = tile_at(at, f.first_group, 2 * Q + t),
                     b = tile_at(at, f.second_group, 2 * Q + t);
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        s.words[2 * t + g][0] = load_shared_4(a + g * 512 + f.first_row * 16 + f.word);
        s.words[2 * t + g][1] = load_shared_4(b + g * 512 + f.second_row * 16 + f.word);
      }
      s.d[t][0] = load_scale(a, f.first_row);
      s.d[t][1] = load_scale(b, f.second_row);
    }
  }
  static __device__ __forceinline__ void four(uint32_t w, __half2 d, uint32_t& r0, uint32_t& r1) {
    const uint32_t biased = w ^ 0x80808080u;
    const __half2 minus = __float2half2_rn(-1152.f);
    r0 = bits_of(__hmul2(__hadd2(half2_of(__byte_perm(biased, 0x64646464u, 0x4240)), minus), d));
    r1 = bits_of(__hmul2(__hadd2(half2_of(__byte_perm(biased, 0x64646464u, 0x4341)), minus), d));
  }
  template <int Q>
  static __device__ __forceinline__ void fragments(const Head&, const Slot& s, int u,
                                                   const Patterns&, uint32_t (&f)[8]) {
    four(s.words[u][0], s.d[0][0], f[0], f[2]);
    four(s.words[u][1], s.d[0][1], f[1], f[3]);
    four(s.words[u + 2][0], s.d[1][0], f[4], f[6]);
    four(s.words[u + 2][1], s.d[1][1], f[5], f[7]);
  }
};

/// Nibbles: the low ones are a tile's first k group, the high ones its second.
template <>
struct Weights<MINFER_TYPE_Q4_0> : BlockWeights<MINFER_TYPE_Q4_0, 512> {
  struct Slot {
    uint32_t words[2][2];  // [tile][row]
    __half2 d[2][2];
  };

  template <int Q>
  static __device__ __forceinline__ void load_slot(Slot& s, uint32_t at, const FragmentRows& f) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const uint32_t a = tile_at(at, f.first_group, 2 * Q + t),
                     b = tile_at(at, f.second_group, 2 * Q + t);
      s.words[t][0] = load_shared_4(a + f.first_row * 16 + f.word);
      s.words[t][1] = load_shared_4(b + f.second_row * 16 + f.word);
      s.d[t][0] = load_scale(a, f.first_row);
      s.d[t][1] = load_scale(b, f.second_row);
    }
  }
  /// (nibble - 8) * d of bytes 0 and 2.
  static __device__ __forceinline__ uint32_t two(uint32_t w, int high, __half2 d, uint32_t half) {
    const __half2 q = high ? __hfma2(half2_of((w & 0x00f000f0u) | half), __float2half2_rn(0.0625f),
                                     __float2half2_rn(-72.f))
                           : __hadd2(half2_of((w & 0x000f000fu) | half), __float2half2_rn(-1032.f));
    return bits_of(__hmul2(q, d));
  }
  template <int Q>
  static __device__ __forceinline__ void fragments(const Head&, const Slot& s, int u,
                                                   const Patterns& c, uint32_t (&f)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int tile = i >> 1, row = i & 1;
      const uint32_t w = s.words[tile][row];
      f[4 * tile + row] = two(w, u, s.d[tile][row], c.half);
      f[4 * tile + 2 + row] = two(w >> 8, u, s.d[tile][row], c.half);
    }
  }
};

/// As Q4_0, with fifth bits: bit k of a row's word belongs to quant k of its tile.
template <>
struct Weights<MINFER_TYPE_Q5_0> : BlockWeights<MINFER_TYPE_Q5_0, 640> {
  struct Slot {
    uint32_t words[2][2];  // [tile][row]
    uint32_t fifth[2][2];  // bits 0..3 and 16..19: of the word's low and high nibbles
    __half2 d[2][2];
  };

  static __device__ __forceinline__ void load_row(Slot& s, int t, int i, uint32_t tile,
                                                  uint32_t row, uint32_t word) {
    s.words[t][i] = load_shared_4(tile + row * 16 + word);
    s.fifth[t][i] = load_shared_4(tile + 512 + row * 4) >> word;
    s.d[t][i] = load_scale(tile, row);
  }
  template <int Q>
  static __device__ __forceinline__ void load_slot(Slot& s, uint32_t at, const FragmentRows& f) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      load_row(s, t, 0, tile_at(at, f.first_group, 2 * Q + t), f.first_row, f.word);
      load_row(s, t, 1, tile_at(at, f.second_group, 2 * Q + t), f.second_row, f.word);
    }
  }
  /// (quant - 16) * d from bytes 0 and 2 of w and bits 4 and 20 of h.
  static __device__ __forceinline__ uint32_t two(uint32_t w, uint32_t h, __half2 d, uint32_t half) {
    uint32_t x = (w & 0x000f000fu) | half;
    x |= h & 0x00100010u;
    return bits_of(__hmul2(__hadd2(half2_of(x), __float2half2_rn(-1040.f)), d));
  }
  template <int Q>
  static __device__ __forceinline__ void fragments(const Head&, const Slot& s, int u,
                                                   const Patterns& c, uint32_t (&f)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int tile = i >> 1, row = i & 1;
      const uint32_t w = s.words[tile][row] >> (4 * u);
      // The product puts bits 0 and 2 at 4 and 20, bits 1 and 3 one higher; none meet.
      const uint32_t h = ((s.fifth[tile][row] >> (16 * u)) & 0xfu) * 0x00040010u;
      f[4 * tile + row] = two(w, h, s.d[tile][row], c.half);
      f[4 * tile + 2 + row] = two(w >> 8, h >> 1, s.d[tile][row], c.half);
    }
  }
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
