// Reading a block of a packed panel into AVX-512 registers: the one place where formats differ.
// Included by the AVX-512 VNNI kernels only; everything is in an anonymous namespace, because it is
// compiled with instructions that the rest of the library must not use.
//
// vpdpbusd multiplies unsigned by signed bytes and the activations are the signed side, so weights
// are brought to unsigned bytes w:
//   formats with a bias:  w = code, value = scale * w + bias
//   all others:           w - 128 = (code - centre) * 2^kShift, value = scale * (w - 128) /
//   2^kShift
// A code with `bits` bits centred on half its range is simply shifted to the top of the byte, so
// the 128 is the same for all; ActBlock::start takes it off, and 2^-kShift multiplies finished
// outputs.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/panel.h"
#include "kernels/unroll.h"

namespace minfer_cpu {
namespace {

// Lanes of 32 bits shifted left by N, right by -N.
template <int N>
MINFER_INLINE __m512i shift(__m512i x) {
  if constexpr (N > 0) return _mm512_slli_epi32(x, N);
  if constexpr (N < 0) return _mm512_srli_epi32(x, -N);
  return x;
}

template <PanelFormat F>
struct Decoder {
  static constexpr int kBits = F.low_bits + F.high_bits;
  /// Left shift of codes inside w.
  static constexpr int kShift = F.has_bias || F.codebook != Codebook::kNone ? 0 : 8 - kBits;
  static constexpr float kOutFactor = 1.0f / (1 << kShift);

  struct Weights {
    __m512i word[8];  // 4 columns of 16 rows each
  };
  struct Factors {
    __m512 d, minus_dmin;
  };
  struct Scales {
    __m512 scale[F.groups];
    __m512 bias[F.groups];  // only where F.has_bias
  };

  /// The weights of one block.
  static MINFER_INLINE Weights weights(const uint8_t* planes) {
    Weights w;
    unroll<8>([&](auto j) { w.word[j] = word<j.value>(planes); });
    return w;
  }

  /// What the blocks of a group have in common (K formats).
  static MINFER_INLINE Factors factors(const uint8_t* scales) {
    Factors f;
    if constexpr (is_k_format(F)) {
      f.d = halves(scales);
      if constexpr (F.has_bias) {
        f.minus_dmin = _mm512_sub_ps(_mm512_setzero_ps(), halves(scales + 2 * kPanelRows));
      }
    }
    return f;
  }

  /// Scales of block `b` of the group whose scales start at `scales`.
  static MINFER_INLINE Scales block_scales(const Factors& f, const uint8_t* scales, int64_t b) {
    Scales s;
    if constexpr (F.scale == ScaleKind::kExponent) {
      // 2^(e - 128): the exponent field is e - 1. Below the normal range it becomes 0.
      const __m512i one = _mm512_set1_epi32(1);
      const __m512i e = _mm512_max_epi32(bytes(scales + b * factor_bytes(F)), one);
      s.scale[0] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_sub_epi32(e, one), 23));
    } else if constexpr (F.scale == ScaleKind::kHalf) {
      s.scale[0] = halves(scales + b * factor_bytes(F));
      if constexpr (F.has_bias) s.bias[0] = halves(scales + b * factor_bytes(F) + 2 * kPanelRows);
    } else {
      const uint8_t* own = scales + factor_bytes(F) + b * F.groups * kPanelRows;
      unroll<F.groups>([&](auto g) { group_scale<g.value>(f, own + g * kPanelRows, s); });
    }
    return s;
  }

 private:
  // Bits [from, from + Bits) of word J's codes, out of a plane of Bits bits.
  template <int Bits, int From, int J>
  static MINFER_INLINE __m512i plane_word(const uint8_t* plane) {
    constexpr int index = Bits == 4 ? J % 4 : J / (8 / Bits);
    constexpr int position = Bits == 4 ? 4 * (J / 4) : Bits * (J % (8 / Bits));
    const __m512i raw = _mm512_loadu_si512(plane + 64 * index);
    return shift<kShift + From - position>(raw);
  }

  template <int Bits, int From>
  static MINFER_INLINE __m512i plane_mask() {
    return _mm512_set1_epi8(static_cast<char>(((1 << Bits) - 1) << (kShift + From)));
  }

  template <int J>
  static MINFER_INLINE __m512i word(const uint8_t* planes) {
    if constexpr (F.low_bits == 8) {
      return _mm512_loadu_si512(planes + 64 * J);
    } else {
      __m512i w =
          _mm512_and_si512(plane_word<F.low_bits, 0, J>(planes), plane_mask<F.low_bits, 0>());
      if constexpr (F.high_bits != 0) {
        constexpr int kAndThenOr = 0xf8;  // a | (b & c)
        w = _mm512_ternarylogic_epi32(
            w, plane_word<F.high_bits, F.low_bits, J>(planes + 64 * F.low_bits),
            plane_mask<F.high_bits, F.low_bits>(), kAndThenOr);
      }
      if constexpr (F.codebook != Codebook::kNone) w = _mm512_shuffle_epi8(codebook(), w);
      return w;
    }
  }

  static MINFER_INLINE __m512i codebook() {
    const __m128i iq4 =
        _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15);
    const __m128i mxfp4 = _mm_setr_epi8(-128, -127, -126, -125, -124, -122, -120, -116, -128, 127,
                                        126, 125, 124, 122, 120, 116);
    return _mm512_broadcast_i32x4(F.codebook == Codebook::kIq4 ? iq4 : mxfp4);
  }

  static MINFER_INLINE __m512 halves(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static MINFER_INLINE __m512i bytes(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static MINFER_INLINE __m512i signed_bytes(const uint8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }

  template <int G>
  static MINFER_INLINE void group_scale(const Factors& f, const uint8_t* p, Scales& s) {
    __m512i scale = F.scale == ScaleKind::kSigned ? signed_bytes(p) : bytes(p);
    if constexpr (F.has_bias) {
      __m512i min;
      if constexpr (F.scale == ScaleKind::kNibbles) {
        min = _mm512_srli_epi32(scale, 4);
        scale = _mm512_and_si512(scale, _mm512_set1_epi32(15));
      } else {
        min = bytes(p + kGroup * F.groups * kPanelRows);
      }
      s.bias[G] = _mm512_mul_ps(f.minus_dmin, _mm512_cvtepi32_ps(min));
    }
    s.scale[G] = _mm512_mul_ps(f.d, _mm512_cvtepi32_ps(scale));
  }
};

/// A group of a panel: up to 8 blocks.
template <PanelFormat F>
struct GroupView {
  const uint8_t* scales;
  const uint8_t* planes;
  int64_t blocks;
};

/// The group that starts at block `b` (a multiple of kGroup) of `blocks`.
template <PanelFormat F>
MINFER_INLINE GroupView<F> group_view(const uint8_t* panel, int64_t blocks, int64_t b) {
  const int64_t n = blocks - b < kGroup ? blocks - b : kGroup;
  const uint8_t* start = panel + b / kGroup * group_bytes(F);
  return {start, start + n * group_scale_bytes(F) / kGroup, n};
}

template <PanelFormat F>
MINFER_INLINE int64_t panel_bytes(int64_t blocks) {
  return (blocks * group_bytes(F) / kGroup + 63) / 64 * 64;
}

}  // namespace
}  // namespace minfer_cpu
