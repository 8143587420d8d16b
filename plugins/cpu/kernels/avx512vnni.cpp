// Matmul kernels of quantised weights for AVX-512 with VNNI: 16 rows per register, vpdpbusd on
// unsigned weights and broadcast activations.
//
// Two paths read the same panels:
//  - a few tokens: each block is decoded into 8 registers and multiplied with up to 8 tokens, so
//    that weights are read once. With one token this is bound by memory.
//  - many tokens: 32 rows at a time, a stretch of columns is expanded into bytes and f32 scales
//    that stay in the L1 cache, and multiplied with tiles of 6 tokens (12 independent sums hide
//    the latency of vpdpbusd; every broadcast serves two registers of rows). Per 16 rows x 32
//    columns x 1 token: 8 vpdpbusd and 2 fused multiply-adds (3 with a bias, 4 with scales per 16
//    columns).
//
// Thread-safe: pure functions. Everything here is static (see panel.h).
#include "kernels/act_block.h"
#include "kernels/avx512vnni_decode.h"
#include "kernels/panel.h"
#include "matmul_list.h"

namespace minfer_cpu {
namespace {

constexpr int kFewTokens = 8;      // tokens of the direct path's largest kernel
constexpr int kDirectTokens = 15;  // up to here the direct path is the faster one
constexpr int kTileTokens = 6;
constexpr int kTilePanels = 2;
constexpr int kStretch = 16;  // blocks of columns expanded at a time; a multiple of kGroup
constexpr int64_t kActCache = 1 << 20;  // bytes of activations that stay in the L2 cache
// The direct path fetches its stream into the L2 cache this many bytes ahead, so that memory has
// time to answer, and from there into L1 shortly before use.
constexpr int kPrefetchL2 = 16384;
constexpr int kPrefetchL1 = 1024;

MINFER_INLINE __m512i broadcast_word(const ActBlock& a, int word) {
  int32_t w;
  __builtin_memcpy(&w, a.q + 4 * word, 4);
  return _mm512_set1_epi32(w);
}

// All that the arithmetic on decoded weights depends on.
template <int Groups, bool HasBias>
struct TileShape {
  static constexpr int kGroups = Groups;
  static constexpr bool kHasBias = HasBias;
};
template <PanelFormat F>
using ShapeOf = TileShape<F.groups, F.has_bias>;

// Where the dot product of group G of a block starts. A bias needs no correction for w + 128.
template <class Shape, int G>
MINFER_INLINE __m512i start_of(const ActBlock& a) {
  if constexpr (Shape::kHasBias) return _mm512_set1_epi32(kMagicBits);
  return _mm512_set1_epi32(Shape::kGroups == 2 ? a.start_half[G] : a.start);
}

template <class Shape, int G>
MINFER_INLINE float sum_of(const ActBlock& a) {
  return Shape::kGroups == 2 ? a.sum_half[G] : a.sum;
}

// acc + scale of the activations * scale of the rows * dot (see ActBlock).
MINFER_INLINE __m512 fold(__m512 acc, __m512i dot, const ActBlock& a, __m512 scale) {
  const __m512 x = _mm512_fmadd_ps(_mm512_castsi512_ps(dot), _mm512_set1_ps(a.scale),
                                   _mm512_set1_ps(a.minus_magic));
  return _mm512_fmadd_ps(x, scale, acc);
}

MINFER_INLINE __mmask16 row_mask(int64_t rows) {
  return static_cast<__mmask16>(rows >= kPanelRows ? 0xffff : (1 << rows) - 1);
}

// ---- a few tokens -----------------------------------------------------------------------------

template <PanelFormat F, int NT>
void direct_panel(const uint8_t* panel, int64_t blocks, const ActBlock* act, __mmask16 mask,
                  const float* bias, float* out, int64_t out_stride) {
  using D = Decoder<F>;
  constexpr int kWords = 8 / F.groups;
  constexpr int kStream = group_bytes(F) / kGroup;  // bytes of a block with its share of the scales
  __m512 acc[NT];
  for (int t = 0; t < NT; ++t) acc[t] = _mm512_setzero_ps();
  for (int64_t b0 = 0; b0 < blocks; b0 += kGroup) {
    const GroupView<F> group = group_view<F>(panel, blocks, b0);
    const typename D::Factors factors = D::factors(group.scales);
    for (int64_t b = 0; b < group.blocks; ++b) {
      const uint8_t* here = group.scales + b * kStream;
      for (int i = 0; i < kStream; i += 64) {
        _mm_prefetch(here + kPrefetchL2 + i, _MM_HINT_T1);
        _mm_prefetch(here + kPrefetchL1 + i, _MM_HINT_T0);
      }
      const typename D::Weights w = D::weights(group.planes + b * plane_bytes(F));
      const typename D::Scales s = D::block_scales(factors, group.scales, b);
      unroll<NT>([&](auto t) {
        const ActBlock& a = act[t * blocks + b0 + b];
        unroll<F.groups>([&](auto g) {
          __m512i dot = start_of<ShapeOf<F>, g.value>(a);
          unroll<kWords>([&](auto j) {
            dot =
                _mm512_dpbusd_epi32(dot, w.word[g * kWords + j], broadcast_word(a, g * kWords + j));
          });
          acc[t] = fold(acc[t], dot, a, s.scale[g]);
          if constexpr (F.has_bias) {
            acc[t] =
                _mm512_fmadd_ps(s.bias[g], _mm512_set1_ps(sum_of<ShapeOf<F>, g.value>(a)), acc[t]);
          }
        });
      });
    }
  }
  const __m512 b = bias != nullptr ? _mm512_maskz_loadu_ps(mask, bias) : _mm512_setzero_ps();
  unroll<NT>([&](auto t) {
    _mm512_mask_storeu_ps(out + t * out_stride, mask,
                          _mm512_fmadd_ps(acc[t], _mm512_set1_ps(D::kOutFactor), b));
  });
}

template <PanelFormat F>
void run_direct(const uint8_t* packed, int64_t blocks, const ActBlock* act, int64_t nt,
                int64_t row0, int64_t row1, const float* bias, float* out, int64_t out_stride) {
  using Kernel =
      void (*)(const uint8_t*, int64_t, const ActBlock*, __mmask16, const float*, float*, int64_t);
  static constexpr Kernel kKernels[kFewTokens] = {
      direct_panel<F, 1>, direct_panel<F, 2>, direct_panel<F, 3>, direct_panel<F, 4>,
      direct_panel<F, 5>, direct_panel<F, 6>, direct_panel<F, 7>, direct_panel<F, 8>};
  const int64_t stride = panel_bytes<F>(blocks);
  for (int64_t row = row0; row < row1; row += kPanelRows) {
    for (int64_t t = 0; t < nt;) {
      // Equal shares: 9 tokens are 5 + 4, not 8 + 1.
      const int64_t passes = (nt - t + kFewTokens - 1) / kFewTokens;
      const int64_t n = (nt - t + passes - 1) / passes;
      kKernels[n - 1](packed + row / kPanelRows * stride, blocks, act + t * blocks,
                      row_mask(row1 - row), bias != nullptr ? bias + row : nullptr,
                      out + t * out_stride + row, out_stride);
      t += n;
    }
  }
}

// ---- many tokens ------------------------------------------------------------------------------

// A block of kPanels panels, ready to multiply: all that is left of a format is its Shape.
template <class Shape, int kPanels>
struct Expanded {
  uint8_t words[8][kPanels][64];
  float scale[Shape::kGroups][kPanels][kPanelRows];
  float bias[Shape::kHasBias ? Shape::kGroups : 0][kPanels][kPanelRows];
};

// Expands blocks [b0, b0 + n) of adjacent panels. The scales take the factor of finished outputs.
template <PanelFormat F, int kPanels>
void expand(const uint8_t* panels, int64_t stride, int64_t blocks, int64_t b0, int64_t n,
            Expanded<ShapeOf<F>, kPanels>* out) {
  using D = Decoder<F>;
  constexpr int kStream = group_bytes(F) / kGroup;
  for (int p = 0; p < kPanels; ++p) {
    for (int64_t g0 = 0; g0 < n; g0 += kGroup) {
      const GroupView<F> group = group_view<F>(panels + p * stride, blocks, b0 + g0);
      const typename D::Factors factors = D::factors(group.scales);
      for (int64_t b = 0; b < group.blocks; ++b) {
        // The next pair of panels, for the next call.
        const uint8_t* ahead = group.scales + b * kStream + kPanels * stride;
        for (int i = 0; i < kStream; i += 64) _mm_prefetch(ahead + i, _MM_HINT_T1);
        Expanded<ShapeOf<F>, kPanels>& e = out[g0 + b];
        const typename D::Weights w = D::weights(group.planes + b * plane_bytes(F));
        const typename D::Scales s = D::block_scales(factors, group.scales, b);
        unroll<8>([&](auto j) { _mm512_store_si512(e.words[j][p], w.word[j]); });
        unroll<F.groups>([&](auto g) {
          _mm512_store_ps(e.scale[g][p], _mm512_mul_ps(s.scale[g], _mm512_set1_ps(D::kOutFactor)));
          if constexpr (F.has_bias) _mm512_store_ps(e.bias[g][p], s.bias[g]);
        });
      }
    }
  }
}

// Where the outputs of a tile go, and what they start from.
template <int kPanels>
struct Target {
  float* out;
  int64_t stride;
  const float* bias;
  bool first;  // the first columns: set to bias (or 0) plus the sum; later ones add to out
  __mmask16 mask[kPanels];
};

// The product of n expanded blocks and NT tokens.
template <class Shape, int kPanels, int NT>
void tile(const Expanded<Shape, kPanels>* w, int64_t n, const ActBlock* act, int64_t act_stride,
          const Target<kPanels>& to, int64_t t0) {
  constexpr int kWords = 8 / Shape::kGroups;
  float* out = to.out + t0 * to.stride;
  __m512 acc[NT][kPanels];
  unroll<NT>([&](auto t) { unroll<kPanels>([&](auto p) { acc[t][p] = _mm512_setzero_ps(); }); });
  for (int t = 0; t < NT; ++t) {
    for (int p = 0; p < kPanels; ++p) __builtin_prefetch(out + t * to.stride + p * kPanelRows, 1);
  }
  for (int64_t b = 0; b < n; ++b) {
    unroll<Shape::kGroups>([&](auto g) {
      __m512i dot[NT][kPanels];
      unroll<NT>([&](auto t) {
        const __m512i start = start_of<Shape, g.value>(act[t * act_stride + b]);
        unroll<kPanels>([&](auto p) { dot[t][p] = start; });
      });
      unroll<kWords>([&](auto j) {
        __m512i word[kPanels];
        unroll<kPanels>(
            [&](auto p) { word[p] = _mm512_load_si512(w[b].words[g * kWords + j][p]); });
        unroll<NT>([&](auto t) {
          const __m512i x = broadcast_word(act[t * act_stride + b], g * kWords + j);
          unroll<kPanels>([&](auto p) { dot[t][p] = _mm512_dpbusd_epi32(dot[t][p], word[p], x); });
        });
      });
      unroll<NT>([&](auto t) {
        const ActBlock& a = act[t * act_stride + b];
        unroll<kPanels>([&](auto p) {
          acc[t][p] = fold(acc[t][p], dot[t][p], a, _mm512_load_ps(w[b].scale[g][p]));
          if constexpr (Shape::kHasBias) {
            acc[t][p] = _mm512_fmadd_ps(_mm512_load_ps(w[b].bias[g][p]),
                                        _mm512_set1_ps(sum_of<Shape, g.value>(a)), acc[t][p]);
          }
        });
      });
    });
  }
  unroll<NT>([&](auto t) {
    unroll<kPanels>([&](auto p) {
      float* o = out + t * to.stride + p * kPanelRows;
      __m512 before = _mm512_setzero_ps();
      if (!to.first) {
        before = _mm512_maskz_loadu_ps(to.mask[p], o);
      } else if (to.bias != nullptr) {
        before = _mm512_maskz_loadu_ps(to.mask[p], to.bias + p * kPanelRows);
      }
      _mm512_mask_storeu_ps(o, to.mask[p], _mm512_add_ps(before, acc[t][p]));
    });
  });
}

// All tokens, in tiles.
template <class Shape, int kPanels>
void run_tiles(const Expanded<Shape, kPanels>* w, int64_t n, const ActBlock* act,
               int64_t act_stride, int64_t nt, const Target<kPanels>& to) {
  using Tile = void (*)(const Expanded<Shape, kPanels>*, int64_t, const ActBlock*, int64_t,
                        const Target<kPanels>&, int64_t);
  static constexpr Tile kTiles[kTileTokens] = {tile<Shape, kPanels, 1>, tile<Shape, kPanels, 2>,
                                               tile<Shape, kPanels, 3>, tile<Shape, kPanels, 4>,
                                               tile<Shape, kPanels, 5>, tile<Shape, kPanels, 6>};
  for (int64_t t = 0; t < nt; t += kTileTokens) {
    const int64_t left = nt - t < kTileTokens ? nt - t : kTileTokens;
    kTiles[left - 1](w, n, act + t * act_stride, act_stride, to, t);
  }
}

// What the tiled path needs to know of a call.
struct TiledCall {
  const uint8_t* packed;
  int64_t blocks;
  const ActBlock* act;
  int64_t nt;
  int64_t row1;
  const float* bias;
  float* out;
  int64_t out_stride;
  uint8_t* scratch;
};

// kPanels panels from `row` on times all tokens, for the columns of blocks [b0, b1).
template <PanelFormat F, int kPanels>
void run_panels(const TiledCall& c, int64_t row, int64_t b0, int64_t b1) {
  using Shape = ShapeOf<F>;
  const int64_t stride = panel_bytes<F>(c.blocks);
  Expanded<Shape, kPanels>* expanded = reinterpret_cast<Expanded<Shape, kPanels>*>(c.scratch);
  Target<kPanels> to;
  to.out = c.out + row;
  to.stride = c.out_stride;
  to.bias = c.bias != nullptr ? c.bias + row : nullptr;
  for (int p = 0; p < kPanels; ++p) to.mask[p] = row_mask(c.row1 - row - p * kPanelRows);
  for (int64_t b = b0; b < b1; b += kStretch) {
    const int64_t n = b1 - b < kStretch ? b1 - b : kStretch;
    to.first = b == 0;
    expand<F, kPanels>(c.packed + row / kPanelRows * stride, stride, c.blocks, b, n, expanded);
    run_tiles<Shape, kPanels>(expanded, n, c.act + b, c.blocks, c.nt, to);
  }
}

// Columns outermost, as many as the L2 cache holds activations of while all rows pass.
template <PanelFormat F>
void run_tiled(const TiledCall& c, int64_t row0) {
  int64_t step = kActCache / (c.nt * static_cast<int64_t>(sizeof(ActBlock))) / kStretch * kStretch;
  if (step < kStretch) step = kStretch;
  for (int64_t b0 = 0; b0 < c.blocks; b0 += step) {
    const int64_t b1 = c.blocks - b0 < step ? c.blocks : b0 + step;
    for (int64_t row = row0; row < c.row1; row += kTilePanels * kPanelRows) {
      if (c.row1 - row > kPanelRows) {
        run_panels<F, kTilePanels>(c, row, b0, b1);
      } else {
        run_panels<F, 1>(c, row, b0, b1);
      }
    }
  }
}

// ---- activations ------------------------------------------------------------------------------

void convert_block(const float* x, ActBlock* out) {
  const __m512 lo = _mm512_loadu_ps(x), hi = _mm512_loadu_ps(x + 16);
  const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(lo), _mm512_abs_ps(hi)));
  // A NaN may be lost in the maximum; it must not be lost in the result.
  const ActScale s = act_scale(largest, _mm512_cmp_ps_mask(lo, hi, _CMP_UNORD_Q) != 0);
  const __m512 inverse = _mm512_set1_ps(s.inverse);
  const __m512i limit = _mm512_set1_epi32(127);
  const __m512i qlo = _mm512_min_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(lo, inverse)), limit);
  const __m512i qhi = _mm512_min_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(hi, inverse)), limit);
  _mm_store_si128(reinterpret_cast<__m128i*>(out->q), _mm512_cvtsepi32_epi8(qlo));
  _mm_store_si128(reinterpret_cast<__m128i*>(out->q + 16), _mm512_cvtsepi32_epi8(qhi));
  fill_act_block(s.scale, _mm512_reduce_add_epi32(qlo), _mm512_reduce_add_epi32(qhi), out);
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

// ---- the table --------------------------------------------------------------------------------

template <PanelFormat F>
void run(const uint8_t* packed, int64_t id, int64_t, const uint8_t* activation, int64_t nt,
         int64_t row0, int64_t row1, const float* bias, float* out, int64_t out_stride,
         uint8_t* scratch) {
  const ActBlock* act = reinterpret_cast<const ActBlock*>(activation);
  if (nt <= kDirectTokens) {
    run_direct<F>(packed, id / kBlock, act, nt, row0, row1, bias, out, out_stride);
  } else {
    run_tiled<F>({packed, id / kBlock, act, nt, row1, bias, out, out_stride, scratch}, row0);
  }
}

template <PanelFormat F>
uint64_t scratch_bytes(int64_t, int64_t nt) {
  return nt <= kDirectTokens ? 0 : kStretch * sizeof(Expanded<ShapeOf<F>, kTilePanels>);
}

template <uint32_t Type>
constexpr MatmulKernel kernel(const char* label) {
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

constexpr MatmulKernel kKernels[] = {
    kernel<MINFER_TYPE_Q8_0>("q8_0_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q4_K>("q4_k_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q6_K>("q6_k_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q4_1>("q4_1_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q4_0>("q4_0_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q5_K>("q5_k_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q5_0>("q5_0_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q5_1>("q5_1_r16/avx512vnni"),
    kernel<MINFER_TYPE_IQ4_NL>("iq4_nl_r16/avx512vnni"),
    kernel<MINFER_TYPE_IQ4_XS>("iq4_xs_r16/avx512vnni"),
    kernel<MINFER_TYPE_MXFP4>("mxfp4_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q2_K>("q2_k_r16/avx512vnni"),
    kernel<MINFER_TYPE_Q3_K>("q3_k_r16/avx512vnni"),
};

}  // namespace

KernelList matmul_kernels_avx512vnni() {
  return {kKernels, static_cast<uint32_t>(sizeof kKernels / sizeof kKernels[0])};
}

}  // namespace minfer_cpu
