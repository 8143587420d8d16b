// What the split attention kernels have in common: which positions a block takes, how the results
// of its warps and of the splits are joined, and how a finished head is written (attention.h).
//
// A block works on one token, the query heads of one KV head (or some of them) and one split of
// the seen positions. How many splits do work follows from the length on the device, so that short
// contexts pay for one only. The block that arrives last joins the splits.
#pragma once

#include "attention.h"
#include "int8_rows.cuh"

namespace minfer_cuda {

constexpr int kMinKeys = 128;  // fewer positions than this are not worth another split

struct Share {
  int token, kv_head, first_head, heads, seq;
  int split, used;  ///< this block's split, of those that do work
  int begin, end;   ///< its positions
};

/// Results of the splits in memory: [token][head][split][dim_v], then [token][head][split] of
/// largest score and sum.
struct Parts {
  float* values;
  float2* stats;
  int splits;

  __device__ int64_t index(const AttentionCall& call, int token, int head, int split) const {
    return (int64_t{token} * call.n_head + head) * splits + split;
  }
};

/// The parts in a workspace of attention_split_workspace() bytes.
inline Parts attention_parts(const AttentionCall& call, int splits, void* workspace) {
  const int64_t heads = int64_t{call.tokens} * call.n_head * splits;
  auto* values = static_cast<float*>(workspace);
  return {values, reinterpret_cast<float2*>(values + (heads * call.kv.dim_v + 3) / 4 * 4), splits};
}

/// Writes element i of a finished head; called by whole warps whose lane l holds an i with
/// i % 32 == l, for i up to dim_v rounded up to 32.
__device__ __forceinline__ void put_head(const AttentionCall& call, int token, int head, int i,
                                         float v) {
  const int dim = call.kv.dim_v;
  if (call.out && i < dim) {
    reinterpret_cast<float*>(call.out + head * call.out_nb_head + token * call.out_nb_token)[i] = v;
  }
  if (call.out_int8.quants) {
    put_int8(call.out_int8, token, call.n_head * dim, head * dim + i, v);
  }
}

/// What a block has to do.
enum class Work { kNothing, kZeroHeads, kShare };

/// This block's work. Reads the step's inputs alone.
template <int Heads>
__device__ __forceinline__ Work find_share(const AttentionCall& call, int splits, Share& w) {
  const int group = call.n_head / call.kv.n_head, chunks = (group + Heads - 1) / Heads;
  const int chunk = blockIdx.x % chunks;
  w.kv_head = blockIdx.x / chunks;
  w.first_head = w.kv_head * group + chunk * Heads;
  w.heads = min(Heads, group - chunk * Heads);
  w.token = blockIdx.y;
  w.split = blockIdx.z;
  if (w.token >= valid_of(call.valid_tokens, call.tokens)) {
    return w.split == 0 ? Work::kZeroHeads : Work::kNothing;
  }
  w.seq = sequence_of(call.q_start, valid_of(call.valid_seqs, call.seqs), w.token);
  const SeenRange seen = seen_range(call, call.kv_len[w.seq], call.pos[w.token]);
  const int count = seen.last - seen.first;
  w.used = max(1, min(splits, (count + kMinKeys - 1) / kMinKeys));
  if (w.split >= w.used) return Work::kNothing;
  const int share = ((count + w.used - 1) / w.used + 31) / 32 * 32;
  w.begin = seen.first + w.split * share;
  w.end = min(w.begin + share, seen.last);
  return Work::kShare;
}

/// Zeros for the heads of a padding token.
__device__ __forceinline__ void zero_heads(const AttentionCall& call, const Share& w) {
  const int padded = (call.kv.dim_v + 31) / 32 * 32;
  for (int i = threadIdx.x; i < w.heads * padded; i += blockDim.x) {
    put_head(call, w.token, w.first_head + i / padded, i % padded, 0.f);
  }
}

/// Both; true when there is a share.
template <int Heads>
__device__ __forceinline__ bool take_share(const AttentionCall& call, int splits, Share& w) {
  const Work work = find_share<Heads>(call, splits, w);
  if (work == Work::kZeroHeads) zero_heads(call, w);
  return work == Work::kShare;
}

__device__ __forceinline__ float sink_weight(const AttentionCall& call, int head, float largest) {
  return call.sinks ? expf(call.sinks[head] - largest) : 0.f;
}

/// Joins the warps' states, `stats` [warps][rows] of largest score and sum and `values`
/// [warps][rows][stride], and writes the heads, or this split's part of them. A warp per head.
__device__ __forceinline__ void join_warps(const AttentionCall& call, const Share& w,
                                           const float2* stats, const float* values, int rows,
                                           int stride, const Parts& parts) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  const int dim = call.kv.dim_v;
  for (int h = warp; h < w.heads; h += warps) {
    const int head = w.first_head + h;
    const bool whole = w.used == 1;
    float2 mine = lane < warps ? stats[lane * rows + h] : make_float2(-INFINITY, 0.f);
    float largest = warp_max(mine.x);
    if (whole && call.sinks) largest = fmaxf(largest, call.sinks[head]);
    const float weight = mine.x == -INFINITY ? 0.f : expf(mine.x - largest);
    float sum = warp_sum(weight * mine.y);
    if (whole) sum += sink_weight(call, head, largest);
    const float factor = !whole ? 1.f : sum > 0.f ? 1.f / sum : 0.f;
    const int64_t at = parts.index(call, w.token, head, w.split);
    for (int i = lane; i < (dim + 31) / 32 * 32; i += 32) {
      float v = 0.f;
      for (int k = 0; k < warps; ++k) {
        const float kept = __shfl_sync(~0u, weight, k);
        if (i < dim && kept > 0.f) v = fmaf(kept, values[(k * rows + h) * stride + i], v);
      }
      if (whole)
        put_head(call, w.token, head, i, v * factor);
      else if (i < dim)
        parts.values[at * dim + i] = v;
    }
    if (!whole && lane == 0) parts.stats[at] = make_float2(largest, sum);
  }
}

/// True in the block that finishes its token and heads last; that block may read all parts.
__device__ __forceinline__ bool arrives_last(uint32_t* counter, int used) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) == static_cast<uint32_t>(used - 1);
    if (last) *counter = 0;  // ready for the next run
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

/// Sum over the splits of weight[s] times four neighbouring values.
__device__ __forceinline__ float4 weighted_sum(const float* values, int dim, const float* weight,
                                               int used) {
  float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 16
  for (int s = 0; s < used; ++s) {
    const float4 part = __ldcg(reinterpret_cast<const float4*>(values + int64_t{s} * dim));
    const float w = weight[s];
    v.x = fmaf(w, part.x, v.x), v.y = fmaf(w, part.y, v.y);
    v.z = fmaf(w, part.z, v.z), v.w = fmaf(w, part.w, v.w);
  }
  return v;
}

/// Joins the splits' parts. `shared` has heads * (kMaxSplits + dim_v) floats, 16-byte aligned.
__device__ __forceinline__ void join_splits(const AttentionCall& call, const Share& w,
                                            const Parts& parts, float* shared) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  const int dim = call.kv.dim_v;
  float* weights = shared;
  float* result = shared + w.heads * kMaxSplits;
  for (int h = warp; h < w.heads; h += warps) {
    const float2* stats = parts.stats + parts.index(call, w.token, w.first_head + h, 0);
    float2 mine[kMaxSplits / 32];
    float largest = call.sinks ? call.sinks[w.first_head + h] : -INFINITY;
#pragma unroll
    for (int j = 0; j < kMaxSplits / 32; ++j) {
      const int s = j * 32 + lane;
      mine[j] = s < w.used ? __ldcg(stats + s) : make_float2(-INFINITY, 0.f);
      largest = fmaxf(largest, mine[j].x);
    }
    largest = warp_max(largest);
    float sum = 0.f;
#pragma unroll
    for (int j = 0; j < kMaxSplits / 32; ++j) {
      mine[j].x = mine[j].x == -INFINITY ? 0.f : expf(mine[j].x - largest);
      sum += mine[j].x * mine[j].y;
    }
    sum = warp_sum(sum) + sink_weight(call, w.first_head + h, largest);
    const float inverse = sum > 0.f ? 1.f / sum : 0.f;
#pragma unroll
    for (int j = 0; j < kMaxSplits / 32; ++j) {
      weights[h * kMaxSplits + j * 32 + lane] = mine[j].x * inverse;
    }
  }
  __syncthreads();
  if (dim % 4 == 0) {
    for (int i = threadIdx.x * 4; i < w.heads * dim; i += blockDim.x * 4) {
      const int h = i / dim;
      const int64_t at = parts.index(call, w.token, w.first_head + h, 0);
      *reinterpret_cast<float4*>(result + i) =
          weighted_sum(parts.values + at * dim + i % dim, dim, weights + h * kMaxSplits, w.used);
    }
  } else {
    for (int i = threadIdx.x; i < w.heads * dim; i += blockDim.x) {
      const int h = i / dim;
      const int64_t at = parts.index(call, w.token, w.first_head + h, 0);
      float v = 0.f;
      for (int s = 0; s < w.used; ++s) {
        v = fmaf(weights[h * kMaxSplits + s], __ldcg(parts.values + (at + s) * dim + i % dim), v);
      }
      result[i] = v;
    }
  }
  __syncthreads();
  for (int h = warp; h < w.heads; h += warps) {
    for (int i = lane; i < (dim + 31) / 32 * 32; i += 32) {
      put_head(call, w.token, w.first_head + h, i, i < dim ? result[h * dim + i] : 0.f);
    }
  }
}

/// Floats that join_splits needs for `heads` heads.
constexpr int join_floats(int heads, int dim_v) {
  return heads * (kMaxSplits + (dim_v + 3) / 4 * 4);
}

}  // namespace minfer_cuda
