// The KV-cache entries of VecOps on a vector V (Vec8, Vec16): scores of queries against a page's
// keys, sums of its values, and storing. Layouts and meaning are in vec_ops.h. All static (see
// unroll.h).
//
// Scores: a register holds one dimension of V::kLanes tokens; each is loaded (and widened) once for
// up to V::kMaxQueries queries, whose elements are broadcast. Values: a register holds V::kLanes
// dimensions of one token, likewise. Sums stay in registers.
#pragma once

#include <cstdint>

#include "kernels/unroll.h"
#include "vec_ops.h"

namespace minfer_cpu {
namespace {

// ---- how elements are held --------------------------------------------------------------------

/// f32 or f16.
template <class V, uint32_t Type>
struct PlainKv {
  static constexpr int64_t kSize = Type == MINFER_TYPE_F32 ? 4 : 2;
  static constexpr int64_t kRun = 1;  ///< dimensions that share a scale

  static int64_t k_bytes(int64_t dim) { return dim * kKvLanes * kSize; }
  static int64_t v_bytes(int64_t dim) { return dim * kSize; }

  /// The scale of tokens kLanes * part .. of a block from dimension d on.
  static MINFER_INLINE typename V::Type key_scale(const uint8_t*, int64_t, int) {
    return V::zero();
  }
  /// Dimension d of those tokens.
  static MINFER_INLINE typename V::Type key(const uint8_t* block, int64_t d, int part,
                                            typename V::Type) {
    return V::template load<Type>(block + (d * kKvLanes + part * V::kLanes) * kSize);
  }
  /// Dimensions d .. d + kLanes - 1 of a row.
  static MINFER_INLINE typename V::Type value(const uint8_t* row, int64_t d) {
    return V::template load<Type>(row + d * kSize);
  }
  static MINFER_INLINE float value_at(const uint8_t* row, int64_t d) {
    float x;
    if constexpr (Type == MINFER_TYPE_F32) {
      __builtin_memcpy(&x, row + d * 4, 4);
    } else {
      uint16_t h;
      __builtin_memcpy(&h, row + d * 2, 2);
      x = _cvtsh_ss(h);
    }
    return x;
  }

  static void store_k(const float* k, int64_t dim, uint8_t* block, int64_t lane) {
    uint8_t* to = block + lane * kSize;
    for (int64_t d = 0; d < dim; ++d) put(k[d], to + d * kKvLanes * kSize);
  }
  static void store_v(const float* v, int64_t dim, uint8_t* row) {
    int64_t d = 0;
    for (; d + V::kLanes <= dim; d += V::kLanes) {
      const typename V::Type x = V::load(v + d);
      if constexpr (Type == MINFER_TYPE_F32) {
        V::store(reinterpret_cast<float*>(row) + d, x);
      } else {
        V::store_halves(row + d * kSize, x);
      }
    }
    for (; d < dim; ++d) put(v[d], row + d * kSize);
  }

 private:
  static MINFER_INLINE void put(float x, uint8_t* to) {
    if constexpr (Type == MINFER_TYPE_F32) {
      __builtin_memcpy(to, &x, 4);
    } else {
      const uint16_t h = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
      __builtin_memcpy(to, &h, 2);
    }
  }
};

template <class V>
struct Q8Kv {
  static constexpr int64_t kRun = 32;
  // 32 dimensions of 16 tokens: 16 scales, then the values.
  static constexpr int64_t kKeyRun = kKvLanes * 2 + kRun * kKvLanes;
  static constexpr int64_t kValueRun = 2 + kRun;

  static int64_t k_bytes(int64_t dim) { return dim / kRun * kKeyRun; }
  static int64_t v_bytes(int64_t dim) { return dim / kRun * kValueRun; }

  static MINFER_INLINE typename V::Type key_scale(const uint8_t* block, int64_t d, int part) {
    return V::template load<MINFER_TYPE_F16>(block + d / kRun * kKeyRun + 2 * part * V::kLanes);
  }
  static MINFER_INLINE typename V::Type key(const uint8_t* block, int64_t d, int part,
                                            typename V::Type scale) {
    const uint8_t* values = block + d / kRun * kKeyRun + kKvLanes * 2;
    return V::mul(scale, V::load_int8(values + d % kRun * kKvLanes + part * V::kLanes));
  }
  static MINFER_INLINE typename V::Type value(const uint8_t* row, int64_t d) {
    const uint8_t* run = row + d / kRun * kValueRun;
    uint16_t scale;
    __builtin_memcpy(&scale, run, 2);
    return V::mul(V::set(_cvtsh_ss(scale)), V::load_int8(run + 2 + d % kRun));
  }
  static MINFER_INLINE float value_at(const uint8_t* row, int64_t d) {
    const uint8_t* run = row + d / kRun * kValueRun;
    uint16_t scale;
    __builtin_memcpy(&scale, run, 2);
    return _cvtsh_ss(scale) * static_cast<float>(static_cast<int8_t>(run[2 + d % kRun]));
  }

  static void store_k(const float* k, int64_t dim, uint8_t* block, int64_t lane) {
    for (int64_t d = 0; d < dim; d += kRun, block += kKeyRun) {
      int8_t q[kRun];
      const uint16_t scale = quantise(k + d, q);
      __builtin_memcpy(block + 2 * lane, &scale, 2);
      for (int i = 0; i < kRun; ++i) {
        block[kKvLanes * 2 + i * kKvLanes + lane] = static_cast<uint8_t>(q[i]);
      }
    }
  }
  static void store_v(const float* v, int64_t dim, uint8_t* row) {
    for (int64_t d = 0; d < dim; d += kRun, row += kValueRun) {
      const uint16_t scale = quantise(v + d, reinterpret_cast<int8_t*>(row + 2));
      __builtin_memcpy(row, &scale, 2);
    }
  }

 private:
  // Halves are rounded away from zero; returns the scale as f16 bits.
  static MINFER_INLINE uint16_t quantise(const float* x, int8_t* q) {
    typename V::Type largest = V::zero();
    for (int i = 0; i < kRun; i += V::kLanes) largest = V::max(V::abs(V::load(x + i)), largest);
    const float peak = V::largest(largest);
    const typename V::Type inverse = V::set(peak > 0.0f ? 127.0f / peak : 0.0f);
    for (int i = 0; i < kRun; i += V::kLanes) {
      const typename V::Type y = V::mul(V::load(x + i), inverse);
      const typename V::Type whole = V::truncate(y);
      const typename V::Type up = V::add(whole, V::copy_sign(V::set(1.0f), y));
      const typename V::Type rest = V::abs(V::sub(y, whole));
      V::store_int8(q + i, V::if_less(rest, V::set(0.5f), whole, up));
    }
    return _cvtss_sh(peak / 127.0f, _MM_FROUND_TO_NEAREST_INT);
  }
};

// ---- scores -----------------------------------------------------------------------------------

// NQ queries against NB blocks of 16 tokens.
template <class V, class Kv, int NQ, int NB>
void score_tile(const float* q, int64_t q_stride, const uint8_t* k, int64_t dim, float* out,
                int64_t out_stride) {
  constexpr int kParts = static_cast<int>(kKvLanes) / V::kLanes;
  constexpr int kColumns = NB * kParts;
  const int64_t block_bytes = Kv::k_bytes(dim);
  typename V::Type acc[NQ][kColumns];
  unroll<NQ>([&](auto i) { unroll<kColumns>([&](auto c) { acc[i][c] = V::zero(); }); });
  for (int64_t d0 = 0; d0 < dim; d0 += Kv::kRun) {
    typename V::Type scale[kColumns];
    unroll<kColumns>(
        [&](auto c) { scale[c] = Kv::key_scale(k + c / kParts * block_bytes, d0, c % kParts); });
    for (int64_t d = d0; d < d0 + Kv::kRun; ++d) {
      typename V::Type key[kColumns];
      unroll<kColumns>(
          [&](auto c) { key[c] = Kv::key(k + c / kParts * block_bytes, d, c % kParts, scale[c]); });
      unroll<NQ>([&](auto i) {
        const typename V::Type x = V::set(q[i * q_stride + d]);
        unroll<kColumns>([&](auto c) { acc[i][c] = V::fma(x, key[c], acc[i][c]); });
      });
    }
  }
  unroll<NQ>([&](auto i) {
    unroll<kColumns>([&](auto c) { V::store(out + i * out_stride + c * V::kLanes, acc[i][c]); });
  });
}

// NQ queries against all blocks; few queries take more blocks at a time, so that there are enough
// independent sums.
template <class V, class Kv, int NQ>
void score_queries(const float* q, int64_t q_stride, const uint8_t* k, int64_t n_blocks,
                   int64_t dim, float* out, int64_t out_stride) {
  constexpr int kBlocks = NQ <= 2 ? 4 : 2;
  const int64_t block_bytes = Kv::k_bytes(dim);
  int64_t b = 0;
  for (; b + kBlocks <= n_blocks; b += kBlocks) {
    score_tile<V, Kv, NQ, kBlocks>(q, q_stride, k + b * block_bytes, dim, out + b * kKvLanes,
                                   out_stride);
  }
  for (; b < n_blocks; ++b) {
    score_tile<V, Kv, NQ, 1>(q, q_stride, k + b * block_bytes, dim, out + b * kKvLanes, out_stride);
  }
}

// ---- values -----------------------------------------------------------------------------------

// NQ queries, ND registers of dimensions from d on.
template <class V, class Kv, int NQ, int ND>
MINFER_INLINE void value_tile(const float* p, int64_t p_stride, const uint8_t* v, int64_t nk,
                              int64_t row_bytes, int64_t d, float* acc, int64_t acc_stride) {
  typename V::Type sum[NQ][ND];
  unroll<NQ>([&](auto i) {
    unroll<ND>([&](auto c) { sum[i][c] = V::load(acc + i * acc_stride + d + c * V::kLanes); });
  });
  for (int64_t j = 0; j < nk; ++j) {
    typename V::Type value[ND];
    unroll<ND>([&](auto c) { value[c] = Kv::value(v + j * row_bytes, d + c * V::kLanes); });
    unroll<NQ>([&](auto i) {
      const typename V::Type weight = V::set(p[i * p_stride + j]);
      unroll<ND>([&](auto c) { sum[i][c] = V::fma(weight, value[c], sum[i][c]); });
    });
  }
  unroll<NQ>([&](auto i) {
    unroll<ND>([&](auto c) { V::store(acc + i * acc_stride + d + c * V::kLanes, sum[i][c]); });
  });
}

template <class V, class Kv, int NQ>
void value_queries(const float* p, int64_t p_stride, const uint8_t* v, int64_t nk, int64_t dim,
                   float* acc, int64_t acc_stride) {
  constexpr int kRegisters = 4;
  const int64_t row_bytes = Kv::v_bytes(dim);
  int64_t d = 0;
  for (; d + kRegisters * V::kLanes <= dim; d += kRegisters * V::kLanes) {
    value_tile<V, Kv, NQ, kRegisters>(p, p_stride, v, nk, row_bytes, d, acc, acc_stride);
  }
  for (; d + V::kLanes <= dim; d += V::kLanes) {
    value_tile<V, Kv, NQ, 1>(p, p_stride, v, nk, row_bytes, d, acc, acc_stride);
  }
  for (; d < dim; ++d) {
    for (int i = 0; i < NQ; ++i) {
      float sum = acc[i * acc_stride + d];
      for (int64_t j = 0; j < nk; ++j) {
        sum += p[i * p_stride + j] * Kv::value_at(v + j * row_bytes, d);
      }
      acc[i * acc_stride + d] = sum;
    }
  }
}

// ---- the table's functions --------------------------------------------------------------------

// Calls f(Int<n>, first) for shares of at most Max that add up to `total`, as equal as can be: 7
// with Max 6 are 4 and 3, so that no share is left with a single one.
template <int Max, class F>
MINFER_INLINE void equal_shares(int64_t total, const F& f) {
  for (int64_t first = 0; first < total;) {
    const int64_t left = total - first;
    const int64_t shares = (left + Max - 1) / Max;
    const int64_t n = (left + shares - 1) / shares;
    unroll<Max>([&](auto i) {
      if (n == i.value + 1) f(Int<i.value + 1>(), first);
    });
    first += n;
  }
}

template <class V, class Kv>
void scores(const float* q, int64_t q_stride, int64_t nq, const uint8_t* k, int64_t n_blocks,
            int64_t dim, float* out, int64_t out_stride) {
  equal_shares<V::kMaxQueries>(nq, [&](auto n, int64_t first) {
    score_queries<V, Kv, n.value>(q + first * q_stride, q_stride, k, n_blocks, dim,
                                  out + first * out_stride, out_stride);
  });
}

template <class V, class Kv>
void values(const float* p, int64_t p_stride, int64_t nq, const uint8_t* v, int64_t nk, int64_t dim,
            float* acc, int64_t acc_stride) {
  equal_shares<V::kMaxQueries>(nq, [&](auto n, int64_t first) {
    value_queries<V, Kv, n.value>(p + first * p_stride, p_stride, v, nk, dim,
                                  acc + first * acc_stride, acc_stride);
  });
}

template <class V, class Kv>
void use_kv(KvOps& ops) {
  ops.store_k = Kv::store_k;
  ops.store_v = Kv::store_v;
  ops.scores = scores<V, Kv>;
  ops.values = values<V, Kv>;
}

/// The scalar table's loads (they are for copies and tests), all else from here.
template <class V>
void use_kv_ops(VecOps& ops) {
  use_kv<V, PlainKv<V, MINFER_TYPE_F32>>(ops.kv[kKvF32]);
  use_kv<V, PlainKv<V, MINFER_TYPE_F16>>(ops.kv[kKvF16]);
  use_kv<V, Q8Kv<V>>(ops.kv[kKvQ8]);
}

}  // namespace
}  // namespace minfer_cpu
