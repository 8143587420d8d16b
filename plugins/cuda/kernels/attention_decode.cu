// Decode attention on f16 tensor cores (see attention.h): the query heads of one KV head are the
// rows of an MMA tile, so that K and V are read once for all of them.
//
// A warp takes 16 positions at a time. Neither K nor V passes through shared memory: a contraction
// may take its elements in any order, so lane (g, t) reads 16 consecutive bytes of K rows g and
// g + 8 and calls them the operand's pairs t; columns may be named in any order, so it reads 8
// consecutive bytes of four V rows and calls them column g of four tiles. Queries and probabilities
// enter as the sum of two f16 values, which keeps f32 accuracy. Fragment letters are those of
// mma.cuh.
//
// Where the step has one token, the kernel can take its heads as the projections left them: it
// norms, rotates and stores them, which saves a launch, and requests the keys and values of earlier
// steps before it waits for the projections.
#include <cuda_fp16.h>

#include <algorithm>
#include <climits>

#include "attention_share.cuh"
#include "heads.cuh"
#include "kv.cuh"
#include "mma.cuh"
#include "overlap.cuh"

namespace minfer_cuda {
namespace {

constexpr int kRows = 16;  // heads of a block at most
constexpr int kKeys = 16;  // positions of a warp's tile

/// Eight warps, or four where the sums take most registers.
template <int D>
inline constexpr int kWarps = D > 128 ? 4 : 8;

/// Two values as f16 pairs: what they round to, and what that leaves.
struct SplitPair {
  uint32_t high, low;
};
__device__ __forceinline__ SplitPair split_pair(float a, float b) {
  const __half2 high = __floats2half2_rn(a, b);
  const float2 kept = __half22float2(high);
  return {*reinterpret_cast<const uint32_t*>(&high), pack_half2(a - kept.x, b - kept.y)};
}

/// The queries as operand fragments: [D / 16][high, low][lane]. `row(h)` is query h of the block.
template <int D, class Row>
__device__ __forceinline__ void stage_queries(const AttentionCall& call, const Share& w, Row row,
                                              uint4* to) {
  for (int i = threadIdx.x; i < D / 16 * 32; i += kWarps<D> * 32) {
    const int step = i / 32, g = i % 32 / 4, t = i % 4;
    // Pair t of k-step 2 j + s is dims 32 j + 8 t + 4 s.
    const int dim = step / 2 * 32 + t * 8 + step % 2 * 4;
    SplitPair pair[2][2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (g + 8 * h >= w.heads) continue;
      const float* q = row(g + 8 * h) + dim;
      pair[h][0] = split_pair(q[0] * call.scale, q[1] * call.scale);
      pair[h][1] = split_pair(q[2] * call.scale, q[3] * call.scale);
    }
    to[step * 64 + i % 32] =
        make_uint4(pair[0][0].high, pair[1][0].high, pair[0][1].high, pair[1][1].high);
    to[step * 64 + 32 + i % 32] =
        make_uint4(pair[0][0].low, pair[1][0].low, pair[0][1].low, pair[1][1].low);
  }
}

/// The V values of a warp's tile that this lane holds: columns 32 c + 4 g to + 3 of keys 2 t,
/// 2 t + 1, 2 t + 8, 2 t + 9.
template <int D>
struct ValueRows {
  uint2 v[D / 32][4];

  __device__ __forceinline__ void load(const char* const (&rows)[4], int g) {
#pragma unroll
    for (int c = 0; c < D / 32; ++c) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        v[c][k] = *reinterpret_cast<const uint2*>(rows[k] + (c * 32 + g * 4) * 2);
      }
    }
  }
  /// Operand words of tile i of columns 32 c to 32 c + 31.
  __device__ __forceinline__ void operand(int c, int i, uint32_t& b0, uint32_t& b1) const {
    const uint32_t select = i & 1 ? 0x7632 : 0x5410;
    const auto word = [&](int k) { return i < 2 ? v[c][k].x : v[c][k].y; };
    b0 = __byte_perm(word(0), word(1), select);
    b1 = __byte_perm(word(2), word(3), select);
  }
};

/// Running softmax and sums of a warp: rows g and g + 8.
template <int D>
struct RowState {
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
  float acc[D / 8][4] = {};  // tile 4 c + i: columns 32 c + 8 t + i and 32 c + 8 t + 4 + i
};

/// The page of the position that a lane knows of the tile at `first`: lane l knows first + l % 16.
/// Positions past the end repeat the last one.
__device__ __forceinline__ int page_of(const AttentionCall& call, const Share& w, int first) {
  const int j = min(first + static_cast<int>(threadIdx.x) % kKeys, w.end - 1);
  const int shift = 31 - __clz(call.kv.page_tokens);  // a power of two
  return call.block_table[w.seq * call.max_pages + (j >> shift)];
}
/// Where K of that position is.
__device__ __forceinline__ const char* row_of(const AttentionCall& call, const Share& w, int first,
                                              int page) {
  const KvPages& kv = call.kv;
  const int j = min(first + static_cast<int>(threadIdx.x) % kKeys, w.end - 1);
  return kv_page(kv, page) + kv_row(kv, w.kv_head, j & (kv.page_tokens - 1)) * kv.stride_k * 2;
}

__device__ __forceinline__ const char* from_lane(const char* p, int lane) {
  return reinterpret_cast<const char*>(
      __shfl_sync(~0u, reinterpret_cast<unsigned long long>(p), lane));
}

/// Soft cap, mask and online softmax of a tile's scores s[key tile][row pair, column].
template <int D>
__device__ __forceinline__ void weigh(const AttentionCall& call, int keys_left, int t,
                                      float (&s)[2][4], RowState<D>& st) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = st.largest[h];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& v = s[n][h * 2 + e];
        if (call.soft_cap > 0.f) v = call.soft_cap * tanhf(v / call.soft_cap);
        if (n * 8 + t * 2 + e >= keys_left) v = -INFINITY;
        largest = fmaxf(largest, v);
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    const float keep = expf(st.largest[h] - largest);
    st.largest[h] = largest;
    st.sum[h] *= keep;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& v = s[n][h * 2 + e];
        v = expf(v - largest);
        st.sum[h] += v;
      }
    }
#pragma unroll
    for (int n = 0; n < D / 8; ++n) st.acc[n][h * 2] *= keep, st.acc[n][h * 2 + 1] *= keep;
  }
}

/// The step's own key and value row, f16 in shared memory, and its position; rows from there on are
/// not taken from the cache. INT_MAX: there is none.
struct FreshRow {
  const __half* key;
  const __half* value;
  int pos = INT_MAX;
};

/// The rows of a warp's tile that a lane reads.
struct TileRows {
  const char* key[2];
  const char* value[4];

  __device__ __forceinline__ TileRows(const AttentionCall& call, const Share& w, int first,
                                      int page) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const char* row = row_of(call, w, first, page);
#pragma unroll
    for (int n = 0; n < 2; ++n) key[n] = from_lane(row, g + 8 * n);
#pragma unroll
    for (int k = 0; k < 4; ++k) value[k] = from_lane(row, value_place(t, k)) + call.kv.v;
  }
  /// Which of the tile's rows value row k is.
  static __device__ __forceinline__ int value_place(int t, int k) {
    return t * 2 + (k & 1) + (k >> 1) * 8;
  }
};

/// The keys of a warp's tile that a lane holds.
template <int D>
struct KeyRows {
  uint4 k[D / 32][2];

  __device__ __forceinline__ void load(const TileRows& rows, int t) {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        k[j][n] = *reinterpret_cast<const uint4*>(rows.key[n] + (j * 32 + t * 8) * 2);
      }
    }
  }
};

/// Puts the fresh row in place of what the cache held there.
template <int D>
__device__ __forceinline__ void place_fresh(const FreshRow& fresh, int first, KeyRows<D>& keys) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  if (first + kKeys <= fresh.pos) return;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    if (first + g + 8 * n < fresh.pos) continue;
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      keys.k[j][n] = *reinterpret_cast<const uint4*>(fresh.key + j * 32 + t * 8);
    }
  }
}
template <int D>
__device__ __forceinline__ void place_fresh(const FreshRow& fresh, int first,
                                            ValueRows<D>& values) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  if (first + kKeys <= fresh.pos) return;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (first + TileRows::value_place(t, k) < fresh.pos) continue;
#pragma unroll
    for (int c = 0; c < D / 32; ++c) {
      values.v[c][k] = *reinterpret_cast<const uint2*>(fresh.value + c * 32 + g * 4);
    }
  }
}

/// `values()` is asked for when the scores are done.
template <int D, class Values>
__device__ __forceinline__ void add_tile(const AttentionCall& call, int keys_left,
                                         const uint4* queries, const KeyRows<D>& keys,
                                         Values values, RowState<D>& st) {
  const int lane = threadIdx.x & 31, t = lane & 3;
  // One chain of sums each for the halves of the queries: a chain's length is what a tile waits
  // for.
  float s[2][4] = {}, s_low[2][4] = {};
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    const uint4 high = queries[step * 64 + lane], low = queries[step * 64 + 32 + lane];
    const uint32_t a[4] = {high.x, high.y, high.z, high.w};
    const uint32_t rest[4] = {low.x, low.y, low.z, low.w};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const uint4& k = keys.k[step / 2][n];
      const uint32_t b0 = step % 2 ? k.z : k.x, b1 = step % 2 ? k.w : k.y;
      mma_f16(s_low[n], rest, b0, b1);
      mma_f16(s[n], a, b0, b1);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i >> 2][i & 3] += s_low[i >> 2][i & 3];
  weigh<D>(call, keys_left, t, s, st);

  uint32_t p[4], rest[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const SplitPair pair = split_pair(s[i >> 1][(i & 1) * 2], s[i >> 1][(i & 1) * 2 + 1]);
    p[i] = pair.high, rest[i] = pair.low;
  }
  const ValueRows<D> v = values();
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    uint32_t b0, b1;
    v.operand(n / 4, n % 4, b0, b1);
    mma_f16(st.acc[n], rest, b0, b1);
    mma_f16(st.acc[n], p, b0, b1);
  }
}

/// A warp's tiles of the share. Up to D = 128 registers allow a tile's values to be in flight with
/// its keys, and the next tile while one is added; its page is asked for a tile earlier still.
template <int D>
struct Tiles {
  static constexpr int kStride = kWarps<D> * kKeys;
  static constexpr bool kEarly = D <= 128;
  KeyRows<D> keys;
  ValueRows<D> values;
  int first, page;

  /// Requests the tile at position `at`, which lies in page `in`.
  __device__ __forceinline__ void request(const AttentionCall& call, const Share& w, int at,
                                          int in) {
    const int lane = threadIdx.x & 31;
    first = at;
    page = in;
    if (first >= w.end) return;
    const TileRows rows(call, w, first, page);
    keys.load(rows, lane & 3);
    if constexpr (kEarly) values.load(rows.value, lane >> 2);
  }
  __device__ __forceinline__ void add(const AttentionCall& call, const Share& w,
                                      const FreshRow& fresh, const uint4* queries,
                                      RowState<D>& st) {
    int next_page = page_of(call, w, first + kStride);
    while (first < w.end) {
      Tiles next;
      if constexpr (kEarly) next.request(call, w, first + kStride, next_page);
      const int page_after = page_of(call, w, first + 2 * kStride);
      place_fresh<D>(fresh, first, keys);
      const auto take_values = [&] {
        if constexpr (!kEarly) {
          values.load(TileRows(call, w, first, page).value, (threadIdx.x & 31) >> 2);
        }
        place_fresh<D>(fresh, first, values);
        return values;
      };
      add_tile<D>(call, w.end - first, queries, keys, take_values, st);
      if constexpr (!kEarly) next.request(call, w, first + kStride, next_page);
      next_page = page_after;
      *this = next;
    }
  }
};

/// Shared memory: queries, then, in their place, the warps' results, then the joined splits.
template <int D>
constexpr int shared_bytes(int rows) {
  const int queries = D / 16 * 64 * 16, results = kWarps<D> * rows * (D * 4 + 8);
  const int joined = join_floats(rows, D) * 4;
  return queries > results ? (queries > joined ? queries : joined)
                           : (results > joined ? results : joined);
}
/// Behind it: fresh heads (queries, key, value) in f32, and the key and value in f16.
template <int D>
constexpr int fresh_bytes(int rows) {
  return (rows + 2) * D * 4 + 2 * D * 2;
}

/// Fresh heads of a block in shared memory, normed and rotated; the key and value of the block's KV
/// head also in f16, where its share ends with them, and in the cache.
template <int D>
struct Heads {
  float* rows;  ///< [heads + 2][D]
  __half* key_value;
  int64_t slot;
  float2 turn[D / 64 + (D % 64 != 0)];  ///< of the lane's pairs

  __device__ __forceinline__ Heads(const FreshHeads& fresh, uint8_t* shared, int heads, int pos)
      : rows(reinterpret_cast<float*>(shared)),
        key_value(reinterpret_cast<__half*>(rows + (heads + 2) * D)),
        slot(*fresh.slot) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof turn / sizeof turn[0]); ++k) {
      const int p = k * 32 + lane;
      turn[k] = p < fresh.rope.n_rot / 2 ? rotation(fresh.rope, p, pos) : make_float2(0.f, 1.f);
    }
  }

  __device__ __forceinline__ float* make(const HeadRows& r, const Rope& rope, int head, int row) {
    const int lane = threadIdx.x & 31;
    float* v = rows + row * D;
    load_head(r, head, 0, false, v, lane);
    if (r.has_norm) norm_head(r, v, lane);
    if (!r.rotate) return v;
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof turn / sizeof turn[0]); ++k) {
      if (k * 32 + lane < rope.n_rot / 2) rotate_pair(rope, v, k * 32 + lane, turn[k]);
    }
    __syncwarp();
    return v;
  }

  /// `store`: the block that writes its KV head's rows to the cache.
  __device__ __forceinline__ FreshRow take(const AttentionCall& call, const FreshHeads& fresh,
                                           const Share& w, int pos, bool store) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const bool has_key = w.split == w.used - 1 && slot >= 0;
    for (int h = warp; h < w.heads + (has_key ? 2 : 0); h += kWarps<D>) {
      if (h < w.heads) {
        make(fresh.query, fresh.rope, w.first_head + h, h);
        continue;
      }
      const bool is_key = h == w.heads;
      const float* v = make(is_key ? fresh.key : fresh.value, fresh.rope, w.kv_head, h);
      for (int i = lane; i < D; i += 32) key_value[(is_key ? 0 : D) + i] = __float2half_rn(v[i]);
      if (!store) continue;
      char* page = kv_page(call.kv, slot / call.kv.page_tokens);
      const int64_t row = kv_row(call.kv, w.kv_head, static_cast<int>(slot % call.kv.page_tokens));
      for (int i = lane; i < D; i += 32) {
        kv_store(call.kv, is_key ? KvPart::kK : KvPart::kV, page, row, i, v[i]);
      }
    }
    return {key_value, key_value + D, has_key ? pos : INT_MAX};
  }
};

/// Joins the warps' states and writes the heads, or this split's part of them; a warp per head. As
/// join_warps, for a dim known beforehand: what its loops wait for, this does side by side.
template <int D>
__device__ __forceinline__ void join_rows(const AttentionCall& call, const Share& w,
                                          const float2* stats, const float* values,
                                          const Parts& parts) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  for (int h = warp; h < w.heads; h += kWarps<D>) {
    const int head = w.first_head + h;
    const bool whole = w.used == 1;
    const float2 mine = lane < kWarps<D> ? stats[lane * w.heads + h] : make_float2(-INFINITY, 0.f);
    float largest = warp_max(mine.x);
    if (whole && call.sinks) largest = fmaxf(largest, call.sinks[head]);
    const float weight = mine.x == -INFINITY ? 0.f : expf(mine.x - largest);
    float sum = warp_sum(weight * mine.y);
    if (whole) sum += sink_weight(call, head, largest);
    const float factor = !whole ? 1.f : sum > 0.f ? 1.f / sum : 0.f;
    float v[D / 32] = {};
#pragma unroll
    for (int k = 0; k < kWarps<D>; ++k) {
      const float kept = __shfl_sync(~0u, weight, k);
#pragma unroll
      for (int c = 0; c < D / 32; ++c) {
        v[c] = fmaf(kept, values[(k * w.heads + h) * D + c * 32 + lane], v[c]);
      }
    }
    const int64_t at = parts.index(call, w.token, head, w.split);
#pragma unroll
    for (int c = 0; c < D / 32; ++c) {
      if (whole) {
        put_head(call, w.token, head, c * 32 + lane, v[c] * factor);
      } else {
        parts.values[at * D + c * 32 + lane] = v[c];
      }
    }
    if (!whole && lane == 0) parts.stats[at] = make_float2(largest, sum);
  }
}

template <int D, bool Fresh>
__global__ void __launch_bounds__(kWarps<D> * 32, 1)
    decode_kernel(const __grid_constant__ AttentionCall call,
                  const __grid_constant__ FreshHeads fresh, const Parts parts, uint32_t* counters,
                  int fresh_offset) {
  extern __shared__ __align__(16) uint8_t shared[];
  if constexpr (Fresh) {
    let_next_start();
  } else {
    start_overlapped();
  }
  Share w;
  const Work work = find_share<kRows>(call, parts.splits, w);
  if (work == Work::kNothing) {
    if constexpr (Fresh) wait_for_earlier();
    return;
  }
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  auto* queries = reinterpret_cast<uint4*>(shared);
  Tiles<D> tiles;
  FreshRow row;
  if constexpr (Fresh) {
    const int pos = call.pos[0];
    Heads<D> heads(fresh, shared + fresh_offset, w.heads, pos);
    const int first = w.begin + warp * kKeys;
    if (work == Work::kShare) tiles.request(call, w, first, page_of(call, w, first));
    wait_for_earlier();
    if (work == Work::kZeroHeads) return zero_heads(call, w);
    row = heads.take(call, fresh, w, pos, w.first_head % (call.n_head / call.kv.n_head) == 0);
    __syncthreads();
    stage_queries<D>(
        call, w, [&](int h) { return heads.rows + h * D; }, queries);
  } else {
    if (work == Work::kZeroHeads) return zero_heads(call, w);
    const int first = w.begin + warp * kKeys;
    tiles.request(call, w, first, page_of(call, w, first));
    stage_queries<D>(
        call, w,
        [&](int h) {
          return reinterpret_cast<const float*>(call.q + (w.first_head + h) * call.q_nb_head +
                                                int64_t{w.token} * call.q_nb_token);
        },
        queries);
  }
  __syncthreads();
  RowState<D> st;
  tiles.add(call, w, row, queries, st);
  __syncthreads();
  auto* values = reinterpret_cast<float*>(shared);
  auto* stats = reinterpret_cast<float2*>(values + kWarps<D> * w.heads * D);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = st.sum[h];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const int r = g + 8 * h;
    if (r >= w.heads) continue;
    const int slot = warp * w.heads + r;
    if (t == 0) stats[slot] = make_float2(st.largest[h], sum);
#pragma unroll
    for (int c = 0; c < D / 32; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int e = h * 2 + half;
        *reinterpret_cast<float4*>(values + slot * D + c * 32 + t * 8 + half * 4) = make_float4(
            st.acc[4 * c][e], st.acc[4 * c + 1][e], st.acc[4 * c + 2][e], st.acc[4 * c + 3][e]);
      }
    }
  }
  __syncthreads();
  join_rows<D>(call, w, stats, values, parts);
  if (w.used > 1 && arrives_last(counters + int64_t{w.token} * gridDim.x + blockIdx.x, w.used)) {
    join_splits(call, w, parts, values);
  }
}

template <int D, bool Fresh>
cudaError_t launch_for(const AttentionCall& call, const FreshHeads& fresh, const Parts& parts,
                       uint32_t* counters, bool overlap, cudaStream_t stream) {
  const int group = call.n_head / call.kv.n_head, chunks = (group + kRows - 1) / kRows;
  const int rows = group < kRows ? group : kRows, offset = shared_bytes<D>(rows);
  const int bytes = offset + (Fresh ? fresh_bytes<D>(rows) : 0);
  const auto kernel = decode_kernel<D, Fresh>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(call.kv.n_head * chunks),
                  static_cast<unsigned>(call.tokens), static_cast<unsigned>(parts.splits));
  return launch_overlapped(overlap, kernel, grid, kWarps<D> * 32, static_cast<size_t>(bytes),
                           stream, call, fresh, parts, counters, offset);
}

}  // namespace

bool attention_decode_supports(const AttentionCall& call) {
  const int d = call.kv.dim_k;
  return call.kv.type == MINFER_TYPE_F16 && call.kv.dim_v == d &&
         (d == 64 || d == 96 || d == 128 || d == 256);
}

bool attention_decode_takes_fresh(const AttentionCall& call) {
  return attention_decode_supports(call) && call.kv.dim_k <= 128;
}

int attention_decode_splits(const AttentionCall& call, int sms) {
  const int group = call.n_head / call.kv.n_head;
  const int64_t blocks =
      int64_t{call.kv.n_head} * ((group + kRows - 1) / kRows) * (call.tokens > 0 ? call.tokens : 1);
  const int64_t positions = int64_t{call.max_pages} * call.kv.page_tokens;
  const int64_t most = std::clamp<int64_t>((positions + kMinKeys - 1) / kMinKeys, 1, kMaxSplits);
  // Rounds of blocks on the device over the splits is what a split's part of the time comes to;
  // more splits have more to join, so the first within a tenth of the best.
  const auto cost = [&](int64_t splits) {
    return static_cast<double>((blocks * splits + sms - 1) / sms) / static_cast<double>(splits);
  };
  double best = cost(1);
  for (int64_t s = 2; s <= most; ++s) best = std::min(best, cost(s));
  int64_t splits = 1;
  while (cost(splits) > 1.1 * best) ++splits;
  return static_cast<int>(splits);
}

cudaError_t launch_attention_decode(const AttentionCall& call, const FreshHeads* fresh, int splits,
                                    void* workspace, uint32_t* counters, bool overlap,
                                    cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  if (fresh && call.tokens != 1) return cudaErrorInvalidValue;
  const Parts parts = attention_parts(call, splits, workspace);
  const auto launch = [&](auto with, auto without) {
    return fresh ? with(call, *fresh, parts, counters, overlap, stream)
                 : without(call, FreshHeads(), parts, counters, overlap, stream);
  };
  switch (call.kv.dim_k) {
    case 64:
      return launch(launch_for<64, true>, launch_for<64, false>);
    case 96:
      return launch(launch_for<96, true>, launch_for<96, false>);
    case 128:
      return launch(launch_for<128, true>, launch_for<128, false>);
    case 256:
      return fresh ? cudaErrorInvalidValue
                   : launch_for<256, false>(call, FreshHeads(), parts, counters, overlap, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace minfer_cuda
