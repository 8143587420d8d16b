// The matmul kernels for AVX-512 without VNNI: plain float rows. (Quantised weights take the AVX2
// kernels there; the panels are the same.) Thread-safe: pure functions; everything but the table is
// static.
#include <immintrin.h>

#include "kernels/float_rows.h"
#include "matmul_list.h"

namespace minfer_cpu {
namespace {

struct Vec16 {
  using Type = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kTokens = 6;

  static MINFER_INLINE Type zero() { return _mm512_setzero_ps(); }
  static MINFER_INLINE Type fma(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
  static MINFER_INLINE void store(float* p, Type v) { _mm512_storeu_ps(p, v); }
  static MINFER_INLINE float sum(Type v) { return _mm512_reduce_add_ps(v); }
  static MINFER_INLINE void prefetch(const uint8_t* p) { _mm_prefetch(p, _MM_HINT_T0); }
  template <uint32_t kType>
  static MINFER_INLINE Type load(const void* p) {
    if constexpr (kType == MINFER_TYPE_F32) return _mm512_loadu_ps(p);
    const __m256i half = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    if constexpr (kType == MINFER_TYPE_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
};

constexpr MatmulKernel kKernels[] = {
    float_kernel<Vec16, MINFER_TYPE_F32>("f32/avx512"),
    float_kernel<Vec16, MINFER_TYPE_F16>("f16/avx512"),
    float_kernel<Vec16, MINFER_TYPE_BF16>("bf16/avx512"),
};

}  // namespace

KernelList matmul_kernels_avx512() {
  return {kKernels, static_cast<uint32_t>(sizeof kKernels / sizeof kKernels[0])};
}

}  // namespace minfer_cpu
