// Hopper prefill attention: the kernel (see attention.h).
//
// 12 warps a block. Two consumer warpgroups hold 64 query rows each; of the third warpgroup one
// warp plans items (which rows, which positions they see), one brings K and V tiles into a ring. A
// consumer keeps the sums and the online softmax in registers, and starts the product Q K^T of the
// next tile together with P V of this one, so that the softmax runs while the tensor cores do.
// Named barriers let the warpgroups issue in turns: one multiplies while the other exponentiates.
#include <algorithm>
#include <climits>

#include "../kernels/overlap.cuh"
#include "attention.h"
#include "attention_rows.cuh"
#include "minfer/plugin_abi.h"
#include "tensor_map.h"
#include "wgmma.cuh"

namespace minfer_cuda::hopper {
namespace {

constexpr int kThreads = 384;

#ifdef MINFER_SM90A

__device__ __forceinline__ void join_named_barrier(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Tile of 128-byte rows, 128-byte swizzle, eight rows 1024 bytes apart; `leading` only where the
/// other dimension is contiguous: bytes from one 64 of it to the next.
__device__ __forceinline__ uint64_t describe(uint32_t address, uint32_t leading) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) |
         (static_cast<uint64_t>(leading >> 4) << 16) | (uint64_t{64} << 32) | (uint64_t{1} << 62);
}

template <int D>
struct Consumer {
  using L = Layout<D>;
  using Sums = typename Rows<D>::Sums;
  static constexpr int kKeys = L::kKeys;
  const AttentionParams& p;
  const Barriers<D>& barriers;
  uint32_t base;
  float scale;  ///< of the queries; brings scores that are not capped to units of log2
  Rows<D> rows;

  Ring<L::kStages> k_ring{0}, v_ring{0};

  __device__ __forceinline__ int lane() const { return rows.lane(); }
  __device__ __forceinline__ int warp() const { return rows.thread >> 5; }
  __device__ __forceinline__ void release(uint32_t barrier) const {
    if (lane() == 0) barrier_arrive(barrier);
  }

  /// This warp's 16 rows of Q, scaled, as f16 in shared memory; rows behind the item's are zeros.
  __device__ __forceinline__ void load_queries(const Item& item) const {
    constexpr int kUnits = D / 4;  // of four floats
    constexpr int kLoads = 16 * kUnits / 32, kBatch = kLoads > 16 ? 16 : kLoads;
    const int first = rows.warpgroup * 64 + warp() * 16, own = item.row0 + first + (lane() & 15);
    const char* own_row = p.call.q +
                          (item.kv_head * rows.group + own % rows.group) * p.call.q_nb_head +
                          int64_t{item.first_token + own / rows.group} * p.call.q_nb_token;
    const uint32_t to = base + rows.warpgroup * L::kQ;
    rows.meet();  // the last item's products are done
#pragma unroll
    for (int at = 0; at < kLoads; at += kBatch) {
      float4 v[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int unit = (at + i) * 32 + lane(), r = unit / kUnits;
        const auto address = reinterpret_cast<uint64_t>(own_row);
        const auto* from = reinterpret_cast<const float4*>(__shfl_sync(~0u, address, r));
        v[i] = first + r < item.rows ? __ldcg(from + unit % kUnits) : make_float4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int unit = (at + i) * 32 + lane(), u = unit % kUnits;
        const int r = warp() * 16 + unit / kUnits;
        const uint32_t place =
            u / 16 * L::kQPanel + r * 128 + (((u % 16 / 2) ^ (r & 7)) * 16) + (u & 1) * 8;
        store_shared_8(to + place,
                       make_uint2(bits_of(__floats2half2_rn(v[i].x * scale, v[i].y * scale)),
                                  bits_of(__floats2half2_rn(v[i].z * scale, v[i].w * scale))));
      }
    }
    fence_async();
    rows.meet();
  }

  __device__ __forceinline__ void issue_scores(float (&s)[kKeys / 2]) const {
    const uint64_t q = describe(base + rows.warpgroup * L::kQ, 16);
    const uint64_t k = describe(base + L::kKAt + k_ring.at * L::kTile, 16);
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      wgmma(s, q + i / 4 * (L::kQPanel >> 4) + i % 4 * 2, k + i / 4 * (L::kPanel >> 4) + i % 4 * 2,
            i > 0);
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void issue_sums(Sums& out, const uint32_t (&prob)[kKeys / 4],
                                             int keep) const {
    const uint64_t v = describe(base + L::kVAt + v_ring.at * L::kTile, L::kPanel);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
      wgmma<1>(out, prob + 4 * i, v + i * 128, i > 0 ? 1 : keep);
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void cap(float (&s)[kKeys / 2]) const {
    // cap tanh(s / cap) = cap - 2 cap / (exp(2 s / cap) + 1), in units of log2.
    const float c = p.call.soft_cap * kLog2e, factor = 2.f * kLog2e / p.call.soft_cap;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      s[i] = c - __fdividef(2.f * c, exp2_fast(s[i] * factor) + 1.f);
    }
  }

  __device__ __forceinline__ void mask(float (&s)[kKeys / 2], int key,
                                       const SeenRange (&seen)[2]) const {
    const int column = key + (lane() & 3) * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int first = seen[h].first - column, last = seen[h].last - column;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int at = n * 8 + c;
          float& v = s[n * 4 + h * 2 + c];
          v = at >= first && at < last ? v : -INFINITY;
        }
      }
    }
  }

  /// Scores to probabilities relative to the largest score so far; what was summed before them
  /// still needs the factor `keep`.
  __device__ __forceinline__ void soften(float (&s)[kKeys / 2], float (&keep)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float m = -INFINITY;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
        m = fmaxf(m, fmaxf(s[n * 4 + h * 2], s[n * 4 + h * 2 + 1]));
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
      m = fmaxf(m, rows.largest[h]);
      // A row that has seen nothing yet keeps weight zero, not exp(-inf + inf).
      const float origin = m == -INFINITY ? 0.f : m;
      keep[h] = exp2_fast(rows.largest[h] - origin);
      rows.largest[h] = m;
      float total = 0.f;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& v = s[n * 4 + h * 2 + c];
          v = exp2_fast(v - origin);
          total += v;
        }
      }
      rows.sum[h] = fmaf(rows.sum[h], keep[h], total);
    }
  }

  __device__ __forceinline__ void pack(const float (&s)[kKeys / 2],
                                       uint32_t (&prob)[kKeys / 4]) const {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      prob[i] = bits_of(__floats2half2_rn(s[2 * i], s[2 * i + 1]));
    }
  }

  /// Scores of the tile at `key`, capped and masked.
  __device__ __forceinline__ void finish_scores(float (&s)[kKeys / 2], int key, int all_first,
                                                int all_last, const SeenRange (&seen)[2]) const {
    if (p.call.soft_cap > 0.f) cap(s);
    if (key < all_first || key + kKeys > all_last) mask(s, key, seen);
  }

  __device__ __forceinline__ void run(const PlannedItem* items) {
    if (rows.warpgroup == 1) join_named_barrier(1, 256);
    for (Ring<kItems> ring(0);; ring.advance()) {
      barrier_wait(barriers.item_full(ring.at), ring.parity);
      const PlannedItem& from = items[ring.at];
      const Item& item = from.item;
      if (item.rows == 0) return;
      SeenRange seen[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        // Rows behind the last one see everything: nothing reads them, and they need no mask.
        seen[h] = {0, INT_MAX};
        if (rows.row(h) < item.rows) {
          const int token = (item.row0 + rows.row(h)) / rows.group - item.row0 / rows.group;
          seen[h] = seen_range(p.call, item.kv_len, from.pos[token]);
        }
      }
      load_queries(item);
      attend(item, seen);
      __syncwarp();
      release(barriers.item_empty(ring.at));
    }
  }

  __device__ __forceinline__ void attend(const Item& item, const SeenRange (&seen)[2]) {
    Sums out;
    float s[kKeys / 2], keep[2];
    uint32_t prob[kKeys / 4];
    rows.largest[0] = rows.largest[1] = -INFINITY;
    rows.sum[0] = rows.sum[1] = 0.f;
    if (item.tiles == 0) {
#pragma unroll
      for (int i = 0; i < D / 2; ++i) out[i] = 0.f;
      return rows.write(item, out);
    }
    int key = item.key;
    const int tiles = __shfl_sync(~0u, item.tiles, 0);
    const int all_first = item.all_first, all_last = item.all_last;
    barrier_wait(barriers.k_full(k_ring.at), k_ring.parity);
    wgmma_fence();
    issue_scores(s);
    wgmma_wait<0>();
    wgmma_results(s);
    release(barriers.k_empty(k_ring.at));
    k_ring.advance();
    finish_scores(s, key, all_first, all_last, seen);
    soften(s, keep);
    pack(s, prob);
    for (int i = 1; i < tiles; ++i) {
      key += kKeys;
      barrier_wait(barriers.k_full(k_ring.at), k_ring.parity);
      named_barrier(1 + rows.warpgroup, 256);
      wgmma_fence();
      issue_scores(s);
      barrier_wait(barriers.v_full(v_ring.at), v_ring.parity);
      wgmma_fence();
      issue_sums(out, prob, i > 1);
      join_named_barrier(2 - rows.warpgroup, 256);
      wgmma_wait<1>();
      wgmma_results(s);
      release(barriers.k_empty(k_ring.at));
      k_ring.advance();
      finish_scores(s, key, all_first, all_last, seen);
      soften(s, keep);
      wgmma_wait<0>();
      wgmma_results(out);
      release(barriers.v_empty(v_ring.at));
      v_ring.advance();
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        out[n * 4] *= keep[0], out[n * 4 + 1] *= keep[0];
        out[n * 4 + 2] *= keep[1], out[n * 4 + 3] *= keep[1];
      }
      pack(s, prob);
    }
    barrier_wait(barriers.v_full(v_ring.at), v_ring.parity);
    wgmma_fence();
    issue_sums(out, prob, tiles > 1);
    wgmma_wait<0>();
    wgmma_results(out);
    release(barriers.v_empty(v_ring.at));
    v_ring.advance();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      rows.sum[h] += __shfl_xor_sync(~0u, rows.sum[h], 1);
      rows.sum[h] += __shfl_xor_sync(~0u, rows.sum[h], 2);
    }
    if (item.parts == 1 || rows.join_parts(item, out)) rows.write(item, out);
  }
};

/// Zeros for the padding tokens, which belong to no item. Two warpgroups.
__device__ __forceinline__ void clear_padding(const AttentionCall& call) {
  const int valid = valid_of(call.valid_tokens, call.tokens);
  for (int token = valid + static_cast<int>(blockIdx.x); token < call.tokens; token += gridDim.x) {
    const int n = call.n_head * call.kv.dim_v;
    for (int i = threadIdx.x; i < n; i += 256) {
      if (call.out_fragments) {
        call.out_fragments[int64_t{token} * n + i] = 0;
        continue;
      }
      char* row = call.out + (i / call.kv.dim_v) * call.out_nb_head + token * call.out_nb_token;
      reinterpret_cast<float*>(row)[i % call.kv.dim_v] = 0.f;
    }
  }
}

template <int D>
__device__ __forceinline__ void plan_items(const AttentionCall& call, const Barriers<D>& barriers,
                                           PlannedItem* items) {
  Planner planner(call);
  Ring<kItems> ring(1);
  bool more = true;
  for (int round = 0; more; ++round) {
    PlannedItem& to = items[ring.at];
    barrier_wait(barriers.item_empty(ring.at), ring.parity);
    more = planner.plan(round, Layout<D>::kKeys, to);
    __syncwarp();
    if (more && to.item.tiles == 0 && to.item.part > 0) continue;
    if ((threadIdx.x & 31) == 0) {
      if (!more) to.item.rows = 0;
      barrier_arrive(barriers.item_full(ring.at));
    }
    ring.advance();
  }
}

#endif  // MINFER_SM90A

template <int D>
__global__ void __launch_bounds__(kThreads, 1)
    attention_kernel(const __grid_constant__ CUtensorMap k_map,
                     const __grid_constant__ CUtensorMap v_map,
                     const __grid_constant__ AttentionParams p) {
#ifdef MINFER_SM90A
  using L = Layout<D>;
  extern __shared__ uint8_t raw[];
  const uint32_t base = (shared_address(raw) + 1023) & ~1023u;
  auto* items = reinterpret_cast<PlannedItem*>(raw + (base - shared_address(raw)) + L::kItemAt);
  const Barriers<D> barriers{base + L::kBarrierAt};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  if (p.overlap) {
    allow_dependents();
    wait_for_predecessors();
  }
  const int warp = threadIdx.x >> 5;
  if (warp >= 8) {
    lower_registers<72>();
    if (warp == 8) {
      Loader<D>{p, barriers, base}.run(&k_map, &v_map, items);
    } else if (warp == 9) {
      plan_items<D>(p.call, barriers, items);
    }
  } else {
    raise_registers<216>();
    const float unit = p.call.soft_cap > 0.f ? 1.f : kLog2e;
    // The shuffle tells the compiler that a warp agrees on its warpgroup, and so on all
    // descriptors.
    const Rows<D> rows{p, base, __shfl_sync(~0u, warp >> 2, 0), static_cast<int>(threadIdx.x) & 127,
                       p.call.n_head / p.call.kv.n_head};
    Consumer<D>{p, barriers, base, p.call.scale * unit, rows}.run(items);
    clear_padding(p.call);
  }
#endif
}

/// Positions that a copy brings: the most that a page and a tile hold whole numbers of.
int box_positions(int page_tokens, int keys) {
  while (page_tokens % keys) keys /= 2;
  return keys;
}

template <int D>
cudaError_t launch_for(const AttentionCall& call, int sms, float* workspace, uint32_t* counters,
                       bool overlap, cudaStream_t stream) {
  using L = Layout<D>;
  const KvPages& kv = call.kv;
  const AttentionParams p{call, box_positions(kv.page_tokens, L::kKeys), overlap, workspace,
                          counters};
  CUtensorMap maps[2];
  for (int i = 0; i < 2; ++i) {
    // The number of pages is not known here; no copy goes beyond those of the block table.
    const uint64_t pages = std::min<uint64_t>((uint64_t{1} << 40) / kv.page_bytes, INT_MAX);
    const uint64_t dims[3] = {D, static_cast<uint64_t>(kv.n_head) * kv.page_tokens, pages};
    const uint64_t strides[2] = {kv.stride_k * uint64_t{2}, static_cast<uint64_t>(kv.page_bytes)};
    const uint32_t box[3] = {64, static_cast<uint32_t>(p.box), 1};
    const cudaError_t error =
        encode_half_map(maps[i], kv.base + (i == 0 ? 0 : kv.v), 3, dims, strides, box);
    if (error != cudaSuccess) return error;
  }
  const cudaError_t error =
      cudaFuncSetAttribute(attention_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(L::kTotal));
  if (error != cudaSuccess) return error;
  return launch_overlapped(overlap, attention_kernel<D>, dim3(static_cast<unsigned>(sms)), kThreads,
                           L::kTotal, stream, maps[0], maps[1], p);
}

}  // namespace

bool attention_fits(const AttentionCall& call) {
  const KvPages& kv = call.kv;
  const int d = kv.dim_k;
  if (kv.type != MINFER_TYPE_F16 || kv.dim_v != d) return false;
  if (d != 64 && d != 80 && d != 96 && d != 128 && d != 256) return false;
  return kv.page_tokens % 8 == 0 && call.q_nb_head % 16 == 0 && call.q_nb_token % 16 == 0 &&
         call.out_nb_head % 8 == 0 && call.out_nb_token % 8 == 0;
}

uint64_t attention_workspace_bytes(const AttentionCall& call, int sms) {
  return uint64_t{2} * most_parts(sms) * part_floats(call.kv.dim_v) * sizeof(float);
}

uint64_t attention_counter_bytes(int sms) {
  return uint64_t{2} * sms * sizeof(uint32_t);
}

cudaError_t launch_attention(const AttentionCall& call, int sms, float* workspace,
                             uint32_t* counters, bool overlap, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  switch (call.kv.dim_k) {
    case 64:
      return launch_for<64>(call, sms, workspace, counters, overlap, stream);
    case 80:
      return launch_for<80>(call, sms, workspace, counters, overlap, stream);
    case 96:
      return launch_for<96>(call, sms, workspace, counters, overlap, stream);
    case 128:
      return launch_for<128>(call, sms, workspace, counters, overlap, stream);
    case 256:
      return launch_for<256>(call, sms, workspace, counters, overlap, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace minfer_cuda::hopper
