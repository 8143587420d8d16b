// Decode attention on f16 tensor cores (see attention.h): the query heads of one KV head are the
// rows of an MMA tile, so that K and V are read once for all of them.
//
// A warp takes 16 positions at a time. Neither K nor V passes through shared memory: a contraction
// may take its elements in any order, so lane (g, t) reads 16 consecutive bytes of K rows g and
// g + 8 and calls them the operand's pairs t; columns may be named in any order, so it reads 8
// consecutive bytes of four V rows and calls them column g of four tiles. Queries and probabilities
// enter as the sum of two f16 values, which keeps f32 accuracy. Fragment letters are those of
// mma.cuh.
#include <cuda_fp16.h>

#include "attention_share.cuh"
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

/// The queries as operand fragments: [D / 16][high, low][lane].
template <int D>
__device__ __forceinline__ void stage_queries(const AttentionCall& call, const Share& w,
                                              uint4* to) {
  for (int i = threadIdx.x; i < D / 16 * 32; i += kWarps<D> * 32) {
    const int step = i / 32, g = i % 32 / 4, t = i % 4;
    // Pair t of k-step 2 j + s is dims 32 j + 8 t + 4 s.
    const int dim = step / 2 * 32 + t * 8 + step % 2 * 4;
    SplitPair pair[2][2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (g + 8 * h >= w.heads) continue;
      const char* row =
          call.q + (w.first_head + g + 8 * h) * call.q_nb_head + int64_t{w.token} * call.q_nb_token;
      const auto* q = reinterpret_cast<const float*>(row) + dim;
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

/// Where K and V of the tile's positions are: lane l knows position first + l % 16. Positions
/// past the end repeat the last one.
__device__ __forceinline__ const char* row_of(const AttentionCall& call, const Share& w, int first,
                                              int lane) {
  const KvPages& kv = call.kv;
  const int j = min(first + lane % kKeys, w.end - 1);
  const int page = call.block_table[w.seq * call.max_pages + j / kv.page_tokens];
  return kv_page(kv, page) + kv_row(kv, w.kv_head, j % kv.page_tokens) * kv.stride_k * 2;
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

template <int D>
__device__ __forceinline__ void add_tile(const AttentionCall& call, const Share& w, int first,
                                         const uint4* queries, RowState<D>& st) {
  constexpr bool kEarly = D <= 128;  // registers allow V to be in flight with K
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const char* row = row_of(call, w, first, lane);
  const char* key_rows[2] = {from_lane(row, g), from_lane(row, g + 8)};
  const char* value_rows[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    value_rows[k] = from_lane(row, t * 2 + (k & 1) + (k >> 1) * 8) + call.kv.v;
  }
  uint4 keys[D / 32][2];
#pragma unroll
  for (int j = 0; j < D / 32; ++j) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      keys[j][n] = *reinterpret_cast<const uint4*>(key_rows[n] + (j * 32 + t * 8) * 2);
    }
  }
  ValueRows<D> values;
  if constexpr (kEarly) values.load(value_rows, g);

  float s[2][4] = {};
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    const uint4 high = queries[step * 64 + lane], low = queries[step * 64 + 32 + lane];
    const uint32_t a[4] = {high.x, high.y, high.z, high.w};
    const uint32_t rest[4] = {low.x, low.y, low.z, low.w};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const uint4& k = keys[step / 2][n];
      const uint32_t b0 = step % 2 ? k.z : k.x, b1 = step % 2 ? k.w : k.y;
      mma_f16(s[n], rest, b0, b1);
      mma_f16(s[n], a, b0, b1);
    }
  }
  weigh<D>(call, w.end - first, t, s, st);

  uint32_t p[4], rest[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const SplitPair pair = split_pair(s[i >> 1][(i & 1) * 2], s[i >> 1][(i & 1) * 2 + 1]);
    p[i] = pair.high, rest[i] = pair.low;
  }
  if constexpr (!kEarly) values.load(value_rows, g);
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    uint32_t b0, b1;
    values.operand(n / 4, n % 4, b0, b1);
    mma_f16(st.acc[n], rest, b0, b1);
    mma_f16(st.acc[n], p, b0, b1);
  }
}

/// Shared memory: queries, then, in their place, the warps' results, then the joined splits.
template <int D>
constexpr int shared_bytes(int rows) {
  const int queries = D / 16 * 64 * 16, results = kWarps<D> * rows * (D * 4 + 8);
  const int joined = join_floats(rows, D) * 4;
  return queries > results ? (queries > joined ? queries : joined)
                           : (results > joined ? results : joined);
}

template <int D>
__global__ void __launch_bounds__(kWarps<D> * 32, 1)
    decode_kernel(const AttentionCall call, const Parts parts, uint32_t* counters) {
  extern __shared__ __align__(16) uint8_t shared[];
  start_overlapped();
  Share w;
  if (!take_share<kRows>(call, parts.splits, w)) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  auto* queries = reinterpret_cast<uint4*>(shared);
  stage_queries<D>(call, w, queries);
  __syncthreads();
  RowState<D> st;
  for (int first = w.begin + warp * kKeys; first < w.end; first += kWarps<D> * kKeys) {
    add_tile<D>(call, w, first, queries, st);
  }
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
  join_warps(call, w, stats, values, w.heads, D, parts);
  if (w.used > 1 && arrives_last(counters + int64_t{w.token} * gridDim.x + blockIdx.x, w.used)) {
    join_splits(call, w, parts, values);
  }
}

template <int D>
cudaError_t launch_for(const AttentionCall& call, const Parts& parts, uint32_t* counters,
                       bool overlap, cudaStream_t stream) {
  const int group = call.n_head / call.kv.n_head, chunks = (group + kRows - 1) / kRows;
  const int bytes = shared_bytes<D>(group < kRows ? group : kRows);
  const cudaError_t error =
      cudaFuncSetAttribute(decode_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(call.kv.n_head * chunks),
                  static_cast<unsigned>(call.tokens), static_cast<unsigned>(parts.splits));
  return launch_overlapped(overlap, decode_kernel<D>, grid, kWarps<D> * 32,
                           static_cast<size_t>(bytes), stream, call, parts, counters);
}

}  // namespace

bool attention_decode_supports(const AttentionCall& call) {
  const int d = call.kv.dim_k;
  return call.kv.type == MINFER_TYPE_F16 && call.kv.dim_v == d &&
         (d == 64 || d == 96 || d == 128 || d == 256);
}

cudaError_t launch_attention_decode(const AttentionCall& call, int splits, void* workspace,
                                    uint32_t* counters, bool overlap, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  const Parts parts = attention_parts(call, splits, workspace);
  switch (call.kv.dim_k) {
    case 64:
      return launch_for<64>(call, parts, counters, overlap, stream);
    case 96:
      return launch_for<96>(call, parts, counters, overlap, stream);
    case 128:
      return launch_for<128>(call, parts, counters, overlap, stream);
    case 256:
      return launch_for<256>(call, parts, counters, overlap, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace minfer_cuda
