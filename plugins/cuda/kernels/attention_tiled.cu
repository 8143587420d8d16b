// Tiled attention on f16 tensor cores for prefill (see attention.h).
//
// A block takes 64 query rows of one KV head: the tokens of one sequence times the query heads that
// share the head, so K and V are read once for the whole group. It walks the seen positions in
// tiles, keeps an online softmax per row in registers, and skips tiles that no row sees. Scores and
// probabilities never leave registers: the result fragment of Q K^T has the layout of the operand
// fragment of P V.
#include <cuda_fp16.h>

#include <climits>

#include "attention.h"
#include "kv.cuh"
#include "mma.cuh"

namespace minfer_cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kRows = kWarps * 16;

template <int D>
inline constexpr int kKeys = D > 128 ? 32 : 64;  // positions of a tile

template <int D>
struct Shared {
  static constexpr int kStride = D + 8;  // halves; D / 8 is even or D is 80: an odd count of units
  alignas(16) __half q[kRows * kStride];
  alignas(16) __half k[kKeys<D> * kStride];
  alignas(16) __half v[kKeys<D> * kStride];
};

/// What a block works on.
struct Work {
  int seq, first_token, tokens;  ///< tokens of the step
};

/// The block'th tile of tokens, tiles never crossing sequences; false when there are fewer.
__device__ __forceinline__ bool find_work(const AttentionCall& call, int block, int per_tile,
                                          Work& w) {
  const int seqs = valid_of(call.valid_seqs, call.seqs);
  const int tokens = valid_of(call.valid_tokens, call.tokens);
  for (int s = 0; s < seqs; ++s) {
    const int begin = call.q_start[s], end = min(call.q_start[s + 1], tokens);
    const int tiles = (max(end - begin, 0) + per_tile - 1) / per_tile;
    if (block < tiles) {
      w.seq = s;
      w.first_token = begin + block * per_tile;
      w.tokens = min(per_tile, end - w.first_token);
      return true;
    }
    block -= tiles;
  }
  return false;
}

/// Copies positions [first, first + kKeys) of K or V as f16; positions from `last` on become zeros.
template <int D, uint32_t Type>
__device__ __forceinline__ void stage_rows(__half* to, const AttentionCall& call, KvPart part,
                                           int seq, int kv_head, int first, int last) {
  constexpr int kUnits = D / 8;
  const KvPages& kv = call.kv;
  for (int i = threadIdx.x; i < kKeys<D> * kUnits; i += kWarps * 32) {
    const int j = first + i / kUnits, unit = i % kUnits;
    __half* at = to + (i / kUnits) * Shared<D>::kStride + unit * 8;
    if (j >= last) {
      *reinterpret_cast<uint4*>(at) = make_uint4(0, 0, 0, 0);
      continue;
    }
    const char* page = kv_page(kv, call.block_table[seq * call.max_pages + j / kv.page_tokens]);
    const int64_t row = kv_row(kv, kv_head, j % kv.page_tokens);
    const char* data = page + (part == KvPart::kK ? 0 : kv.v);
    if constexpr (Type == MINFER_TYPE_F16) {
      copy16_async(at, reinterpret_cast<const __half*>(data) + row * D + unit * 8);
    } else {
      const char* scales = page + (part == KvPart::kK ? kv.k_scales : kv.v_scales);
      const float d =
          __half2float(reinterpret_cast<const __half*>(scales)[row * (D / 32) + unit / 4]);
      const auto* q = reinterpret_cast<const int8_t*>(data) + row * D + unit * 8;
#pragma unroll
      for (int e = 0; e < 8; ++e) at[e] = __float2half_rn(d * static_cast<float>(q[e]));
    }
  }
}

template <int D, uint32_t Type>
__global__ void __launch_bounds__(kWarps * 32)
    tiled_kernel(const AttentionCall call, int per_tile) {
  extern __shared__ __align__(16) uint8_t raw[];
  auto& sh = *reinterpret_cast<Shared<D>*>(raw);
  constexpr int kStride = Shared<D>::kStride, kN = kKeys<D>;
  Work work;
  if (!find_work(call, static_cast<int>(gridDim.x - 1 - blockIdx.x), per_tile, work)) return;
  const int kv_head = blockIdx.y, group = call.n_head / call.kv.n_head;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int rows = work.tokens * group;
  const int kv_len = call.kv_len[work.seq];

  // Row r of the block: token r / group, head r % group of the KV head.
  for (int i = threadIdx.x; i < kRows * D; i += kWarps * 32) {
    const int row = i / D, e = i % D;
    float q = 0.f;
    if (row < rows) {
      const char* from = call.q + (kv_head * group + row % group) * call.q_nb_head +
                         int64_t{work.first_token + row / group} * call.q_nb_token;
      q = reinterpret_cast<const float*>(from)[e] * call.scale;
    }
    sh.q[row * kStride + e] = __float2half_rn(q);
  }

  // What this lane's two rows see, and what the block sees at all.
  SeenRange seen[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp * 16 + h * 8 + g;
    seen[h] = row < rows ? seen_range(call, kv_len, call.pos[work.first_token + row / group])
                         : SeenRange{0, 0};
  }
  int first = INT_MAX, last = 0;
  for (int i = 0; i < work.tokens; ++i) {
    const SeenRange r = seen_range(call, kv_len, call.pos[work.first_token + i]);
    if (r.last > r.first) first = min(first, r.first), last = max(last, r.last);
  }
  first = first / kN * kN;

  float out[D / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
  for (int key = first; key < last; key += kN) {
    __syncthreads();
    stage_rows<D, Type>(sh.k, call, KvPart::kK, work.seq, kv_head, key, last);
    stage_rows<D, Type>(sh.v, call, KvPart::kV, work.seq, kv_head, key, last);
    copies_done();
    __syncthreads();

    float s[kN / 8][4] = {};
#pragma unroll
    for (int k = 0; k < D; k += 16) {
      uint32_t a[4];
      load_matrices(a, sh.q + (warp * 16 + lane % 16) * kStride + k + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < kN / 8; n += 2) {
        uint32_t b[4];
        load_matrices(b,
                      sh.k + (n * 8 + lane % 8 + lane / 16 * 8) * kStride + k + lane / 8 % 2 * 8);
        mma_f16(s[n], a, b[0], b[1]);
        mma_f16(s[n + 1], a, b[2], b[3]);
      }
    }

    // Soft cap, mask, online softmax.
    float tile_max[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < kN / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int j = key + n * 8 + t * 2 + (i & 1);
        const SeenRange& r = seen[i >> 1];
        float v = s[n][i];
        if (call.soft_cap > 0.f) v = call.soft_cap * tanhf(v / call.soft_cap);
        v = j >= r.first && j < r.last ? v : -INFINITY;
        s[n][i] = v;
        tile_max[i >> 1] = fmaxf(tile_max[i >> 1], v);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float m = tile_max[h];
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
      m = fmaxf(m, largest[h]);
      // A row that has seen nothing yet keeps weight zero, not exp(-inf + inf).
      const float base = m == -INFINITY ? 0.f : m;
      const float keep = __expf(largest[h] - base);
      largest[h] = m;
      sum[h] *= keep;
#pragma unroll
      for (int n = 0; n < kN / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& p = s[n][h * 2 + c];
          p = __expf(p - base);
          sum[h] += p;
        }
      }
#pragma unroll
      for (int n = 0; n < D / 8; ++n) out[n][h * 2] *= keep, out[n][h * 2 + 1] *= keep;
    }

#pragma unroll
    for (int k = 0; k < kN / 16; ++k) {
      const uint32_t a[4] = {pack_half2(s[2 * k][0], s[2 * k][1]),
                             pack_half2(s[2 * k][2], s[2 * k][3]),
                             pack_half2(s[2 * k + 1][0], s[2 * k + 1][1]),
                             pack_half2(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
      for (int n = 0; n < D / 8; n += 2) {
        uint32_t b[4];
        load_matrices_transposed(b, sh.v + (k * 16 + lane % 16) * kStride + n * 8 + lane / 16 * 8);
        mma_f16(out[n], a, b[0], b[1]);
        mma_f16(out[n + 1], a, b[2], b[3]);
      }
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float total = sum[h];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    const int row = warp * 16 + h * 8 + g;
    if (row >= rows) continue;
    const int head = kv_head * group + row % group;
    float factor = 1.f;
    if (call.sinks) {
      const float m = fmaxf(largest[h], call.sinks[head]);
      factor = largest[h] == -INFINITY ? 0.f : __expf(largest[h] - m);
      total = total * factor + __expf(call.sinks[head] - m);
    }
    const float inverse = total > 0.f ? factor / total : 0.f;
    auto* to =
        reinterpret_cast<float*>(call.out + head * call.out_nb_head +
                                 int64_t{work.first_token + row / group} * call.out_nb_token);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      to[n * 8 + t * 2] = out[n][h * 2] * inverse;
      to[n * 8 + t * 2 + 1] = out[n][h * 2 + 1] * inverse;
    }
  }
}

/// Zeros for the padding tokens, which belong to no tile.
__global__ void clear_padding_kernel(const AttentionCall call) {
  const int token = blockIdx.x;
  if (token < valid_of(call.valid_tokens, call.tokens)) return;
  for (int i = threadIdx.x; i < call.n_head * call.kv.dim_v; i += blockDim.x) {
    char* row = call.out + (i / call.kv.dim_v) * call.out_nb_head + token * call.out_nb_token;
    reinterpret_cast<float*>(row)[i % call.kv.dim_v] = 0.f;
  }
}

template <int D, uint32_t Type>
cudaError_t launch_for(const AttentionCall& call, cudaStream_t stream) {
  constexpr auto kBytes = static_cast<int>(sizeof(Shared<D>));
  const cudaError_t error = cudaFuncSetAttribute(
      tiled_kernel<D, Type>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const int group = call.n_head / call.kv.n_head, per_tile = kRows / group;
  // Every sequence may end in a partial tile.
  const int tiles = (call.tokens + per_tile - 1) / per_tile + call.seqs - 1;
  tiled_kernel<D, Type>
      <<<dim3(tiles, call.kv.n_head), kWarps * 32, kBytes, stream>>>(call, per_tile);
  if (call.valid_tokens) clear_padding_kernel<<<call.tokens, 128, 0, stream>>>(call);
  return cudaPeekAtLastError();
}

template <uint32_t Type>
cudaError_t launch_type(const AttentionCall& call, cudaStream_t stream) {
  switch (call.kv.dim_k) {
    case 64:
      return launch_for<64, Type>(call, stream);
    case 80:
      if constexpr (Type == MINFER_TYPE_F16) return launch_for<80, Type>(call, stream);
      return cudaErrorInvalidValue;
    case 96:
      return launch_for<96, Type>(call, stream);
    case 128:
      return launch_for<128, Type>(call, stream);
    case 256:
      return launch_for<256, Type>(call, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

bool attention_tiled_supports(const AttentionCall& call) {
  const int d = call.kv.dim_k, group = call.n_head / call.kv.n_head;
  if (call.kv.dim_v != d || group > kRows) return false;
  if (d != 64 && d != 80 && d != 96 && d != 128 && d != 256) return false;
  if (call.kv.type == MINFER_TYPE_F16) return true;
  return call.kv.type == MINFER_TYPE_Q8_0 && d != 80;
}

cudaError_t launch_attention_tiled(const AttentionCall& call, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  return call.kv.type == MINFER_TYPE_F16 ? launch_type<MINFER_TYPE_F16>(call, stream)
                                         : launch_type<MINFER_TYPE_Q8_0>(call, stream);
}

}  // namespace minfer_cuda
