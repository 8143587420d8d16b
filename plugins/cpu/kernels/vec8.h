// Vec8: a vector of 8 floats on AVX2 with FMA and F16C, behind the interface that the generic
// kernels (float_rows.h, vec_math.h, vec_rows.h, vec_kv.h) are written in. All static (see
// unroll.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/unroll.h"
#include "minfer/plugin_abi.h"

namespace minfer_cpu {
namespace {

struct Vec8 {
  using Type = __m256;
  using Doubles = __m256d;  ///< half as many doubles
  static constexpr int kLanes = 8;
  static constexpr int kTokens = 2;      ///< per tile of 4 rows in float_rows.h
  static constexpr int kMaxQueries = 3;  ///< per tile in vec_kv.h

  static MINFER_INLINE Type zero() { return _mm256_setzero_ps(); }
  static MINFER_INLINE Type set(float x) { return _mm256_set1_ps(x); }
  static MINFER_INLINE Type add(Type a, Type b) { return _mm256_add_ps(a, b); }
  static MINFER_INLINE Type sub(Type a, Type b) { return _mm256_sub_ps(a, b); }
  static MINFER_INLINE Type mul(Type a, Type b) { return _mm256_mul_ps(a, b); }
  static MINFER_INLINE Type div(Type a, Type b) { return _mm256_div_ps(a, b); }
  /// a * b + c, and c - a * b
  static MINFER_INLINE Type fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
  static MINFER_INLINE Type fnma(Type a, Type b, Type c) { return _mm256_fnmadd_ps(a, b, c); }
  /// a * b - c in even lanes, a * b + c in odd ones
  static MINFER_INLINE Type fma_alternate(Type a, Type b, Type c) {
    return _mm256_fmaddsub_ps(a, b, c);
  }
  /// With a NaN on either side, b.
  static MINFER_INLINE Type max(Type a, Type b) { return _mm256_max_ps(a, b); }
  static MINFER_INLINE Type min(Type a, Type b) { return _mm256_min_ps(a, b); }
  static MINFER_INLINE Type abs(Type a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static MINFER_INLINE Type copy_sign(Type magnitude, Type sign) {
    return _mm256_or_ps(magnitude, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
  }
  static MINFER_INLINE Type round_to_even(Type a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static MINFER_INLINE Type truncate(Type a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  }
  /// a < b ? x : y, per lane; a NaN takes y.
  static MINFER_INLINE Type if_less(Type a, Type b, Type x, Type y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  /// A bit per lane where a == b.
  static MINFER_INLINE uint32_t equal_mask(Type a, Type b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
  }
  /// a * 2^n for a in [0.5, 2) and a whole n in -125..128; above the range: infinity.
  static MINFER_INLINE Type scale_by_power(Type a, Type n) {
    const __m256i bits =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(126)), 23);
    return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(bits)), _mm256_set1_ps(2.0f));
  }
  /// Lanes 0, 0, 1, 1, 2, 2, 3, 3 of p.
  static MINFER_INLINE Type load_pairs(const float* p) {
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)),
                                    _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
  }
  static MINFER_INLINE Type swap_pairs(Type a) { return _mm256_permute_ps(a, 0xb1); }
  static MINFER_INLINE float sum(Type v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static MINFER_INLINE float largest(Type v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }

  static MINFER_INLINE Doubles zero_doubles() { return _mm256_setzero_pd(); }
  static MINFER_INLINE Doubles add_squares(Type v, Doubles acc) {
    const __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    return _mm256_fmadd_pd(hi, hi, _mm256_fmadd_pd(lo, lo, acc));
  }
  static MINFER_INLINE double sum_doubles(Doubles v) {
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
  }

  /// kLanes floats, or kLanes halves or bfloat16s widened.
  template <uint32_t kType = MINFER_TYPE_F32>
  static MINFER_INLINE Type load(const void* p) {
    if constexpr (kType == MINFER_TYPE_F32) return _mm256_loadu_ps(static_cast<const float*>(p));
    const __m128i half = _mm_loadu_si128(static_cast<const __m128i*>(p));
    if constexpr (kType == MINFER_TYPE_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static MINFER_INLINE Type load_int8(const void* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))));
  }
  static MINFER_INLINE void store(float* p, Type v) { _mm256_storeu_ps(p, v); }
  static MINFER_INLINE void store_halves(void* p, Type v) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  /// Whole numbers of -128..127 as bytes.
  static MINFER_INLINE void store_int8(void* p, Type v) {
    const __m256i q = _mm256_cvtps_epi32(v);
    const __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi16(w, w));
  }
  /// The first n floats; the other lanes are zero, or not written.
  static MINFER_INLINE Type load_first(const float* p, int64_t n) {
    return _mm256_maskload_ps(p, first(n));
  }
  static MINFER_INLINE void store_first(float* p, int64_t n, Type v) {
    _mm256_maskstore_ps(p, first(n), v);
  }
  static MINFER_INLINE void prefetch(const uint8_t* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  }

 private:
  static MINFER_INLINE __m256i first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace minfer_cpu
