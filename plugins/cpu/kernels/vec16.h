// Vec16: a vector of 16 floats on AVX-512 (F, BW, DQ, VL), with the interface of Vec8 (vec8.h says
// what each function means). All static (see unroll.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/unroll.h"
#include "minfer/plugin_abi.h"

namespace minfer_cpu {
namespace {

struct Vec16 {
  using Type = __m512;
  using Doubles = __m512d;
  static constexpr int kLanes = 16;
  static constexpr int kTokens = 6;
  static constexpr int kMaxQueries = 6;

  static MINFER_INLINE Type zero() { return _mm512_setzero_ps(); }
  static MINFER_INLINE Type set(float x) { return _mm512_set1_ps(x); }
  static MINFER_INLINE Type add(Type a, Type b) { return _mm512_add_ps(a, b); }
  static MINFER_INLINE Type sub(Type a, Type b) { return _mm512_sub_ps(a, b); }
  static MINFER_INLINE Type mul(Type a, Type b) { return _mm512_mul_ps(a, b); }
  static MINFER_INLINE Type div(Type a, Type b) { return _mm512_div_ps(a, b); }
  static MINFER_INLINE Type fma(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
  static MINFER_INLINE Type fnma(Type a, Type b, Type c) { return _mm512_fnmadd_ps(a, b, c); }
  static MINFER_INLINE Type fma_alternate(Type a, Type b, Type c) {
    return _mm512_fmaddsub_ps(a, b, c);
  }
  static MINFER_INLINE Type max(Type a, Type b) { return _mm512_max_ps(a, b); }
  static MINFER_INLINE Type min(Type a, Type b) { return _mm512_min_ps(a, b); }
  static MINFER_INLINE Type abs(Type a) { return _mm512_abs_ps(a); }
  static MINFER_INLINE Type copy_sign(Type magnitude, Type sign) {
    return _mm512_or_ps(magnitude, _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
  }
  static MINFER_INLINE Type round_to_even(Type a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static MINFER_INLINE Type truncate(Type a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  }
  static MINFER_INLINE Type if_less(Type a, Type b, Type x, Type y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  static MINFER_INLINE uint32_t equal_mask(Type a, Type b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
  }
  static MINFER_INLINE Type scale_by_power(Type a, Type n) { return _mm512_scalef_ps(a, n); }
  static MINFER_INLINE Type load_pairs(const float* p) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                                 _mm512_castps256_ps512(_mm256_loadu_ps(p)));
  }
  static MINFER_INLINE Type swap_pairs(Type a) { return _mm512_permute_ps(a, 0xb1); }
  static MINFER_INLINE float sum(Type v) { return _mm512_reduce_add_ps(v); }
  static MINFER_INLINE float largest(Type v) { return _mm512_reduce_max_ps(v); }

  static MINFER_INLINE Doubles zero_doubles() { return _mm512_setzero_pd(); }
  static MINFER_INLINE Doubles add_squares(Type v, Doubles acc) {
    const __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    const __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    return _mm512_fmadd_pd(hi, hi, _mm512_fmadd_pd(lo, lo, acc));
  }
  static MINFER_INLINE double sum_doubles(Doubles v) { return _mm512_reduce_add_pd(v); }

  template <uint32_t kType = MINFER_TYPE_F32>
  static MINFER_INLINE Type load(const void* p) {
    if constexpr (kType == MINFER_TYPE_F32) return _mm512_loadu_ps(p);
    const __m256i half = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    if constexpr (kType == MINFER_TYPE_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static MINFER_INLINE Type load_int8(const void* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
  }
  static MINFER_INLINE void store(float* p, Type v) { _mm512_storeu_ps(p, v); }
  static MINFER_INLINE void store_halves(void* p, Type v) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static MINFER_INLINE void store_int8(void* p, Type v) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
  }
  static MINFER_INLINE Type load_first(const float* p, int64_t n) {
    return _mm512_maskz_loadu_ps(first(n), p);
  }
  static MINFER_INLINE void store_first(float* p, int64_t n, Type v) {
    _mm512_mask_storeu_ps(p, first(n), v);
  }
  static MINFER_INLINE void prefetch(const uint8_t* p) { _mm_prefetch(p, _MM_HINT_T0); }

 private:
  static MINFER_INLINE __mmask16 first(int64_t n) {
    return static_cast<__mmask16>(n >= kLanes ? 0xffff : (1u << n) - 1u);
  }
};

}  // namespace
}  // namespace minfer_cpu
