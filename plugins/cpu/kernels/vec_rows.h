// The entries of VecOps that work on plain rows of f32, on a vector V (Vec8, Vec16). What each must
// do is said in vec_ops.h. All static (see unroll.h).
#pragma once

#include <cstdint>

#include "kernels/vec_math.h"
#include "vec_ops.h"

namespace minfer_cpu {
namespace {

// store(i, f(i, load)) for vectors and the rest, where load(p) is the vector of p at i.
template <class V, class F>
MINFER_INLINE void map(int64_t n, float* out, const F& f) {
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    V::store(out + i, f([i](const float* p) { return V::load(p + i); }));
  }
  if (i < n) {
    V::store_first(out + i, n - i,
                   f([i, n](const float* p) { return V::load_first(p + i, n - i); }));
  }
}

template <class V>
struct RowOps {
  using Type = typename V::Type;

  static void add(const float* a, const float* b, int64_t n, float* out) {
    map<V>(n, out, [=](const auto& at) { return V::add(at(a), at(b)); });
  }
  static void mul(const float* a, const float* b, int64_t n, float* out) {
    map<V>(n, out, [=](const auto& at) { return V::mul(at(a), at(b)); });
  }
  static void scale(const float* x, int64_t n, float factor, float offset, float* out) {
    map<V>(n, out, [=](const auto& at) { return V::fma(at(x), V::set(factor), V::set(offset)); });
  }
  static void axpy(const float* x, int64_t n, float factor, float* acc) {
    map<V>(n, acc, [=](const auto& at) { return V::fma(at(x), V::set(factor), at(acc)); });
  }
  static void silu(const float* x, int64_t n, float* out) {
    map<V>(n, out, [=](const auto& at) { return minfer_cpu::silu<V>(at(x)); });
  }
  static void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
    map<V>(n, out, [=](const auto& at) { return V::mul(minfer_cpu::silu<V>(at(gate)), at(up)); });
  }

  template <uint32_t Kind>
  static void gelu_rows(const float* x, const float* up, int64_t n, float* out) {
    if (up == nullptr) {
      map<V>(n, out, [=](const auto& at) { return minfer_cpu::gelu<V, Kind>(at(x)); });
    } else {
      map<V>(n, out,
             [=](const auto& at) { return V::mul(minfer_cpu::gelu<V, Kind>(at(x)), at(up)); });
    }
  }
  static void gelu_mul(const float* gate, const float* up, int64_t n, uint32_t kind, float* out) {
    switch (kind) {
      case MINFER_GELU_ERF:
        return gelu_rows<MINFER_GELU_ERF>(gate, up, n, out);
      case MINFER_GELU_QUICK:
        return gelu_rows<MINFER_GELU_QUICK>(gate, up, n, out);
      default:
        return gelu_rows<MINFER_GELU_TANH>(gate, up, n, out);
    }
  }
  static void gelu(const float* x, int64_t n, uint32_t kind, float* out) {
    gelu_mul(x, nullptr, n, kind, out);
  }

  static void soft_cap(const float* x, int64_t n, float cap, float* out) {
    map<V>(n, out, [=](const auto& at) {
      return V::mul(V::set(cap), minfer_cpu::tanh<V>(V::div(at(x), V::set(cap))));
    });
  }

  static float max(const float* x, int64_t n) {
    const float lowest = -__builtin_inff();
    Type best[4] = {V::set(lowest), V::set(lowest), V::set(lowest), V::set(lowest)};
    int64_t i = 0;
    for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
      unroll<4>([&](auto j) { best[j] = V::max(V::load(x + i + j * V::kLanes), best[j]); });
    }
    for (; i + V::kLanes <= n; i += V::kLanes) best[0] = V::max(V::load(x + i), best[0]);
    float result = V::largest(V::max(V::max(best[0], best[1]), V::max(best[2], best[3])));
    for (; i < n; ++i) result = x[i] > result ? x[i] : result;
    return result;
  }

  static int64_t arg_max(const float* x, int64_t n) {
    const float largest = max(x, n);
    const Type target = V::set(largest);
    int64_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes) {
      const uint32_t found = V::equal_mask(V::load(x + i), target);
      if (found != 0) return i + __builtin_ctz(found);
    }
    for (; i < n; ++i) {
      if (x[i] == largest) return i;
    }
    return 0;  // nothing but NaN
  }

  static float exp_sum(const float* x, int64_t n, float bias, float* out) {
    Type sum = V::zero();
    int64_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes) {
      const Type e = minfer_cpu::exp<V>(V::sub(V::load(x + i), V::set(bias)));
      V::store(out + i, e);
      sum = V::add(sum, e);
    }
    float total = V::sum(sum);
    if (i < n) {
      const Type e = minfer_cpu::exp<V>(V::sub(V::load_first(x + i, n - i), V::set(bias)));
      V::store_first(out + i, n - i, e);
      for (; i < n; ++i) total += out[i];
    }
    return total;
  }

  // 1 / sqrt(mean(x^2) + eps): squares of any finite float fit in a double.
  static float rms_factor(const float* x, int64_t n, float eps) {
    typename V::Doubles squares[2] = {V::zero_doubles(), V::zero_doubles()};
    int64_t i = 0;
    for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
      squares[0] = V::add_squares(V::load(x + i), squares[0]);
      squares[1] = V::add_squares(V::load(x + i + V::kLanes), squares[1]);
    }
    double sum = V::sum_doubles(squares[0]) + V::sum_doubles(squares[1]);
    for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return static_cast<float>(
        1.0 / __builtin_sqrt(sum / static_cast<double>(n) + static_cast<double>(eps)));
  }

  static void rms_norm(const float* x, const float* weight, int64_t n, float eps,
                       float weight_offset, float* out) {
    const Type factor = V::set(rms_factor(x, n, eps));
    const Type offset = V::set(weight_offset);
    if (weight == nullptr) {
      map<V>(n, out, [=](const auto& at) { return V::mul(at(x), factor); });
    } else {
      map<V>(n, out, [=](const auto& at) {
        return V::mul(V::mul(at(x), factor), V::add(at(weight), offset));
      });
    }
  }
  static void add_rms_norm(const float* a, const float* b, const float* weight, int64_t n,
                           float eps, float weight_offset, float* sum, float* out) {
    add(a, b, n, sum);
    rms_norm(sum, weight, n, eps, weight_offset, out);
  }

  static void rope_neox(const float* x, const float* cos, const float* sin, int64_t half,
                        float* out) {
    int64_t i = 0;
    for (; i + V::kLanes <= half; i += V::kLanes) {
      const Type a = V::load(x + i), b = V::load(x + half + i);
      const Type c = V::load(cos + i), s = V::load(sin + i);
      V::store(out + i, V::fnma(b, s, V::mul(a, c)));
      V::store(out + half + i, V::fma(a, s, V::mul(b, c)));
    }
    for (; i < half; ++i) {
      const float a = x[i], b = x[i + half];
      out[i] = a * cos[i] - b * sin[i];
      out[i + half] = a * sin[i] + b * cos[i];
    }
  }

  static void rope_interleaved(const float* x, const float* cos, const float* sin, int64_t half,
                               float* out) {
    constexpr int kPairs = V::kLanes / 2;
    int64_t i = 0;
    for (; i + kPairs <= half; i += kPairs) {
      const Type v = V::load(x + 2 * i);
      const Type turned = V::mul(V::swap_pairs(v), V::load_pairs(sin + i));
      V::store(out + 2 * i, V::fma_alternate(v, V::load_pairs(cos + i), turned));
    }
    for (; i < half; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      out[2 * i] = a * cos[i] - b * sin[i];
      out[2 * i + 1] = a * sin[i] + b * cos[i];
    }
  }
};

}  // namespace
}  // namespace minfer_cpu
