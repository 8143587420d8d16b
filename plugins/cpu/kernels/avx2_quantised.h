// Matmul kernels of quantised weights for AVX2: 8 rows per register, vpmaddubsw on weights and
// broadcast activations. Included by avx2.cpp only (see avx2_decode.h).
//
// Few tokens read packed panels directly; from kExpandTokens on, a stretch of columns of one panel
// is decoded once into a buffer in the L1 cache, and read from there by tile after tile of 4
// tokens.
#pragma once

#include "kernels/act_block.h"
#include "kernels/avx2_decode.h"
#include "matmul.h"

namespace minfer_cpu {
namespace {

constexpr int kTileTokens = 4;
constexpr int kExpandTokens = 12;
constexpr int kStretch = 16;              // blocks expanded at a time; a multiple of kGroup
constexpr int64_t kActCache = 512 << 10;  // bytes of activations that stay in the L2 cache

MINFER_INLINE __m256i broadcast_word(const ActBlock& a, int word) {
  int32_t w;
  __builtin_memcpy(&w, a.q + 4 * word, 4);
  return _mm256_set1_epi32(w);
}

// Adds the product of group G of block b with NT tokens to acc, for 8 rows.
template <PanelFormat F, int NT, int G, class Rows>
MINFER_INLINE void multiply_group(const Rows& rows, int64_t b, int half, const ActBlock* act,
                                  int64_t act_stride, __m256 (&acc)[NT]) {
  using A = Arithmetic<F>;
  constexpr int kWords = 8 / F.groups;
  constexpr int kRun = A::kWordsIn16Bits < kWords ? A::kWordsIn16Bits : kWords;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i dot[NT], products[NT];
  unroll<kWords>([&](auto j) {
    constexpr int kWord = G * kWords + j.value;
    const __m256i w = rows.template word<kWord>(b, half);
    const __m256i magnitude = A::kSigned ? _mm256_abs_epi8(w) : w;
    unroll<NT>([&](auto t) {
      __m256i x = broadcast_word(act[t * act_stride], kWord);
      if constexpr (A::kSigned) x = _mm256_sign_epi8(x, w);
      const __m256i p = _mm256_maddubs_epi16(magnitude, x);
      products[t] = j.value % kRun == 0 ? p : _mm256_add_epi16(products[t], p);
      if constexpr (j.value % kRun == kRun - 1) {
        const __m256i sum = _mm256_madd_epi16(products[t], ones);
        dot[t] = j.value < kRun ? sum : _mm256_add_epi32(dot[t], sum);
      }
    });
  });
  const RowScales s = rows.template scales<G>(b, half);
  unroll<NT>([&](auto t) {
    const ActBlock& a = act[t * act_stride];
    const float sum = F.groups == 2 ? a.sum_half[G] : a.sum;
    const __m256 scale = _mm256_broadcast_ss(&a.scale);
    __m256 x;
    if constexpr (A::kCentre != 0) {
      x = _mm256_fmsub_ps(_mm256_cvtepi32_ps(dot[t]), scale,
                          _mm256_set1_ps(sum * static_cast<float>(A::kCentre)));
    } else {
      x = _mm256_mul_ps(_mm256_cvtepi32_ps(dot[t]), scale);
    }
    acc[t] = _mm256_fmadd_ps(x, s.scale, acc[t]);
    if constexpr (F.has_bias) acc[t] = _mm256_fmadd_ps(s.bias, _mm256_set1_ps(sum), acc[t]);
  });
}

// Where 16 rows of outputs go, and what they start from.
struct Target {
  float* out;
  int64_t stride;
  const float* bias;
  int64_t rows;  // valid ones, 16 or fewer
  bool first;    // set to bias (or 0) plus the sum; otherwise add to out
};

// Stores 8 rows of one token.
MINFER_INLINE void store_half(__m256 sum, int half, float* out, const Target& to) {
  const int64_t left = to.rows - kHalfRows * half;
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(left)),
                                          _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  float* o = out + kHalfRows * half;
  if (!to.first) {
    sum = _mm256_add_ps(sum, _mm256_maskload_ps(o, mask));
  } else if (to.bias != nullptr) {
    sum = _mm256_add_ps(sum, _mm256_maskload_ps(to.bias + kHalfRows * half, mask));
  }
  _mm256_maskstore_ps(o, mask, sum);
}

// 16 rows, n blocks, NT tokens.
template <PanelFormat F, int NT, class Rows>
void multiply(Rows rows, int64_t n, const ActBlock* act, int64_t act_stride, const Target& to,
              int64_t t0) {
  __m256 acc[2][NT];
  unroll<NT>([&](auto t) { acc[0][t] = acc[1][t] = _mm256_setzero_ps(); });
  for (int64_t b0 = 0; b0 < n; b0 += kGroup) {
    rows.group(b0);
    const int64_t left = n - b0 < kGroup ? n - b0 : kGroup;
    for (int64_t b = 0; b < left; ++b) {
      unroll<2>([&](auto half) {
        unroll<F.groups>([&](auto g) {
          multiply_group<F, NT, g.value>(rows, b, half, act + b0 + b, act_stride, acc[half]);
        });
      });
    }
  }
  float* out = to.out + t0 * to.stride;
  unroll<NT>([&](auto t) {
    store_half(acc[0][t], 0, out + t * to.stride, to);
    store_half(acc[1][t], 1, out + t * to.stride, to);
  });
}

// All tokens, in tiles.
template <PanelFormat F, class Rows>
void multiply_tokens(const Rows& rows, int64_t n, const ActBlock* act, int64_t act_stride,
                     int64_t nt, const Target& to) {
  using Multiply = void (*)(Rows, int64_t, const ActBlock*, int64_t, const Target&, int64_t);
  static constexpr Multiply kMultiply[kTileTokens] = {multiply<F, 1, Rows>, multiply<F, 2, Rows>,
                                                      multiply<F, 3, Rows>, multiply<F, 4, Rows>};
  for (int64_t t = 0; t < nt; t += kTileTokens) {
    const int64_t left = nt - t < kTileTokens ? nt - t : kTileTokens;
    kMultiply[left - 1](rows, n, act + t * act_stride, act_stride, to, t);
  }
}

// Blocks [b0, b0 + n) of a panel; b0 is a multiple of kGroup.
template <PanelFormat F>
void expand(const uint8_t* panel, int64_t blocks, int64_t b0, int64_t n, ExpandedBlock<F>* out) {
  PackedRows<F> rows(panel, blocks);
  for (int64_t b = 0; b < n; ++b) {
    if (b % kGroup == 0) rows.group(b0 + b);
    for (int half = 0; half < 2; ++half) {
      unroll<8>([&](auto j) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(out[b].words[j][half]),
                           rows.template word<j.value>(b % kGroup, half));
      });
      unroll<F.groups>([&](auto g) {
        const RowScales s = rows.template scales<g.value>(b % kGroup, half);
        _mm256_store_ps(out[b].scale[g][half], s.scale);
        if constexpr (F.has_bias) _mm256_store_ps(out[b].bias[g][half], s.bias);
      });
    }
  }
}

template <PanelFormat F>
void run(const uint8_t* packed, int64_t id, int64_t, const uint8_t* activation, int64_t nt,
         int64_t row0, int64_t row1, const float* bias, float* out, int64_t out_stride,
         uint8_t* scratch) {
  const ActBlock* act = reinterpret_cast<const ActBlock*>(activation);
  const int64_t blocks = id / kBlock;
  const int64_t stride = (blocks * group_bytes(F) / kGroup + 63) / 64 * 64;
  ExpandedBlock<F>* expanded = reinterpret_cast<ExpandedBlock<F>*>(scratch);
  int64_t step = blocks;  // columns that all rows pass before the next ones
  if (nt >= kExpandTokens) {
    step = kActCache / (nt * static_cast<int64_t>(sizeof(ActBlock))) / kStretch * kStretch;
    if (step < kStretch) step = kStretch;
  }
  for (int64_t c0 = 0; c0 < blocks; c0 += step) {
    const int64_t c1 = blocks - c0 < step ? blocks : c0 + step;
    for (int64_t row = row0; row < row1; row += kPanelRows) {
      const uint8_t* panel = packed + row / kPanelRows * stride;
      Target to = {out + row, out_stride, bias != nullptr ? bias + row : nullptr, row1 - row, true};
      if (nt < kExpandTokens) {
        multiply_tokens<F>(PackedRows<F>(panel, blocks), blocks, act, blocks, nt, to);
        continue;
      }
      for (int64_t b = c0; b < c1; b += kStretch) {
        const int64_t n = c1 - b < kStretch ? c1 - b : kStretch;
        to.first = b == 0;
        expand<F>(panel, blocks, b, n, expanded);
        multiply_tokens<F>(ExpandedRows<F>(expanded), n, act + b, blocks, nt, to);
      }
    }
  }
}

template <PanelFormat F>
uint64_t scratch_bytes(int64_t, int64_t nt) {
  return nt < kExpandTokens ? 0 : kStretch * sizeof(ExpandedBlock<F>);
}

// ---- activations ------------------------------------------------------------------------------

MINFER_INLINE float reduce_max(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

MINFER_INLINE int32_t reduce_add(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

void convert_block(const float* x, ActBlock* out) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 v[4], largest = _mm256_setzero_ps(), unordered = _mm256_setzero_ps();
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    largest = _mm256_max_ps(largest, _mm256_andnot_ps(sign, v[i]));
    // A NaN may be lost in the maximum; it must not be lost in the result.
    unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(v[i], v[i], _CMP_UNORD_Q));
  }
  const ActScale s = act_scale(reduce_max(largest), _mm256_movemask_ps(unordered) != 0);
  const __m256 inverse = _mm256_set1_ps(s.inverse);
  __m256i q[4];
  for (int i = 0; i < 4; ++i) {
    q[i] =
        _mm256_min_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse)), _mm256_set1_epi32(127));
  }
  // Packing works within 128-bit lanes; the permutation puts the groups of four back in order.
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out->q),
                     _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  fill_act_block(s.scale, reduce_add(_mm256_add_epi32(q[0], q[1])),
                 reduce_add(_mm256_add_epi32(q[2], q[3])), out);
}

uint64_t activation_bytes(int64_t id, int64_t nt) {
  return static_cast<uint64_t>(id / kBlock * nt) * sizeof(ActBlock);
}

void convert(const float* x, int64_t stride, int64_t id, int64_t, int64_t t0, int64_t t1,
             uint8_t* out) {
  const int64_t blocks = id / kBlock;
  ActBlock* rows = reinterpret_cast<ActBlock*>(out);
  for (int64_t t = t0; t < t1; ++t) {
    for (int64_t b = 0; b < blocks; ++b) {
      convert_block(x + t * stride + b * kBlock, rows + t * blocks + b);
    }
  }
}

template <uint32_t Type>
constexpr MatmulKernel panel_kernel(const char* label) {
  constexpr PanelFormat f = panel_format(Type);
  return {label,
          Type,
          ActFormat::kQ8Block32,
          kPanelRows,
          Panel<Type>::fits,
          Panel<Type>::packed_bytes,
          Panel<Type>::pack,
          Panel<Type>::unpack_row,
          activation_bytes,
          convert,
          run<f>,
          scratch_bytes<f>};
}

}  // namespace
}  // namespace minfer_cpu
