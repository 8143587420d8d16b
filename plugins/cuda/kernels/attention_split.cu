// Split-KV attention for decode and small batches (see attention.h).
//
// One block serves one token and the query heads of one KV head (up to eight), so K and V are read
// once for all of them. Its warps take tiles of 32 positions in turn. Scores: lane = position, each
// lane walks its own K row in 16-byte pieces. Values: lane = a pair of dims, the warp walks the 32
// positions. Each warp keeps an online softmax.
#include <cuda_fp16.h>

#include "attention_share.cuh"
#include "kv.cuh"
#include "overlap.cuh"

namespace minfer_cuda {
namespace {

constexpr int kWarps = 4;
/// Eight consecutive elements of a K row.
template <uint32_t Type>
__device__ __forceinline__ void load_eight(const char* row, const __half* scales, int i,
                                           float (&v)[8]) {
  if constexpr (Type == MINFER_TYPE_F32) {
    const float4 a = *reinterpret_cast<const float4*>(row + i * 4);
    const float4 b = *reinterpret_cast<const float4*>(row + i * 4 + 16);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  } else if constexpr (Type == MINFER_TYPE_F16) {
    const uint4 raw = *reinterpret_cast<const uint4*>(row + i * 2);
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&words[k]));
      v[2 * k] = f.x, v[2 * k + 1] = f.y;
    }
  } else {
    const uint2 raw = *reinterpret_cast<const uint2*>(row + i);
    const float d = __half2float(scales[i / 32]);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const uint32_t word = k < 4 ? raw.x : raw.y;
      v[k] = d * static_cast<float>(static_cast<int8_t>((word >> (8 * (k & 3))) & 0xff));
    }
  }
}

/// Elements i and i + 1 of a V row; i is even.
template <uint32_t Type>
__device__ __forceinline__ float2 load_pair(const char* row, const __half* scales, int i) {
  if constexpr (Type == MINFER_TYPE_F32) {
    return *reinterpret_cast<const float2*>(row + i * 4);
  } else if constexpr (Type == MINFER_TYPE_F16) {
    return __half22float2(*reinterpret_cast<const __half2*>(row + i * 2));
  } else {
    const auto q = *reinterpret_cast<const char2*>(row + i);
    const float d = __half2float(scales[i / 32]);
    return make_float2(d * static_cast<float>(q.x), d * static_cast<float>(q.y));
  }
}

/// Positions and running softmax of one warp for H heads and C pairs of dims per lane.
template <int H, int C>
struct WarpState {
  float largest[H], sum[H];
  float2 acc[H][C];
};

struct TileRows {
  const char* v[32];
  const __half* v_scales[32];
};

template <uint32_t Type, int H, int C>
__device__ __forceinline__ void add_tile(const AttentionCall& call, int kv_head, int seq, int first,
                                         int last, const float* q, TileRows& rows,
                                         float (*probs)[32], WarpState<H, C>& st) {
  const KvPages& kv = call.kv;
  const int lane = threadIdx.x & 31, j = first + lane;
  const bool live = j < last;
  float score[H];
#pragma unroll
  for (int h = 0; h < H; ++h) score[h] = 0.f;
  if (live) {
    const int page_index = call.block_table[seq * call.max_pages + j / kv.page_tokens];
    const char* page = kv_page(kv, page_index);
    const int64_t row = kv_row(kv, kv_head, j % kv.page_tokens);
    constexpr int kElement = Type == MINFER_TYPE_F32 ? 4 : Type == MINFER_TYPE_F16 ? 2 : 1;
    const char* k = page + row * kv.stride_k * kElement;
    const auto* k_scales =
        reinterpret_cast<const __half*>(page + kv.k_scales) + row * (kv.dim_k / 32);
    rows.v[lane] = page + kv.v + row * kv.stride_v * kElement;
    rows.v_scales[lane] =
        reinterpret_cast<const __half*>(page + kv.v_scales) + row * (kv.dim_v / 32);
#pragma unroll 4
    for (int i = 0; i < kv.stride_k; i += 8) {
      float v[8];
      load_eight<Type>(k, k_scales, i, v);
#pragma unroll
      for (int h = 0; h < H; ++h) {
        const float4 a = *reinterpret_cast<const float4*>(q + h * kv.stride_k + i);
        const float4 b = *reinterpret_cast<const float4*>(q + h * kv.stride_k + i + 4);
        float s = score[h];
        s = fmaf(a.x, v[0], s), s = fmaf(a.y, v[1], s), s = fmaf(a.z, v[2], s);
        s = fmaf(a.w, v[3], s), s = fmaf(b.x, v[4], s), s = fmaf(b.y, v[5], s);
        s = fmaf(b.z, v[6], s), s = fmaf(b.w, v[7], s);
        score[h] = s;
      }
    }
  }
#pragma unroll
  for (int h = 0; h < H; ++h) {
    float s = score[h];
    if (call.soft_cap > 0.f) s = call.soft_cap * tanhf(s / call.soft_cap);
    if (!live) s = -INFINITY;
    const float largest = fmaxf(st.largest[h], warp_max(s));
    const float keep = expf(st.largest[h] - largest);
    const float p = live ? expf(s - largest) : 0.f;
    st.largest[h] = largest;
    st.sum[h] = st.sum[h] * keep + warp_sum(p);
    probs[h][lane] = p;
#pragma unroll
    for (int c = 0; c < C; ++c) st.acc[h][c].x *= keep, st.acc[h][c].y *= keep;
  }
  __syncwarp();
  const int n = min(32, last - first);
#pragma unroll 8
  for (int t = 0; t < n; ++t) {
    const char* v_row = rows.v[t];
    const __half* v_scales = rows.v_scales[t];
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int i = 2 * lane + 64 * c;
      if (i >= kv.stride_v) break;
      const float2 v = load_pair<Type>(v_row, v_scales, i);
#pragma unroll
      for (int h = 0; h < H; ++h) {
        const float p = probs[h][t];
        st.acc[h][c].x = fmaf(p, v.x, st.acc[h][c].x);
        st.acc[h][c].y = fmaf(p, v.y, st.acc[h][c].y);
      }
    }
  }
  __syncwarp();
}

template <int H>
constexpr int shared_floats(int stride_k, int stride_v) {
  const int queries = H * stride_k, results = kWarps * H * (2 + stride_v);
  const int joined = join_floats(H, stride_v);
  return queries > results ? (queries > joined ? queries : joined)
                           : (results > joined ? results : joined);
}

template <uint32_t Type, int H, int C>
__global__ void __launch_bounds__(kWarps * 32)
    split_kernel(const AttentionCall call, const Parts parts, uint32_t* counters) {
  extern __shared__ __align__(16) float shared[];
  __shared__ TileRows rows[kWarps];
  __shared__ float probs[kWarps][H][32];
  start_overlapped();
  Share w;
  if (!take_share<H>(call, parts.splits, w)) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, stride = call.kv.stride_v;
  for (int i = threadIdx.x; i < H * call.kv.stride_k; i += blockDim.x) {
    const int h = i / call.kv.stride_k, e = i % call.kv.stride_k;
    const char* from = call.q + (w.first_head + h) * call.q_nb_head + w.token * call.q_nb_token;
    const bool real = h < w.heads && e < call.kv.dim_k;
    shared[i] = real ? reinterpret_cast<const float*>(from)[e] * call.scale : 0.f;
  }
  __syncthreads();
  WarpState<H, C> st;
#pragma unroll
  for (int h = 0; h < H; ++h) {
    st.largest[h] = -INFINITY, st.sum[h] = 0.f;
#pragma unroll
    for (int c = 0; c < C; ++c) st.acc[h][c] = make_float2(0.f, 0.f);
  }
  for (int first = w.begin + warp * 32; first < w.end; first += kWarps * 32) {
    add_tile<Type, H, C>(call, w.kv_head, w.seq, first, w.end, shared, rows[warp], probs[warp], st);
  }
  __syncthreads();         // the queries in `shared` give way to the warps' results
  float* values = shared;  // [kWarps][H][stride]
  auto* stats = reinterpret_cast<float2*>(shared + kWarps * H * stride);
#pragma unroll
  for (int h = 0; h < H; ++h) {
    if (lane == 0) stats[warp * H + h] = make_float2(st.largest[h], st.sum[h]);
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int i = 2 * lane + 64 * c;
      if (i < stride) {
        *reinterpret_cast<float2*>(values + (warp * H + h) * stride + i) = st.acc[h][c];
      }
    }
  }
  __syncthreads();
  join_warps(call, w, stats, values, H, stride, parts);
  if (w.used > 1 && arrives_last(counters + int64_t{w.token} * gridDim.x + blockIdx.x, w.used)) {
    join_splits(call, w, parts, shared);
  }
}

template <uint32_t Type, int H, int C>
cudaError_t launch_for(const AttentionCall& call, const Parts& parts, uint32_t* counters,
                       bool overlap, cudaStream_t stream) {
  const int group = call.n_head / call.kv.n_head, chunks = (group + H - 1) / H;
  const int bytes = shared_floats<H>(call.kv.stride_k, call.kv.stride_v) * 4;
  const cudaError_t error = cudaFuncSetAttribute(
      split_kernel<Type, H, C>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(call.kv.n_head * chunks),
                  static_cast<unsigned>(call.tokens), static_cast<unsigned>(parts.splits));
  return launch_overlapped(overlap, split_kernel<Type, H, C>, grid, kWarps * 32,
                           static_cast<size_t>(bytes), stream, call, parts, counters);
}

template <uint32_t Type, int C>
cudaError_t launch_heads_for(const AttentionCall& call, const Parts& parts, uint32_t* counters,
                             bool overlap, cudaStream_t stream) {
  const int group = call.n_head / call.kv.n_head;
  if (group == 1) return launch_for<Type, 1, C>(call, parts, counters, overlap, stream);
  if (group <= 4 || C == 8) return launch_for<Type, 4, C>(call, parts, counters, overlap, stream);
  if constexpr (C < 8) return launch_for<Type, 8, C>(call, parts, counters, overlap, stream);
  return cudaErrorInvalidValue;
}

template <uint32_t Type>
cudaError_t launch_type(const AttentionCall& call, const Parts& parts, uint32_t* counters,
                        bool overlap, cudaStream_t stream) {
  if (call.kv.dim_v <= 64) return launch_heads_for<Type, 1>(call, parts, counters, overlap, stream);
  if (call.kv.dim_v <= 128)
    return launch_heads_for<Type, 2>(call, parts, counters, overlap, stream);
  if (call.kv.dim_v <= 256)
    return launch_heads_for<Type, 4>(call, parts, counters, overlap, stream);
  return launch_heads_for<Type, 8>(call, parts, counters, overlap, stream);
}

}  // namespace

int attention_splits(const AttentionCall& call, int sms) {
  const int64_t blocks = int64_t{call.kv.n_head} * (call.tokens > 0 ? call.tokens : 1);
  const int64_t positions = int64_t{call.max_pages} * call.kv.page_tokens;
  int64_t splits = (4 * sms + blocks - 1) / blocks;
  const int64_t useful = (positions + kMinKeys - 1) / kMinKeys;
  if (splits > useful) splits = useful;
  if (splits > kMaxSplits) splits = kMaxSplits;
  return splits < 1 ? 1 : static_cast<int>(splits);
}

uint64_t attention_split_workspace(const AttentionCall& call, int splits) {
  if (splits == 1) return 0;
  const auto heads = static_cast<uint64_t>(call.tokens) * static_cast<uint64_t>(call.n_head) *
                     static_cast<uint64_t>(splits);
  return (heads * static_cast<uint64_t>(call.kv.dim_v) + 3) / 4 * 16 + heads * 8;
}

uint64_t attention_split_counters(const AttentionCall& call) {
  return static_cast<uint64_t>(call.tokens) * static_cast<uint64_t>(call.n_head) * 4;
}

cudaError_t launch_attention_split(const AttentionCall& call, int splits, void* workspace,
                                   uint32_t* counters, bool overlap, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  const Parts parts = attention_parts(call, splits, workspace);
  switch (call.kv.type) {
    case MINFER_TYPE_F32:
      return launch_type<MINFER_TYPE_F32>(call, parts, counters, overlap, stream);
    case MINFER_TYPE_F16:
      return launch_type<MINFER_TYPE_F16>(call, parts, counters, overlap, stream);
    case MINFER_TYPE_Q8_0:
      return launch_type<MINFER_TYPE_Q8_0>(call, parts, counters, overlap, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace minfer_cuda
