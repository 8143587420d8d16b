// exp, tanh, the sigmoid and the GELUs on a vector V (Vec8, Vec16). All static (see unroll.h).
//
// The polynomials are weighted least-squares fits to the functions named, close to minimax.
#pragma once

#include "kernels/unroll.h"
#include "minfer/plugin_abi.h"

namespace minfer_cpu {
namespace {

/// e^x, relative error below 3e-7; 0 below -86.6, infinity above 88.7, NaN for NaN.
template <class V>
MINFER_INLINE typename V::Type exp(typename V::Type x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // the first has 9 bits
  constexpr float kSmallest = -86.6f;
  const typename V::Type clamped = V::min(V::set(89.0f), V::max(V::set(kSmallest), x));
  const typename V::Type n = V::round_to_even(V::mul(clamped, V::set(kLog2E)));
  const typename V::Type r = V::fnma(n, V::set(kLn2Low), V::fnma(n, V::set(kLn2High), clamped));
  // (e^r - 1 - r) / r^2 on +-ln(2) / 2
  typename V::Type p = V::set(1.390130574e-3f);
  p = V::fma(p, r, V::set(8.363200052e-3f));
  p = V::fma(p, r, V::set(4.166685414e-2f));
  p = V::fma(p, r, V::set(1.666657696e-1f));
  p = V::fma(p, r, V::set(4.999999955e-1f));
  p = V::add(V::fma(V::mul(p, r), r, r), V::set(1.0f));
  return V::if_less(x, V::set(kSmallest), V::zero(), V::scale_by_power(p, n));
}

/// x / (1 + e^-(a x))
template <class V>
MINFER_INLINE typename V::Type times_sigmoid(typename V::Type x, typename V::Type ax) {
  return V::div(x, V::add(V::set(1.0f), exp<V>(V::sub(V::zero(), ax))));
}

template <class V>
MINFER_INLINE typename V::Type silu(typename V::Type x) {
  return times_sigmoid<V>(x, x);
}

/// Relative error below 1e-6.
template <class V>
MINFER_INLINE typename V::Type tanh(typename V::Type x) {
  const typename V::Type magnitude = V::abs(x);
  // 1 - 2 / (1 + e^2x) loses precision near 0: there the series serves.
  const typename V::Type e = exp<V>(V::add(magnitude, magnitude));
  const typename V::Type far = V::sub(V::set(1.0f), V::div(V::set(2.0f), V::add(V::set(1.0f), e)));
  const typename V::Type square = V::mul(x, x);
  typename V::Type p = V::set(6.2f / 283.5f);
  p = V::fma(p, square, V::set(-17.0f / 315.0f));
  p = V::fma(p, square, V::set(2.0f / 15.0f));
  p = V::fma(p, square, V::set(-1.0f / 3.0f));
  const typename V::Type near = V::fma(V::mul(p, square), x, x);
  return V::if_less(magnitude, V::set(0.25f), near, V::copy_sign(far, x));
}

/// 0.5 x (1 + erf(x / sqrt(2))), through erfc(z) = t e^-z^2 P(t) with t = 1 / (1 + z / 2).
template <class V>
MINFER_INLINE typename V::Type gelu_erf(typename V::Type x) {
  const typename V::Type z = V::min(V::set(14.0f), V::mul(V::abs(x), V::set(0.7071067811865476f)));
  const typename V::Type t = V::div(V::set(1.0f), V::fma(z, V::set(0.5f), V::set(1.0f)));
  typename V::Type p = V::set(-5.938648317e-2f);
  p = V::fma(p, t, V::set(2.861240631e-1f));
  p = V::fma(p, t, V::set(-4.904065520e-1f));
  p = V::fma(p, t, V::set(2.817334636e-1f));
  p = V::fma(p, t, V::set(-2.914863754e-2f));
  p = V::fma(p, t, V::set(2.037525633e-1f));
  p = V::fma(p, t, V::set(2.428351080e-1f));
  p = V::fma(p, t, V::set(2.824120991e-1f));
  p = V::fma(p, t, V::set(2.820843314e-1f));
  const typename V::Type half_erfc =
      V::mul(V::mul(V::set(0.5f), V::mul(t, p)), exp<V>(V::sub(V::zero(), V::mul(z, z))));
  // min() above drops a NaN of x; the last product brings it back.
  return V::mul(x, V::if_less(x, V::zero(), half_erfc, V::sub(V::set(1.0f), half_erfc)));
}

/// `Kind` is MINFER_GELU_*.
template <class V, uint32_t Kind>
MINFER_INLINE typename V::Type gelu(typename V::Type x) {
  if constexpr (Kind == MINFER_GELU_ERF) return gelu_erf<V>(x);
  if constexpr (Kind == MINFER_GELU_QUICK) {
    return times_sigmoid<V>(x, V::mul(x, V::set(1.702f)));
  }
  // 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u) with 2u = 2 sqrt(2 / pi) (x + 0.044715 x^3).
  constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
  const typename V::Type cubic = V::fma(V::mul(V::mul(x, x), V::set(0.044715f)), x, x);
  return times_sigmoid<V>(x, V::mul(cubic, V::set(kTwoRootTwoOverPi)));
}

}  // namespace
}  // namespace minfer_cpu
