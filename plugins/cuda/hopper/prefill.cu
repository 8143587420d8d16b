// Prefill: the persistent wgmma kernel (see prefill.h) and its launcher.
//
// 12 warps a block: three producer warps (activations by tensor copies; the weights of consumer
// warpgroup 0, of 1, by bulk copies) and two consumer warpgroups of 64 rows each, which share the
// activation tile. Stages of 64 elements along k go round a ring; a full barrier per stage collects
// the producers' bytes, an empty barrier the consumers' eight warps. While one stage multiplies,
// the next one's fragments are dequantised.
#include <algorithm>

#include "../kernels/gate_fn.cuh"
#include "prefill.h"
#include "prefill_schedule.h"
#include "prefill_weights.cuh"
#include "tensor_map.h"
#include "wgmma.cuh"

namespace minfer_cuda::hopper {
namespace {

constexpr int kTileRows128 = 128;
constexpr int kTokenTileGroup = 4;  ///< token tiles that share a weight tile in a row, for the L2

struct Segment {
  const uint8_t* weight;
  const float* bias;
  const float* residual;
  float* out;
  int64_t residual_stride, out_stride;
  int32_t od;
  int32_t first_tile;  ///< of row tiles
};

struct Params {
  Segment segments[kMaxPrefillSegments];
  Schedule schedule;
  int32_t n_segments;
  int32_t row_tiles, token_tiles, tokens, id;
  const float* x_scale;
  float x_factor;
  GateFn gate_fn;
  __half* half_out;
  const int32_t* valid;
  float* workspace;
  uint32_t* flags;
  uint32_t overlap;
  Patterns patterns;
};

/// Places in dynamic shared memory, from a 1024-byte boundary.
template <uint32_t Type, int Tokens, int Stages>
struct Layout {
  using Shape = WeightShape<Type>;
  static constexpr uint32_t kSlots = (Stages + Shape::kSlotStages - 1) / Shape::kSlotStages;
  static constexpr uint32_t kHeads = (Stages + Shape::kUnitStages - 1) / Shape::kUnitStages;
  static constexpr uint32_t kX = Tokens * 128;
  static constexpr uint32_t kSlotAt = Stages * kX;
  static constexpr uint32_t kHeadAt = kSlotAt + kSlots * 4 * Shape::kSlotBytes;
  static constexpr uint32_t kBarrierAt = (kHeadAt + kHeads * 4 * Shape::kHeadBytes + 15) / 16 * 16;
  static constexpr uint32_t kTotal = kBarrierAt + Stages * 16 + 1024;
};

#ifdef MINFER_SM90A

/// Row and token tile of a tile: token tiles in groups, so that a weight tile is read once per
/// group.
__device__ __forceinline__ void split_tile(const Params& p, int tile, int& row_tile,
                                           int& token_tile) {
  const int per_group = kTokenTileGroup * p.row_tiles, group = tile / per_group;
  const int rest = tile - group * per_group;
  const int width = min(kTokenTileGroup, p.token_tiles - group * kTokenTileGroup);
  row_tile = rest / width;
  token_tile = group * kTokenTileGroup + rest - row_tile * width;
}

__device__ __forceinline__ const Segment& find_segment(const Params& p, int& row_tile) {
  int s = 0;
  while (s + 1 < p.n_segments && row_tile >= p.segments[s + 1].first_tile) ++s;
  row_tile -= p.segments[s].first_tile;
  return p.segments[s];
}

/// Start of a row group; groups past the end are read as the last one, their results are not
/// written.
__device__ __forceinline__ const uint8_t* group_at(const Segment& s, int group, size_t row_bytes) {
  const int last = (s.od + 31) / 32 - 1;
  return s.weight + static_cast<size_t>(min(group, last)) * row_bytes;
}

template <uint32_t Type, int Tokens, int Stages>
struct Producer {
  using L = Layout<Type, Tokens, Stages>;
  using Shape = WeightShape<Type>;
  const Params& p;
  uint32_t base, full, empty;

  __device__ __forceinline__ void activations(const CUtensorMap* map, int block) const {
    Ring<Stages> ring(1);
    Walk walk(p.schedule, block);
    Piece piece;
    while (walk.next(piece)) {
      int row_tile, token_tile;
      split_tile(p, piece.tile, row_tile, token_tile);
      int x = piece.begin * static_cast<int>(Shape::kUnitStages) * 64;
      for (int n = (piece.end - piece.begin) * static_cast<int>(Shape::kUnitStages); n > 0; --n) {
        barrier_wait(empty + 8 * ring.at, ring.parity);
        barrier_expect(full + 8 * ring.at, L::kX);
        tensor_copy_2d(base + ring.at * L::kX, map, full + 8 * ring.at, x, token_tile * Tokens);
        x += 64;
        ring.advance();
      }
    }
  }

  /// The slot of one row group at stage q of a unit.
  static __device__ __forceinline__ void copy_slot(uint32_t to, const uint8_t* unit, int q,
                                                   uint32_t barrier) {
    if constexpr (Type == MINFER_TYPE_Q4_K) {
      bulk_copy(to, unit + 512 + q * 1024, 1024, barrier);
    } else if constexpr (Type == MINFER_TYPE_Q6_K) {
      bulk_copy(to, unit + q * 1024, 2048, barrier);
      bulk_copy(to + 2048, unit + 4096 + q * 512, 1024, barrier);
    } else {
      bulk_copy(to, unit + q * Shape::kSlotBytes, Shape::kSlotBytes, barrier);
    }
  }
  static __device__ __forceinline__ void copy_head(uint32_t to, const uint8_t* unit,
                                                   uint32_t barrier) {
    constexpr uint32_t kFrom = Type == MINFER_TYPE_Q6_K ? 6144 : 0;
    bulk_copy(to, unit + kFrom, Shape::kHeadBytes, barrier);
  }

  template <bool Gated>
  __device__ __forceinline__ void weights(int block, int warpgroup) const {
    const int units = p.schedule.units;
    const size_t row_bytes = static_cast<size_t>(units) * Shape::kUnitBytes;
    Ring<Stages> ring(1);
    uint32_t slot = 0, head = 0;
    Walk walk(p.schedule, block);
    Piece piece;
    while (walk.next(piece)) {
      int row_tile, token_tile;
      split_tile(p, piece.tile, row_tile, token_tile);
      const uint8_t *a, *b;
      if constexpr (Gated) {
        a = group_at(p.segments[0], row_tile * 2 + warpgroup, row_bytes);
        b = group_at(p.segments[1], row_tile * 2 + warpgroup, row_bytes);
      } else {
        const Segment& s = find_segment(p, row_tile);
        a = group_at(s, row_tile * 4 + warpgroup * 2, row_bytes);
        b = group_at(s, row_tile * 4 + warpgroup * 2 + 1, row_bytes);
      }
      a += static_cast<size_t>(piece.begin) * Shape::kUnitBytes;
      b += static_cast<size_t>(piece.begin) * Shape::kUnitBytes;
      for (int n = piece.end - piece.begin; n > 0; --n) {
#pragma unroll
        for (int q = 0; q < static_cast<int>(Shape::kUnitStages); ++q) {
          const uint32_t barrier = full + 8 * ring.at;
          const bool first = q == 0 && Shape::kHeadBytes > 0;
          const bool fills = q % Shape::kSlotStages == 0;
          barrier_wait(empty + 8 * ring.at, ring.parity);
          barrier_expect(barrier,
                         (fills ? 2 * Shape::kSlotBytes : 0) + (first ? 2 * Shape::kHeadBytes : 0));
          if (first) {
            const uint32_t to = base + L::kHeadAt + (head * 4 + warpgroup * 2) * Shape::kHeadBytes;
            copy_head(to, a, barrier);
            copy_head(to + Shape::kHeadBytes, b, barrier);
            if (++head == L::kHeads) head = 0;
          }
          if (fills) {
            const uint32_t to = base + L::kSlotAt + (slot * 4 + warpgroup * 2) * Shape::kSlotBytes;
            copy_slot(to, a, q, barrier);
            copy_slot(to + Shape::kSlotBytes, b, q, barrier);
            if (++slot == L::kSlots) slot = 0;
          }
          ring.advance();
        }
        a += Shape::kUnitBytes;
        b += Shape::kUnitBytes;
      }
    }
  }
};

/// Rows of a thread's fragment. Plain: rows of one group, the second a partner such that the lanes'
/// rows g = 0..7 use all banks. Gated: the same row of a gate and an up group, ordered so that
/// after a transposition neighbouring lanes' pairs are neighbours in fragment order.
template <bool Gated>
__device__ __forceinline__ FragmentRows fragment_rows(int warp, int lane) {
  const uint32_t g = lane >> 2, word = (lane & 3) * 4;
  if constexpr (Gated) {
    const uint32_t row = warp * 8 + (g & 4) + ((g & 1) << 1) + ((g >> 1) & 1);
    return {0, row, 1, row, word};
  } else {
    const uint32_t t = g >> 1, row = (warp & 1) * 16 + 4 * t + 2 * (t >> 1) + (g & 1);
    const uint32_t group = warp >> 1;
    return {group, row, group, row ^ 2, word};
  }
}

template <uint32_t Type, int Tokens, int Stages, bool Gated>
struct Consumer {
  using L = Layout<Type, Tokens, Stages>;
  using W = Weights<Type>;
  using Shape = WeightShape<Type>;
  const Params& p;
  uint32_t base, full, empty;
  int warpgroup, thread;

  __device__ __forceinline__ int lane() const { return thread & 31; }
  __device__ __forceinline__ int warp() const { return thread >> 5; }

  __device__ __forceinline__ void release(int stage) const {
    if (lane() == 0) barrier_arrive(empty + 8 * stage);
  }

  template <int Q>
  __device__ __forceinline__ void dequantise(const typename W::Head& head,
                                             const typename W::Slot& slot, int u,
                                             uint32_t (&f)[8]) const {
    W::template fragments<Q>(head, slot, u, p.patterns, f);
  }

  __device__ __forceinline__ void run(int block) {
    const FragmentRows rows = fragment_rows<Gated>(warp(), lane());
    const uint32_t slots = base + L::kSlotAt + warpgroup * 2 * Shape::kSlotBytes;
    const uint32_t heads = base + L::kHeadAt + warpgroup * 2 * Shape::kHeadBytes;
    // Tile of 128-byte rows, 128-byte swizzle, eight rows 1024 bytes apart.
    const uint64_t tile = static_cast<uint64_t>((base & 0x3ffff) >> 4) | (uint64_t{1} << 16) |
                          (uint64_t{64} << 32) | (uint64_t{1} << 62);
    float acc[Tokens / 2];
    Ring<Stages> ring(0);
    uint32_t slot_at = 0, head_at = 0;
    int previous = -1;
    Walk walk(p.schedule, block);
    Piece piece;
    while (walk.next(piece)) {
      int keep = 0;
      for (int unit = piece.begin; unit < piece.end; ++unit) {
        typename W::Head head;
        typename W::Slot slot;
        uint32_t fragments[2][8];
#pragma unroll
        for (int q = 0; q < static_cast<int>(Shape::kUnitStages); ++q) {
          barrier_wait(full + 8 * ring.at, ring.parity);
          if (q == 0 && Shape::kHeadBytes > 0) {
            W::load_head(head, heads + head_at * 4 * Shape::kHeadBytes, rows);
            if (++head_at == L::kHeads) head_at = 0;
          }
          if (q % Shape::kSlotStages == 0) {
            W::load_slot(slot, slots + slot_at * 4 * Shape::kSlotBytes, rows);
            if (++slot_at == L::kSlots) slot_at = 0;
          }
          const uint64_t x = tile + static_cast<uint64_t>(ring.at) * (L::kX >> 4);
#pragma unroll
          for (int u = 0; u < 2; ++u) {
            uint32_t(&f)[8] = fragments[u];
            switch (q) {
              case 0:
                dequantise<0>(head, slot, u, f);
                break;
              case 1:
                dequantise<1>(head, slot, u, f);
                break;
              case 2:
                dequantise<2>(head, slot, u, f);
                break;
              default:
                dequantise<3>(head, slot, u, f);
            }
            wgmma_fence();
            wgmma(acc, f, x + u * 2, keep);
            keep = 1;
            wgmma(acc, f + 4, x + u * 2 + 4, 1);
            wgmma_commit();
            wgmma_wait<1>();
            if (u == 0 && previous >= 0) release(previous);
          }
          previous = ring.at;
          ring.advance();
        }
      }
      wgmma_wait<0>();
      wgmma_results(acc);
      if (previous >= 0) release(previous);
      previous = -1;
      if (piece.slot >= 0) {
        hand_over(piece.slot, acc);
        continue;
      }
      for (int i = 0; i < piece.parts; ++i) add_part(piece.tile * p.schedule.max_parts + i, acc);
      int row_tile, token_tile;
      split_tile(p, piece.tile, row_tile, token_tile);
      if constexpr (Gated) {
        write_gated(row_tile, token_tile, acc);
      } else {
        write_plain(rows, row_tile, token_tile, acc);
      }
    }
  }

  __device__ __forceinline__ float4* part(int slot) const {
    return reinterpret_cast<float4*>(p.workspace) +
           static_cast<size_t>(slot * 2 + warpgroup) * (Tokens / 8) * 128 + thread;
  }

  __device__ __forceinline__ void hand_over(int slot, const float (&acc)[Tokens / 2]) const {
    float4* to = part(slot);
#pragma unroll
    for (int i = 0; i < Tokens / 8; ++i) {
      __stcg(to + i * 128, make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]));
    }
    __threadfence();
    named_barrier(1 + warpgroup, 128);
    if (thread == 0) {
      asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p.flags + slot * 2 + warpgroup),
                   "r"(1u)
                   : "memory");
    }
  }

  __device__ __forceinline__ void add_part(int slot, float (&acc)[Tokens / 2]) const {
    if (thread == 0) {
      uint32_t* flag = p.flags + slot * 2 + warpgroup;
      uint32_t v;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
      } while (v == 0);
      *flag = 0;  // nobody else reads it; the next launch finds it clear
    }
    named_barrier(1 + warpgroup, 128);
    const float4* from = part(slot);
#pragma unroll
    for (int i = 0; i < Tokens / 8; ++i) {
      const float4 v = __ldcg(from + i * 128);
      acc[4 * i] += v.x, acc[4 * i + 1] += v.y, acc[4 * i + 2] += v.z, acc[4 * i + 3] += v.w;
    }
  }

  /// Multiplies the sums by their tokens' scales; padding tokens become zero. Every lane loads a
  /// token in 32, and passes it on.
  __device__ __forceinline__ void scale(float (&acc)[Tokens / 2], int token_tile, int valid) const {
    float s[(Tokens + 31) / 32];
#pragma unroll
    for (int i = 0; i < (Tokens + 31) / 32; ++i) {
      const int token = token_tile * Tokens + i * 32 + lane();
      s[i] = token < valid ? p.x_factor : 0.f;
      if (p.x_scale && token < valid) s[i] *= __ldcg(p.x_scale + token);
    }
#pragma unroll
    for (int j = 0; j < Tokens / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float v = __shfl_sync(~0u, s[j / 4], (j % 4) * 8 + (lane() & 3) * 2 + e);
        acc[4 * j + e] *= v;
        acc[4 * j + 2 + e] *= v;
      }
    }
  }

  /// Adds the residual. Loads go ahead in batches, and addresses outside are moved inside, so that
  /// no branch or store comes between them.
  __device__ __forceinline__ void add_residual(const Segment& s, int r0, int r1, int token0,
                                               float (&acc)[Tokens / 2]) const {
    constexpr int kBatch = Tokens == 256 ? 2 : Tokens >= 32 ? 4 : Tokens / 8;
    const float* column0 = s.residual + min(r0, s.od - 1);
    const float* column1 = s.residual + min(r1, s.od - 1);
#pragma unroll
    for (int base = 0; base < Tokens / 8; base += kBatch) {
      float v[kBatch * 4];
#pragma unroll
      for (int i = 0; i < kBatch * 2; ++i) {
        const int token = token0 + (base + i / 2) * 8 + i % 2;
        const int64_t at = min(token, p.tokens - 1) * s.residual_stride;
        v[2 * i] = __ldcg(column0 + at);
        v[2 * i + 1] = __ldcg(column1 + at);
      }
#pragma unroll
      for (int i = 0; i < kBatch * 2; ++i) {
        acc[4 * (base + i / 2) + i % 2] += v[2 * i];
        acc[4 * (base + i / 2) + 2 + i % 2] += v[2 * i + 1];
      }
    }
  }

  __device__ __forceinline__ void write_plain(const FragmentRows& rows, int row_tile,
                                              int token_tile, float (&acc)[Tokens / 2]) const {
    const Segment& s = find_segment(p, row_tile);
    const int valid = valid_of(p.valid, p.tokens);
    const int row = row_tile * 128 + warpgroup * 64 + static_cast<int>(rows.first_group) * 32;
    const int r0 = row + static_cast<int>(rows.first_row);
    const int r1 = row + static_cast<int>(rows.second_row);
    const bool real0 = r0 < s.od, real1 = r1 < s.od;
    const int token0 = token_tile * Tokens + (lane() & 3) * 2;
    scale(acc, token_tile, valid);
    if (s.bias) {
      const float b0 = real0 ? s.bias[r0] : 0.f, b1 = real1 ? s.bias[r1] : 0.f;
#pragma unroll
      for (int i = 0; i < Tokens / 2; ++i) acc[i] += i & 2 ? b1 : b0;
    }
    if (s.residual) add_residual(s, r0, r1, token0, acc);
#pragma unroll
    for (int j = 0; j < Tokens / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int token = token0 + j * 8 + e;
        if (token >= p.tokens) continue;
        float* to = s.out + token * s.out_stride;
        if (real0) to[r0] = token < valid ? acc[4 * j + e] : 0.f;
        if (real1) to[r1] = token < valid ? acc[4 * j + 2 + e] : 0.f;
      }
    }
  }

  static __device__ __forceinline__ float saturated(float v) {
    v *= 1.f / kGatedScale;
    return fminf(fmaxf(v, -65504.f), 65504.f);
  }

  /// fn(gate) * up in place of gate.
  template <class F>
  static __device__ __forceinline__ void apply_gate(float (&acc)[Tokens / 2], float bias_gate,
                                                    float bias_up, F fn) {
#pragma unroll
    for (int j = 0; j < Tokens / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        acc[4 * j + e] = saturated(fn(acc[4 * j + e] + bias_gate) * (acc[4 * j + 2 + e] + bias_up));
      }
    }
  }

  __device__ __forceinline__ void write_gated(int row_tile, int token_tile,
                                              float (&acc)[Tokens / 2]) const {
    const int valid = valid_of(p.valid, p.tokens), od = p.segments[0].od;
    const int group_row = row_tile * 64 + warpgroup * 32 + warp() * 8;
    const int g = lane() >> 2, t = lane() & 3;
    const int row = group_row + (g & 4) + ((g & 1) << 1) + ((g >> 1) & 1);
    const float* gate_bias = p.segments[0].bias;
    const float* up_bias = p.segments[1].bias;
    const float bg = gate_bias && row < od ? gate_bias[row] : 0.f;
    const float bu = up_bias && row < od ? up_bias[row] : 0.f;
    const int token0 = token_tile * Tokens + t * 2;
    scale(acc, token_tile, valid);
    if (p.gate_fn == GateFn::kSilu) {
      apply_gate(acc, bg, bu, [](float v) { return __fdividef(v, 1.f + __expf(-v)); });
    } else {
      apply_gate(acc, bg, bu, [fn = p.gate_fn](float v) { return gate_value(fn, v); });
    }
    // After the transposition this lane holds rows k and k + 2 of token g: two neighbours.
    const int position = group_row / 16 * 16 + (warp() & 1) * 4 + (t >> 1) * 2 + (t & 1) * 8;
#pragma unroll
    for (int j = 0; j < Tokens / 8; ++j) {
      const int token = token0 + j * 8;
      const float v0 = token < valid ? acc[4 * j] : 0.f;
      const float v1 = token + 1 < valid ? acc[4 * j + 1] : 0.f;
      const uint32_t pair = transpose_8x8(bits_of(__floats2half2_rn(v0, v1)));
      const int to = token_tile * Tokens + j * 8 + g;
      if (to < p.tokens && group_row < od) {
        *reinterpret_cast<uint32_t*>(p.half_out + static_cast<size_t>(to) * od + position) = pair;
      }
    }
  }
};

#endif  // MINFER_SM90A

template <uint32_t Type, int Tokens, int Stages, bool Gated>
__global__ void __launch_bounds__(384, 1)
    prefill_kernel(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ Params p) {
#ifdef MINFER_SM90A
  using L = Layout<Type, Tokens, Stages>;
  extern __shared__ uint8_t shared[];
  const uint32_t base = (shared_address(shared) + 1023u) & ~1023u;
  const uint32_t full = base + L::kBarrierAt, empty = full + Stages * 8;
  const int warp = threadIdx.x >> 5;
  // Blocks start in order: whoever waits for parts must have a higher index than their makers.
  const int block = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&x_map) : "memory");
    for (int i = 0; i < Stages; ++i) {
      barrier_init(full + 8 * i, 3);
      barrier_init(empty + 8 * i, 8);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (p.overlap) allow_dependents();

  if (warp < 4) {
    lower_registers<40>();
    if (warp < 3 && (threadIdx.x & 31) == 0) {
      const Producer<Type, Tokens, Stages> producer{p, base, full, empty};
      if (warp == 0) {
        if (p.overlap) wait_for_predecessors();
        producer.activations(&x_map, block);
      } else {
        producer.template weights<Gated>(block, warp - 1);
      }
    }
  } else {
    raise_registers<232>();
    if (p.overlap) wait_for_predecessors();
    Consumer<Type, Tokens, Stages, Gated> consumer{
        p, base, full, empty, warp / 4 - 1, static_cast<int>(threadIdx.x & 127)};
    consumer.run(block);
  }
#endif
}

using Kernel = void (*)(CUtensorMap, Params);
struct Variant {
  Kernel kernel;
  uint32_t shared;
};

template <uint32_t Type, int Tokens, int Stages>
Variant variant(bool gated) {
  const Kernel kernel = gated ? prefill_kernel<Type, Tokens, Stages, true>
                              : prefill_kernel<Type, Tokens, Stages, false>;
  static_assert(Layout<Type, Tokens, Stages>::kTotal <= 227 * 1024);
  return {kernel, Layout<Type, Tokens, Stages>::kTotal};
}

Variant find_variant(uint32_t type, int tokens, bool gated) {
#define MINFER_VARIANTS(T, S256)           \
  switch (tokens) {                        \
    case 16:                               \
      return variant<T, 16, 16>(gated);    \
    case 32:                               \
      return variant<T, 32, 16>(gated);    \
    case 64:                               \
      return variant<T, 64, 12>(gated);    \
    case 128:                              \
      return variant<T, 128, 8>(gated);    \
    default:                               \
      return variant<T, 256, S256>(gated); \
  }
  switch (type) {
    case MINFER_TYPE_Q4_K:
      MINFER_VARIANTS(MINFER_TYPE_Q4_K, 6)
    case MINFER_TYPE_Q6_K:
      MINFER_VARIANTS(MINFER_TYPE_Q6_K, 5)
    default:
      MINFER_VARIANTS(MINFER_TYPE_Q8_0, 5)
  }
#undef MINFER_VARIANTS
}

int unit_k(uint32_t type) {
  return type == MINFER_TYPE_Q8_0 ? 128 : 256;
}

struct Choice {
  int tile_tokens = 0;
  int row_tiles = 0;
  Schedule schedule;
};

/// The token tile and schedule for a launch: tiles as wide as the tokens, or where several would
/// do, the one with the least estimated time.
Choice choose(uint32_t type, int id, int tokens, const int32_t* od, int n, bool gated, int sms) {
  Choice best;
  double best_cost = 0;
  int row_tiles = 0;
  for (int i = 0; i < (gated ? 1 : n); ++i) {
    row_tiles += (od[i] + (gated ? 63 : 127)) / (gated ? 64 : 128);
  }
  const int units = id / unit_k(type);
  const bool wide_x = int64_t{tokens} * id * 2 > 30'000'000;
  // Relative time of a unit: bounded by weights and dequantising below 128 tokens.
  constexpr struct {
    int tokens;
    double cost;
  } kWidths[] = {{16, 0.30}, {32, 0.32}, {64, 0.38}, {128, 0.54}, {256, 1.0}};
  for (const auto& w : kWidths) {
    const int token_tiles = (tokens + w.tokens - 1) / w.tokens;
    if (w.tokens < 128 && token_tiles > 1) continue;
    const Schedule s = make_schedule(row_tiles * token_tiles, units, sms, wide_x);
    if (static_cast<uint64_t>(s.cut) * s.max_parts * 8 > kPrefillFlagBytes) continue;
    const double cost = s.cost * w.cost;
    if (best.tile_tokens == 0 || cost < best_cost) {
      best = {w.tokens, row_tiles, s};
      best_cost = cost;
    }
    if (w.tokens >= tokens) break;
  }
  return best;
}

cudaError_t encode_x(const PrefillCall& call, int tile_tokens, CUtensorMap& map) {
  const uint64_t dims[2] = {static_cast<uint64_t>(call.id), static_cast<uint64_t>(call.tokens)};
  const uint64_t strides[1] = {static_cast<uint64_t>(call.id) * 2};
  const uint32_t box[2] = {64, static_cast<uint32_t>(tile_tokens)};
  return encode_half_map(map, call.x, 2, dims, strides, box);
}

}  // namespace

bool prefill_fits(uint32_t type, int64_t id, int64_t od) {
  if (type != MINFER_TYPE_Q4_K && type != MINFER_TYPE_Q6_K && type != MINFER_TYPE_Q8_0) {
    return false;
  }
  return id > 0 && od > 0 && id % unit_k(type) == 0;
}

uint64_t prefill_workspace_bytes(uint32_t type, int id, int tokens, const int32_t* od, int n,
                                 bool gated, int sms) {
  const Choice c = choose(type, id, tokens, od, n, gated, sms);
  return static_cast<uint64_t>(c.schedule.cut) * c.schedule.max_parts * c.tile_tokens *
         kTileRows128 * 4;
}

cudaError_t launch_prefill(const PrefillCall& call, int sms, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  Params p{};
  int32_t od[kMaxPrefillSegments];
  p.n_segments = call.n_segments;
  int tiles = 0;
  for (int i = 0; i < call.n_segments; ++i) {
    const PrefillSegment& s = call.segments[i];
    od[i] = s.od;
    if (!prefill_fits(call.type, call.id, s.od)) return cudaErrorInvalidValue;
    p.segments[i] = {s.weight,          s.bias,       s.residual, s.out,
                     s.residual_stride, s.out_stride, s.od,       tiles};
    tiles += (s.od + 127) / 128;
  }
  if (call.gated && (call.n_segments != 2 || od[0] != od[1] || od[0] % 32 != 0)) {
    return cudaErrorInvalidValue;
  }
  const Choice choice =
      choose(call.type, call.id, call.tokens, od, call.n_segments, call.gated, sms);
  p.schedule = choice.schedule;
  p.row_tiles = choice.row_tiles;
  p.token_tiles = (call.tokens + choice.tile_tokens - 1) / choice.tile_tokens;
  p.tokens = call.tokens;
  p.id = call.id;
  p.x_scale = call.x_scale;
  p.x_factor = call.x_factor;
  p.gate_fn = call.gate_fn;
  p.half_out = reinterpret_cast<__half*>(call.half_out);
  p.valid = call.valid;
  p.workspace = call.workspace;
  p.flags = call.flags;
  p.overlap = call.overlap;

  CUtensorMap map;
  cudaError_t error = encode_x(call, choice.tile_tokens, map);
  if (error != cudaSuccess) return error;
  const Variant v = find_variant(call.type, choice.tile_tokens, call.gated);
  error = cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(v.shared));
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(choice.schedule.blocks));
  config.blockDim = dim3(384);
  config.dynamicSmemBytes = v.shared;
  config.stream = stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = call.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, v.kernel, map, p);
}

}  // namespace minfer_cuda::hopper
