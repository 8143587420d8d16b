// Attention over paged KV: what a launch computes, and the launchers (docs/operators.md,
// ATTENTION).
//
// Lengths, positions and tables are read on the device, so that one captured graph serves every
// step; grids follow the capacity and surplus blocks leave at once.
#pragma once

#include "activation.h"
#include "kv.h"

namespace minfer_cuda {

struct AttentionCall {
  const char* q = nullptr;  ///< f32 [dim_k, n_head, tokens]
  int64_t q_nb_head = 0, q_nb_token = 0;
  char* out = nullptr;  ///< f32 [dim_v, n_head, tokens], or null where nobody reads it
  int64_t out_nb_head = 0, out_nb_token = 0;
  Int8Rows out_int8;  ///< rows of dim_v * n_head as int8 too, or null; dim_v a multiple of 32.
                      ///< Split and decode kernels only.
  uint16_t* out_fragments = nullptr;  ///< rows of dim_v * n_head as f16 in fragment order
                                      ///< (../hopper/prefill.h) instead of `out`, or null. Hopper
                                      ///< kernel only.
  KvPages kv;
  int32_t n_head = 0;
  int32_t tokens = 0, seqs = 0, max_pages = 0;  ///< capacities
  const int32_t* valid_tokens = nullptr;
  const int32_t* valid_seqs = nullptr;
  const int32_t* pos = nullptr;          ///< [tokens]
  const int32_t* q_start = nullptr;      ///< [seqs + 1]
  const int32_t* kv_len = nullptr;       ///< [seqs]
  const int32_t* block_table = nullptr;  ///< [seqs][max_pages]
  const float* sinks = nullptr;          ///< [n_head] or null
  float scale = 1.f;
  float soft_cap = 0.f;
  int32_t window = 0;
  int32_t causal = 1;
};

/// Every KV type, head dims up to 512, f32 arithmetic: a block per token, KV head
/// and split of the positions; the query heads of a KV head share its loads. Meant for few tokens
/// per sequence. Tolerance 1e-5 against the stored values.
///
/// `workspace` has attention_split_workspace() bytes, 16-byte aligned. `counters`,
/// attention_split_counters() bytes, are zero before the first launch and again after each.
/// `overlap`: see overlap.cuh.
cudaError_t launch_attention_split(const AttentionCall& call, int splits, void* workspace,
                                   uint32_t* counters, bool overlap, cudaStream_t stream);
uint64_t attention_split_counters(const AttentionCall& call);
/// Splits that fill the device for this capacity, 1 to kMaxSplits, and the workspace they need.
inline constexpr int kMaxSplits = 64;  // two per lane of a warp
int attention_splits(const AttentionCall& call, int sms);
uint64_t attention_split_workspace(const AttentionCall& call, int splits);

/// A token's heads as the projections left them, for a launch that norms, rotates and stores them
/// itself, in place of launch_heads.
struct FreshHeads {
  HeadRows query, key, value;
  Rope rope;
  const int64_t* slot = nullptr;  ///< [1]
};

/// The same on f16 tensor cores: f16 KV, equal head dims of K and V of 64, 96, 128 or 256; sm_80
/// and later. The same tolerance, splits and memory. With `fresh`, which needs a capacity of one
/// token, call.q is not read, and the bits are those of launch_heads and a launch without.
bool attention_decode_supports(const AttentionCall& call);
/// Splits for which its blocks fill the device in whole rounds.
int attention_decode_splits(const AttentionCall& call, int sms);
cudaError_t launch_attention_decode(const AttentionCall& call, const FreshHeads* fresh, int splits,
                                    void* workspace, uint32_t* counters, bool overlap,
                                    cudaStream_t stream);

/// f16 and q8_0 KV, equal head dims of K and V of 64, 80, 96, 128 or 256: 64 query rows (tokens
/// times the heads of a KV head) per block on f16 tensor cores. Meant for prefill. sm_80 and later.
/// Tolerance 1e-3 against the stored values.
bool attention_tiled_supports(const AttentionCall& call);
cudaError_t launch_attention_tiled(const AttentionCall& call, cudaStream_t stream);

#ifdef __CUDACC__
/// The sequence that a valid token belongs to: the last s with q_start[s] <= token.
__device__ __forceinline__ int sequence_of(const int32_t* q_start, int seqs, int token) {
  int low = 0, high = seqs - 1;
  while (low < high) {
    const int mid = (low + high + 1) / 2;
    if (q_start[mid] <= token)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

/// Logical positions [first, last) that a query at position p sees.
struct SeenRange {
  int first, last;
};
__device__ __forceinline__ SeenRange seen_range(const AttentionCall& call, int kv_len, int p) {
  SeenRange r;
  r.last = call.causal ? min(kv_len, p + 1) : kv_len;
  r.first = call.window > 0 ? max(0, p - call.window + 1) : 0;
  if (r.last < r.first) r.last = r.first;
  return r;
}
#endif

}  // namespace minfer_cuda
