// Loops that are unrolled for certain, for kernels whose arrays must live in registers.
// Everything is always inlined and in an anonymous namespace: the including file may be compiled
// with instructions that the rest of the library must not use.
#pragma once

#define MINFER_INLINE inline __attribute__((always_inline))

namespace minfer_cpu {
namespace {

/// A number known at compile time, usable as an index and (`.value`) as a template argument.
template <int I>
struct Int {
  static constexpr int value = I;
  constexpr operator int() const { return I; }
};

/// f(Int<0>()), ..., f(Int<N - 1>()). (A prefetch alone in such a function is dropped by g++ 12.)
template <int N, class F>
MINFER_INLINE void unroll(const F& f) {
  if constexpr (N > 0) {
    unroll<N - 1>(f);
    f(Int<N - 1>());
  }
}

}  // namespace
}  // namespace minfer_cpu
