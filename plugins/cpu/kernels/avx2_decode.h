// Reading a block of a packed panel into AVX2 registers, 8 of its 16 rows at a time: the one place
// where formats differ. Included by avx2.cpp only; everything is in an anonymous namespace, because
// it is compiled with instructions that the rest of the library must not use.
//
// vpmaddubsw multiplies unsigned by signed bytes and adds neighbours into 16 bits, saturating:
//   codes of up to 6 bits are the unsigned side; sums of several words fit in 16 bits, and the
//   centre comes off by the sum of the activations; signed bytes (q8_0 and the codebooks) become
//   |w|, and their sign goes to the activations.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/panel.h"
#include "kernels/unroll.h"

namespace minfer_cpu {
namespace {

constexpr int kHalfRows = 8;  // rows of one register

// Lanes of 32 bits shifted left by N, right by -N.
template <int N>
MINFER_INLINE __m256i shift(__m256i x) {
  if constexpr (N > 0) return _mm256_slli_epi32(x, N);
  if constexpr (N < 0) return _mm256_srli_epi32(x, -N);
  return x;
}

/// What the arithmetic needs to know of a format.
template <PanelFormat F>
struct Arithmetic {
  static constexpr bool kSigned = F.low_bits == 8 || F.codebook != Codebook::kNone;
  static constexpr int kLargest = F.codebook == Codebook::kMxfp4 ? 12
                                  : kSigned                      ? 128
                                            : (1 << (F.low_bits + F.high_bits)) - 1;
  /// Words whose products may be added in 16 bits.
  static constexpr int kWordsIn16Bits = 32767 / (2 * 127 * kLargest) >= 8   ? 8
                                        : 32767 / (2 * 127 * kLargest) >= 4 ? 4
                                        : 32767 / (2 * 127 * kLargest) >= 2 ? 2
                                                                            : 1;
  /// What to take off an unsigned code.
  static constexpr int kCentre = kSigned ? 0 : F.centre;
};

struct RowScales {
  __m256 scale, bias;  // bias only where the format has one
};

/// Rows 8 * half .. 8 * half + 7 of a packed panel.
template <PanelFormat F>
class PackedRows {
 public:
  PackedRows(const uint8_t* panel, int64_t blocks) : panel_(panel), blocks_(blocks) {}

  /// Moves to the group that starts at block `b`, and fetches what follows later.
  MINFER_INLINE void group(int64_t b) {
    const int64_t n = blocks_ - b < kGroup ? blocks_ - b : kGroup;
    scales_ = panel_ + b / kGroup * group_bytes(F);
    planes_ = scales_ + n * group_scale_bytes(F) / kGroup;
    for (int i = 0; i < group_bytes(F); i += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(scales_) + kPrefetch + i, _MM_HINT_T0);
    }
  }

  /// Word J of block `b` of the group: unsigned codes, or signed bytes.
  template <int J>
  MINFER_INLINE __m256i word(int64_t b, int half) const {
    const uint8_t* p = planes_ + b * plane_bytes(F) + 32 * half;
    if constexpr (F.low_bits == 8) {
      return _mm256_xor_si256(load(p + 64 * J), _mm256_set1_epi8(-128));
    } else {
      __m256i w = plane_bits<F.low_bits, 0, J>(p);
      if constexpr (F.high_bits != 0) {
        w = _mm256_or_si256(w, plane_bits<F.high_bits, F.low_bits, J>(p + 64 * F.low_bits));
      }
      if constexpr (F.codebook != Codebook::kNone) w = _mm256_shuffle_epi8(codebook(), w);
      return w;
    }
  }

  /// Scales of group G (of columns) of block `b`.
  template <int G>
  MINFER_INLINE RowScales scales(int64_t b, int half) const {
    RowScales s;
    if constexpr (F.scale == ScaleKind::kExponent) {
      const __m256i one = _mm256_set1_epi32(1);
      const __m256i e =
          _mm256_max_epi32(bytes(scales_ + b * factor_bytes(F) + kHalfRows * half), one);
      s.scale = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_sub_epi32(e, one), 23));
    } else if constexpr (F.scale == ScaleKind::kHalf) {
      const uint8_t* p = scales_ + b * factor_bytes(F) + 2 * kHalfRows * half;
      s.scale = halves(p);
      if constexpr (F.has_bias) s.bias = halves(p + 2 * kPanelRows);
    } else {
      const uint8_t* d = scales_ + 2 * kHalfRows * half;
      const uint8_t* p =
          scales_ + factor_bytes(F) + (b * F.groups + G) * kPanelRows + kHalfRows * half;
      __m256i scale = F.scale == ScaleKind::kSigned ? signed_bytes(p) : bytes(p);
      if constexpr (F.has_bias) {
        __m256i min;
        if constexpr (F.scale == ScaleKind::kNibbles) {
          min = _mm256_srli_epi32(scale, 4);
          scale = _mm256_and_si256(scale, _mm256_set1_epi32(15));
        } else {
          min = bytes(p + kGroup * F.groups * kPanelRows);
        }
        s.bias = _mm256_fnmadd_ps(halves(d + 2 * kPanelRows), _mm256_cvtepi32_ps(min),
                                  _mm256_setzero_ps());
      }
      s.scale = _mm256_mul_ps(halves(d), _mm256_cvtepi32_ps(scale));
    }
    return s;
  }

 private:
  static constexpr int kPrefetch = 4096;

  static MINFER_INLINE __m256i load(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }

  // Word J's bits in a plane of Bits bits, moved to bit To.
  template <int Bits, int To, int J>
  static MINFER_INLINE __m256i plane_bits(const uint8_t* plane) {
    constexpr int index = Bits == 4 ? J % 4 : J / (8 / Bits);
    constexpr int position = Bits == 4 ? 4 * (J / 4) : Bits * (J % (8 / Bits));
    constexpr int mask = ((1 << Bits) - 1) << To;
    return _mm256_and_si256(shift<To - position>(load(plane + 64 * index)),
                            _mm256_set1_epi8(static_cast<char>(mask)));
  }

  static MINFER_INLINE __m256i codebook() {
    const __m128i iq4 =
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    const __m128i mxfp4 = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return _mm256_broadcastsi128_si256(F.codebook == Codebook::kIq4 ? iq4 : mxfp4);
  }

  static MINFER_INLINE __m256 halves(const uint8_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static MINFER_INLINE __m256i bytes(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static MINFER_INLINE __m256i signed_bytes(const uint8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }

  const uint8_t* panel_;
  int64_t blocks_;
  const uint8_t* scales_ = nullptr;
  const uint8_t* planes_ = nullptr;
};

/// A block of a panel after decoding, so that many tokens share that work.
template <PanelFormat F>
struct ExpandedBlock {
  uint8_t words[8][2][32];
  float scale[F.groups][2][kHalfRows];
  float bias[F.has_bias ? F.groups : 0][2][kHalfRows];
};

/// Expanded blocks, read like PackedRows.
template <PanelFormat F>
class ExpandedRows {
 public:
  explicit ExpandedRows(const ExpandedBlock<F>* blocks) : blocks_(blocks) {}

  MINFER_INLINE void group(int64_t b) { group_ = blocks_ + b; }

  template <int J>
  MINFER_INLINE __m256i word(int64_t b, int half) const {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(group_[b].words[J][half]));
  }

  template <int G>
  MINFER_INLINE RowScales scales(int64_t b, int half) const {
    RowScales s;
    s.scale = _mm256_load_ps(group_[b].scale[G][half]);
    if constexpr (F.has_bias) s.bias = _mm256_load_ps(group_[b].bias[G][half]);
    return s;
  }

 private:
  const ExpandedBlock<F>* blocks_;
  const ExpandedBlock<F>* group_ = nullptr;
};

}  // namespace
}  // namespace minfer_cpu
