// Matmul kernels of f32, f16 and bf16 weights, which are read as the file has them. Written once
// over a vector type; included by avx2.cpp and avx512.cpp, each with its own instructions, hence
// all in an anonymous namespace (see unroll.h).
//
// A vector V of V::kLanes floats has: zero, load (f32, or Half/Brain bits widened), fma,
// add-reduce. 4 rows meet V::kTokens tokens in registers, k along the lanes; each weight register
// serves all tokens and each activation register all rows. With many tokens, columns are taken in
// stretches and rows in chunks so that the chunk's weights stay in the L2 cache while all tokens
// pass.
#pragma once

#include <cstdint>

#include "kernels/unroll.h"
#include "matmul.h"
#include "minfer/plugin_abi.h"

namespace minfer_cpu {
namespace {

constexpr int kFloatRows = 4;
constexpr int64_t kFloatStretch = 512;    // columns
constexpr int64_t kFloatChunk = 64;       // rows
constexpr int64_t kFloatPrefetch = 2048;  // bytes ahead in each row, with few tokens

constexpr int float_bytes(uint32_t type) {
  return type == MINFER_TYPE_F32 ? 4 : 2;
}

// The last, partial vector of a row: the first `n` of kLanes elements of `bytes` bytes.
template <class V, uint32_t Type>
typename V::Type load_partial(const uint8_t* p, int64_t n) {
  alignas(64) uint8_t padded[V::kLanes * 4] = {};
  __builtin_memcpy(padded, p, static_cast<uint64_t>(n) * float_bytes(Type));
  return V::template load<Type>(padded);
}

struct FloatCall {
  const uint8_t* weights;
  const float* x;
  int64_t id;
  int64_t nt;
  const float* bias;
  float* out;
  int64_t out_stride;
};

// Columns [k0, k1) of R rows from `row` and NT tokens from t0. k0 = 0 sets outputs, others add.
template <class V, uint32_t Type, int R, int NT>
void float_tile(const FloatCall& c, int64_t row, int64_t t0, int64_t k0, int64_t k1) {
  constexpr int kSize = float_bytes(Type);
  const uint8_t* w = c.weights + row * c.id * kSize;
  const float* x = c.x + t0 * c.id;
  typename V::Type acc[R][NT];
  unroll<R>([&](auto r) { unroll<NT>([&](auto t) { acc[r][t] = V::zero(); }); });
  int64_t k = k0;
  for (; k + V::kLanes <= k1; k += V::kLanes) {
    if constexpr (NT == 1) {
      for (int r = 0; r < R; ++r) V::prefetch(w + (r * c.id + k) * kSize + kFloatPrefetch);
    }
    typename V::Type xs[NT];
    unroll<NT>([&](auto t) { xs[t] = V::template load<MINFER_TYPE_F32>(x + t * c.id + k); });
    unroll<R>([&](auto r) {
      const typename V::Type ws = V::template load<Type>(w + (r * c.id + k) * kSize);
      unroll<NT>([&](auto t) { acc[r][t] = V::fma(ws, xs[t], acc[r][t]); });
    });
  }
  if (k < k1) {
    unroll<NT>([&](auto t) {
      const typename V::Type xs = load_partial<V, MINFER_TYPE_F32>(
          reinterpret_cast<const uint8_t*>(x + t * c.id + k), k1 - k);
      unroll<R>([&](auto r) {
        acc[r][t] =
            V::fma(load_partial<V, Type>(w + (r * c.id + k) * kSize, k1 - k), xs, acc[r][t]);
      });
    });
  }
  unroll<R>([&](auto r) {
    unroll<NT>([&](auto t) {
      float& o = c.out[(t0 + t) * c.out_stride + row + r];
      const float before = k0 != 0 ? o : c.bias != nullptr ? c.bias[row + r] : 0.0f;
      o = before + V::sum(acc[r][t]);
    });
  });
}

// All tokens, for R rows.
template <class V, uint32_t Type, int R, int NT = V::kTokens>
void float_tokens(const FloatCall& c, int64_t row, int64_t t0, int64_t k0, int64_t k1) {
  for (; t0 + NT <= c.nt; t0 += NT) float_tile<V, Type, R, NT>(c, row, t0, k0, k1);
  if constexpr (NT > 1) {
    if (t0 < c.nt) float_tokens<V, Type, R, NT / 2>(c, row, t0, k0, k1);
  }
}

template <class V, uint32_t Type>
void run_float(const uint8_t* packed, int64_t id, int64_t, const uint8_t* activation, int64_t nt,
               int64_t row0, int64_t row1, const float* bias, float* out, int64_t out_stride,
               uint8_t*) {
  const FloatCall call = {packed,    reinterpret_cast<const float*>(activation), id, nt, bias, out,
                          out_stride};
  const bool many = nt > V::kTokens;
  const int64_t stretch = many ? kFloatStretch : id;
  const int64_t chunk = many ? kFloatChunk : row1 - row0;
  for (int64_t k0 = 0; k0 < id; k0 += stretch) {
    const int64_t k1 = id - k0 < stretch ? id : k0 + stretch;
    for (int64_t c0 = row0; c0 < row1; c0 += chunk) {
      const int64_t c1 = row1 - c0 < chunk ? row1 : c0 + chunk;
      for (int64_t t0 = 0; t0 < nt; t0 += V::kTokens) {
        FloatCall tile = call;
        tile.nt = nt - t0 < V::kTokens ? nt : t0 + V::kTokens;
        int64_t row = c0;
        for (; row + kFloatRows <= c1; row += kFloatRows) {
          float_tokens<V, Type, kFloatRows>(tile, row, t0, k0, k1);
        }
        for (; row < c1; ++row) float_tokens<V, Type, 1>(tile, row, t0, k0, k1);
      }
    }
  }
}

bool fits_float(int64_t id, int64_t) {
  return id > 0;
}

template <uint32_t Type>
uint64_t float_packed_bytes(int64_t id, int64_t od) {
  return static_cast<uint64_t>(id * od) * float_bytes(Type);
}

template <class V, uint32_t Type>
void unpack_float_row(const uint8_t* packed, int64_t id, int64_t, int64_t row, float* out) {
  const uint8_t* w = packed + row * id * float_bytes(Type);
  int64_t k = 0;
  for (; k + V::kLanes <= id; k += V::kLanes) {
    V::store(out + k, V::template load<Type>(w + k * float_bytes(Type)));
  }
  if (k < id) {
    alignas(64) float last[V::kLanes];
    V::store(last, load_partial<V, Type>(w + k * float_bytes(Type), id - k));
    for (int64_t i = 0; k + i < id; ++i) out[k + i] = last[i];
  }
}

uint64_t float_activation_bytes(int64_t id, int64_t nt) {
  return static_cast<uint64_t>(id * nt) * sizeof(float);
}

void copy_activations(const float* x, int64_t stride, int64_t id, int64_t, int64_t t0, int64_t t1,
                      uint8_t* out) {
  float* rows = reinterpret_cast<float*>(out);
  for (int64_t t = t0; t < t1; ++t) {
    __builtin_memcpy(rows + t * id, x + t * stride, static_cast<uint64_t>(id) * sizeof(float));
  }
}

uint64_t no_scratch(int64_t, int64_t) {
  return 0;
}

template <class V, uint32_t Type>
constexpr MatmulKernel float_kernel(const char* label) {
  return {label,
          Type,
          ActFormat::kF32,
          kFloatRows,
          fits_float,
          float_packed_bytes<Type>,
          nullptr,
          unpack_float_row<V, Type>,
          float_activation_bytes,
          copy_activations,
          run_float<V, Type>,
          no_scratch};
}

}  // namespace
}  // namespace minfer_cpu
