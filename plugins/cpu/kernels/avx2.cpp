// The matmul kernels for AVX2 with FMA and F16C: quantised weights in panels, and plain float rows.
// Thread-safe: pure functions; everything but the table is static.
#include <immintrin.h>

#include "kernels/avx2_quantised.h"
#include "kernels/float_rows.h"
#include "matmul_list.h"

namespace minfer_cpu {
namespace {

struct Vec8 {
  using Type = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kTokens = 2;

  static MINFER_INLINE Type zero() { return _mm256_setzero_ps(); }
  static MINFER_INLINE Type fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
  static MINFER_INLINE void store(float* p, Type v) { _mm256_storeu_ps(p, v); }
  static MINFER_INLINE void prefetch(const uint8_t* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  }
  template <uint32_t kType>
  static MINFER_INLINE Type load(const void* p) {
    if constexpr (kType == MINFER_TYPE_F32) return _mm256_loadu_ps(static_cast<const float*>(p));
    const __m128i half = _mm_loadu_si128(static_cast<const __m128i*>(p));
    if constexpr (kType == MINFER_TYPE_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static MINFER_INLINE float sum(Type v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
};

constexpr MatmulKernel kKernels[] = {
    panel_kernel<MINFER_TYPE_Q8_0>("q8_0_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q4_K>("q4_k_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q6_K>("q6_k_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q4_1>("q4_1_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q4_0>("q4_0_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q5_K>("q5_k_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q5_0>("q5_0_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q5_1>("q5_1_r16/avx2"),
    panel_kernel<MINFER_TYPE_IQ4_NL>("iq4_nl_r16/avx2"),
    panel_kernel<MINFER_TYPE_IQ4_XS>("iq4_xs_r16/avx2"),
    panel_kernel<MINFER_TYPE_MXFP4>("mxfp4_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q2_K>("q2_k_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q3_K>("q3_k_r16/avx2"),
    float_kernel<Vec8, MINFER_TYPE_F32>("f32/avx2"),
    float_kernel<Vec8, MINFER_TYPE_F16>("f16/avx2"),
    float_kernel<Vec8, MINFER_TYPE_BF16>("bf16/avx2"),
};

}  // namespace

KernelList matmul_kernels_avx2() {
  return {kKernels, static_cast<uint32_t>(sizeof kKernels / sizeof kKernels[0])};
}

}  // namespace minfer_cpu
