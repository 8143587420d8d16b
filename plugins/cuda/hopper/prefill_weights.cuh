// Tile32 weights as wgmma fragments, dequantised to f16 in registers.
//
// A stage is 64 elements along k, of two 32-row groups per consumer warpgroup. A thread holds two
// rows of a 16-row fragment: `first` for registers 0 and 2, `second` for 1 and 3. From a 16-byte
// unit of its rows it takes word t = lane % 4, the quants of k = 4 t .. 4 t + 3; activations are
// stored in the same order (fragment_position in prefill.h). Eight lanes with consecutive rows read
// eight times 16 bytes: all banks once.
//
// Quants become f16 exactly (1024 + q by its bits, minus 1024), then one multiply-add with the
// rounded scale and minimum. Each type says how many bytes per row group a copy slot holds, how
// many stages share it, and what head there is per unit of k.
#pragma once

#include "minfer/plugin_abi.h"
#include "ptx.cuh"

namespace minfer_cuda::hopper {

/// What producers and the shared-memory plan need to know of a type; sizes are per 32 rows.
template <uint32_t Type>
struct WeightShape;
template <>
struct WeightShape<MINFER_TYPE_Q4_K> {
  static constexpr uint32_t kUnitStages = 4, kUnitBytes = 4608;
  static constexpr uint32_t kSlotStages = 1, kSlotBytes = 1024, kHeadBytes = 512;
};
template <>
struct WeightShape<MINFER_TYPE_Q6_K> {
  static constexpr uint32_t kUnitStages = 4, kUnitBytes = 6720;
  static constexpr uint32_t kSlotStages = 2, kSlotBytes = 3072, kHeadBytes = 576;
};
template <>
struct WeightShape<MINFER_TYPE_Q8_0> {
  static constexpr uint32_t kUnitStages = 2, kUnitBytes = 4352;
  static constexpr uint32_t kSlotStages = 1, kSlotBytes = 2176, kHeadBytes = 0;
};

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

template <>
struct Weights<MINFER_TYPE_Q4_K> {
  using Shape = WeightShape<MINFER_TYPE_Q4_K>;

  /// {d, -256 dmin}, that times -256 and -1, and the scales and minima as bytes times 4.
  struct Row {
    uint32_t scale0, min0, scale1, min1;
    __half2 factor, offset;
  };
  struct Head {
    Row rows[2];
  };
  struct Slot {
    uint32_t words[2][2];  // [unit][row]
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
  static __device__ __forceinline__ void load_head(Head& head, uint32_t at, const FragmentRows& f) {
    load_row(head.rows[0], at + f.first_group * Shape::kHeadBytes + f.first_row * 16);
    load_row(head.rows[1], at + f.second_group * Shape::kHeadBytes + f.second_row * 16);
  }
  static __device__ __forceinline__ void load_slot(Slot& s, uint32_t at, const FragmentRows& f) {
    const uint32_t a = at + f.first_group * Shape::kSlotBytes + f.first_row * 16 + f.word;
    const uint32_t b = at + f.second_group * Shape::kSlotBytes + f.second_row * 16 + f.word;
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
  static __device__ __forceinline__ void expand(uint32_t w, __half2 low, __half2 high,
                                                uint32_t half, uint32_t& l0, uint32_t& l1,
                                                uint32_t& h0, uint32_t& h1) {
    const uint32_t odd = swap_bytes(w);
    const __half2 ls = __low2half2(low), lm = __high2half2(low);
    const __half2 hs = __low2half2(high), hm = __high2half2(high);
    l0 = bits_of(__hfma2(low_nibbles(w, half), ls, lm));
    l1 = bits_of(__hfma2(low_nibbles(odd, half), ls, lm));
    h0 = bits_of(__hfma2(high_nibbles(w, half), hs, hm));
    h1 = bits_of(__hfma2(high_nibbles(odd, half), hs, hm));
  }
  /// Fragments of k groups u and u + 2 of stage Q.
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
struct Weights<MINFER_TYPE_Q6_K> {
  using Shape = WeightShape<MINFER_TYPE_Q6_K>;

  struct Head {
    uint4 scales[2];  // bytes biased by 128
    __half2 d[2];
  };
  /// Two stages' worth: the second takes the high nibbles of the same words.
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
    load_row(head, 0, at + f.first_group * Shape::kHeadBytes, f.first_row);
    load_row(head, 1, at + f.second_group * Shape::kHeadBytes, f.second_row);
  }
  static __device__ __forceinline__ void load_slot(Slot& s, uint32_t at, const FragmentRows& f) {
    const uint32_t a = at + f.first_group * Shape::kSlotBytes + f.first_row * 16 + f.word;
    const uint32_t b = at + f.second_group * Shape::kSlotBytes + f.second_row * 16 + f.word;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      s.low[u][0] = load_shared_4(a + u * 512);
      s.low[u][1] = load_shared_4(b + u * 512);
    }
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      s.high[u][0] = load_shared_4(a + 2048 + u * 512);
      s.high[u][1] = load_shared_4(b + 2048 + u * 512);
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
  /// Row `row` of k group `unit` (0..3) of stage Q; G is 2 for groups 2 and 3.
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

template <>
struct Weights<MINFER_TYPE_Q8_0> {
  using Shape = WeightShape<MINFER_TYPE_Q8_0>;
  static constexpr uint32_t kTile = 1088;

  struct Head {};
  struct Slot {
    uint32_t words[4][2];  // [k group][row]
    __half2 d[2][2];       // [tile][row]
  };

  static __device__ __forceinline__ void load_head(Head&, uint32_t, const FragmentRows&) {}
  static __device__ __forceinline__ void load_row(Slot& s, int i, uint32_t at, uint32_t row,
                                                  uint32_t word) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      s.words[g][i] = load_shared_4(at + (g >> 1) * kTile + (g & 1) * 512 + row * 16 + word);
    }
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const uint16_t d = load_shared_2(at + t * kTile + 1024 + row * 2);
      s.d[t][i] = __half2half2(__ushort_as_half(d));
    }
  }
  static __device__ __forceinline__ void load_slot(Slot& s, uint32_t at, const FragmentRows& f) {
    load_row(s, 0, at + f.first_group * Shape::kSlotBytes, f.first_row, f.word);
    load_row(s, 1, at + f.second_group * Shape::kSlotBytes, f.second_row, f.word);
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

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
