// Decode attention on f16 tensor cores (see attention.h): up to eight query heads of one KV head
// are the columns of an MMA tile, so that K and V are read once for all of them.
//
// A warp takes 16 positions at a time, which are the rows of the scores and what the values are
// summed over. Neither K nor V passes through shared memory: a contraction may take its elements in
// any order, so lane (g, t) reads 16 consecutive bytes of K rows g and g + 8 and calls them the
// operand's pairs t; rows may be named in any order, so it reads 8 consecutive bytes of four V rows
// and calls them row g of four half tiles. Queries and probabilities enter as the sum of two f16
// values, which keeps f32 accuracy. Fragment letters are those of mma.cuh.
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

constexpr int kHeads = 8;  // of a block at most
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

/// The queries as operand fragments, [D / 16][lane]: pairs t and t + 4 of head g, high and low.
/// `row(h)` is query h of the block.
template <int D, class Row>
__device__ __forceinline__ void stage_queries(const AttentionCall& call, const Share& w, Row row,
                                              uint4* to) {
  for (int i = threadIdx.x; i < D / 16 * 32; i += kWarps<D> * 32) {
    const int step = i / 32, g = i % 32 / 4, t = i % 4;
    // Pairs t and t + 4 of k-step 2 j + s are dims 32 j + 8 t + 4 s to + 3.
    const int dim = step / 2 * 32 + t * 8 + step % 2 * 4;
    SplitPair pair[2] = {};
    if (g < w.heads) {
      const float* q = row(g) + dim;
      pair[0] = split_pair(q[0] * call.scale, q[1] * call.scale);
      pair[1] = split_pair(q[2] * call.scale, q[3] * call.scale);
    }
    to[i] = make_uint4(pair[0].high, pair[1].high, pair[0].low, pair[1].low);
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
  /// Operand of tile m of columns 32 c to 32 c + 31: its row g is column 32 c + 4 g + 2 m, its row
  /// g + 8 the column after it.
  __device__ __forceinline__ void operand(int c, int m, uint32_t (&a)[4]) const {
    const auto word = [&](int k) { return m ? v[c][k].y : v[c][k].x; };
    a[0] = __byte_perm(word(0), word(1), 0x5410);
    a[1] = __byte_perm(word(0), word(1), 0x7632);
    a[2] = __byte_perm(word(2), word(3), 0x5410);
    a[3] = __byte_perm(word(2), word(3), 0x7632);
  }
};

/// Running softmax and sums of a warp: heads 2 t and 2 t + 1.
template <int D>
struct HeadState {
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};  ///< sum: this lane's part
  float acc[D / 16][4] = {};  ///< [2 c + m]: columns 32 c + 4 g + 2 m (twice), + 1 (twice)
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

/// Soft cap, mask and online softmax of a tile's scores: keys g (twice) and g + 8 (twice).
template <int D>
__device__ __forceinline__ void weigh(const AttentionCall& call, int keys_left, int g,
                                      float (&s)[4], HeadState<D>& st) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float largest = st.largest[e];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float& v = s[n * 2 + e];
      if (call.soft_cap > 0.f) v = call.soft_cap * tanhf(v / call.soft_cap);
      if (n * 8 + g >= keys_left) v = -INFINITY;
      largest = fmaxf(largest, v);
    }
#pragma unroll
    for (int o = 4; o < 32; o *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
    const float keep = expf(st.largest[e] - largest);
    st.largest[e] = largest;
    st.sum[e] *= keep;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float& v = s[n * 2 + e];
      v = expf(v - largest);
      st.sum[e] += v;
    }
#pragma unroll
    for (int n = 0; n < D / 16; ++n) st.acc[n][e] *= keep, st.acc[n][2 + e] *= keep;
  }
}

/// Turns rows of pairs, lane (g, t) holding columns 2 t and 2 t + 1 of row g, into columns.
__device__ __forceinline__ uint32_t transposed(uint32_t pair) {
  uint32_t out;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(pair));
  return out;
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
                                         Values values, HeadState<D>& st) {
  const int lane = threadIdx.x & 31;
  // One chain of sums each for the halves of the queries: a chain's length is what a tile waits
  // for.
  float s[4] = {}, s_low[4] = {};
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    const uint4 q = queries[step * 32 + lane];
    const uint4 &k0 = keys.k[step / 2][0], &k1 = keys.k[step / 2][1];
    const uint32_t a[4] = {step % 2 ? k0.z : k0.x, step % 2 ? k1.z : k1.x, step % 2 ? k0.w : k0.y,
                           step % 2 ? k1.w : k1.y};
    mma_f16(s_low, a, q.z, q.w);
    mma_f16(s, a, q.x, q.y);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) s[i] += s_low[i];
  weigh<D>(call, keys_left, lane >> 2, s, st);

  const SplitPair p0 = split_pair(s[0], s[1]), p1 = split_pair(s[2], s[3]);
  const uint32_t high[2] = {transposed(p0.high), transposed(p1.high)};
  const uint32_t low[2] = {transposed(p0.low), transposed(p1.low)};
  const ValueRows<D> v = values();
#pragma unroll
  for (int n = 0; n < D / 16; ++n) {
    uint32_t a[4];
    v.operand(n / 2, n % 2, a);
    mma_f16(st.acc[n], a, low[0], low[1]);
    mma_f16(st.acc[n], a, high[0], high[1]);
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
                                      HeadState<D>& st) {
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
  const int queries = D / 16 * 32 * 16, results = kWarps<D> * rows * (D * 4 + 8);
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

  /// Norms and rotates a head that the warp holds in `x`, in its row of shared memory.
  __device__ __forceinline__ float* make(const HeadRows& r, const Rope& rope, int row,
                                         const float (&x)[D / 32]) {
    const int lane = threadIdx.x & 31;
    float* v = rows + row * D;
#pragma unroll
    for (int c = 0; c < D / 32; ++c) v[c * 32 + lane] = x[c];
    __syncwarp();
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
    const int n = w.heads + (has_key ? 2 : 0);
    // A warp's first two heads are loaded together: a load takes longer than all that follows.
    for (int first = warp; first < n; first += 2 * kWarps<D>) {
      float x[2][D / 32];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int h = first + k * kWarps<D>;
        if (h >= n) continue;
        const HeadRows& r = h < w.heads ? fresh.query : h == w.heads ? fresh.key : fresh.value;
        const int head = h < w.heads ? w.first_head + h : w.kv_head;
        const auto* from = reinterpret_cast<const float*>(r.x + head * r.nb_head);
#pragma unroll
        for (int c = 0; c < D / 32; ++c) x[k][c] = __ldcg(from + c * 32 + lane);
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int h = first + k * kWarps<D>;
        if (h >= n) continue;
        if (h < w.heads) {
          make(fresh.query, fresh.rope, h, x[k]);
        } else {
          keep(call, fresh, w, h == w.heads, store, x[k]);
        }
      }
    }
    return {key_value, key_value + D, has_key ? pos : INT_MAX};
  }

  /// The key or value of the block's KV head, to shared memory and the cache.
  __device__ __forceinline__ void keep(const AttentionCall& call, const FreshHeads& fresh,
                                       const Share& w, bool is_key, bool store,
                                       const float (&x)[D / 32]) {
    const int lane = threadIdx.x & 31;
    const float* v =
        make(is_key ? fresh.key : fresh.value, fresh.rope, w.heads + (is_key ? 0 : 1), x);
    for (int i = lane; i < D; i += 32) key_value[(is_key ? 0 : D) + i] = __float2half_rn(v[i]);
    if (!store) return;
    char* page = kv_page(call.kv, slot / call.kv.page_tokens);
    const int64_t row = kv_row(call.kv, w.kv_head, static_cast<int>(slot % call.kv.page_tokens));
    for (int i = lane; i < D; i += 32) {
      kv_store(call.kv, is_key ? KvPart::kK : KvPart::kV, page, row, i, v[i]);
    }
  }
};

/// Writes a finished head, element c * 32 + lane in v[c].
template <int D>
__device__ __forceinline__ void put_row(const AttentionCall& call, int token, int head,
                                        const float (&v)[D / 32]) {
  const int lane = threadIdx.x & 31;
  if (call.out) {
    auto* out =
        reinterpret_cast<float*>(call.out + head * call.out_nb_head + token * call.out_nb_token);
#pragma unroll
    for (int c = 0; c < D / 32; ++c) out[c * 32 + lane] = v[c];
  }
  if (call.out_int8.quants) put_int8_blocks(call.out_int8, token, call.n_head * D, head * D, v);
}

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
    if (whole) {
#pragma unroll
      for (int c = 0; c < D / 32; ++c) v[c] *= factor;
      put_row<D>(call, w.token, head, v);
      continue;
    }
    const int64_t at = parts.index(call, w.token, head, w.split);
#pragma unroll
    for (int c = 0; c < D / 32; ++c) parts.values[at * D + c * 32 + lane] = v[c];
    if (lane == 0) parts.stats[at] = make_float2(largest, sum);
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
  const Work work = find_share<kHeads>(call, parts.splits, w);
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
  HeadState<D> st;
  tiles.add(call, w, row, queries, st);
  __syncthreads();
  auto* values = reinterpret_cast<float*>(shared);
  auto* stats = reinterpret_cast<float2*>(values + kWarps<D> * w.heads * D);
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float sum = st.sum[e];
#pragma unroll
    for (int o = 4; o < 32; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
    const int h = t * 2 + e;
    if (h >= w.heads) continue;
    const int at = warp * w.heads + h;
    if (g == 0) stats[at] = make_float2(st.largest[e], sum);
#pragma unroll
    for (int c = 0; c < D / 32; ++c) {
      *reinterpret_cast<float4*>(values + at * D + c * 32 + g * 4) = make_float4(
          st.acc[2 * c][e], st.acc[2 * c][2 + e], st.acc[2 * c + 1][e], st.acc[2 * c + 1][2 + e]);
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
  const int group = call.n_head / call.kv.n_head, chunks = (group + kHeads - 1) / kHeads;
  const int rows = group < kHeads ? group : kHeads, offset = shared_bytes<D>(rows);
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

int attention_decode_splits(const AttentionCall& call, int sms) {
  const int group = call.n_head / call.kv.n_head;
  const int64_t blocks = int64_t{call.kv.n_head} * ((group + kHeads - 1) / kHeads) *
                         (call.tokens > 0 ? call.tokens : 1);
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
      return launch(launch_for<256, true>, launch_for<256, false>);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace minfer_cuda
