// Matrix times f32 activations for every type: dequantise 32 weights into registers, multiply
// (matmul.h).
//
// Lane = weight row, a warp takes every eighth sub-block of 32 along k, a block covers 32 rows and
// up to eight tokens. Slow for many tokens, exact for all: the reference that the other families
// are tested against on the device.
#include "matmul.h"
#include "tile.cuh"

namespace minfer_cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kTokens = 8;

/// acc[t] += the dot products of this lane's row with tokens t over this warp's share of k.
template <uint32_t Type, int N>
__device__ __forceinline__ void dot_rows(const uint8_t* group, int id, const float* const (&x)[N],
                                         int used, float (&acc)[N]) {
  using T = Tile<Type>;
  const int lane = threadIdx.x & 31;
  for (int sub = threadIdx.x >> 5; sub * 32 < id; sub += kWarps) {
    float w[32];
    dequantize32<Type>(group + int64_t{sub / T::kSubs} * T::kTileBytes, lane, sub % T::kSubs, w);
#pragma unroll
    for (int t = 0; t < N; ++t) {
      if (t >= used) break;
      const float* from = x[t] + sub * 32;
      if (T::kInt8 || sub * 32 + 32 <= id) {
#pragma unroll
        for (int i = 0; i < 32; ++i) acc[t] = fmaf(w[i], from[i], acc[t]);
      } else {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if (sub * 32 + i < id) acc[t] = fmaf(w[i], from[i], acc[t]);
        }
      }
    }
  }
}

/// Sums acc over the warps of the block; the result for (token t, lane) is returned to warp t.
template <int N>
__device__ __forceinline__ float reduce_warps(const float (&acc)[N]) {
  __shared__ float sums[kWarps][N][32];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
#pragma unroll
  for (int t = 0; t < N; ++t) sums[warp][t][lane] = acc[t];
  __syncthreads();
  float v = 0.f;
  if (warp < N) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) v += sums[w][warp][lane];
  }
  return v;
}

template <uint32_t Type>
__global__ void __launch_bounds__(kWarps * 32)
    generic_kernel(const SegmentGroups groups, const float* x, int64_t x_stride) {
  using T = Tile<Type>;
  int group = blockIdx.x;
  const MatmulSegment& s = find_segment(groups, group);
  const int tokens = groups.call.tokens, first = blockIdx.y * kTokens, id = groups.call.id;
  const int valid = valid_of(groups.call.valid, tokens);
  const float* rows[kTokens];
  float acc[kTokens] = {};
#pragma unroll
  for (int t = 0; t < kTokens; ++t) rows[t] = x + (first + t) * x_stride;
  const int used = max(0, min(kTokens, valid - first));
  if (used > 0) {
    const int64_t bytes = int64_t{tiles_of_row<T>(id)} * T::kTileBytes;
    dot_rows<Type>(s.weight + group * bytes, id, rows, used, acc);
  }
  const float v = reduce_warps(acc);
  const int token = first + (threadIdx.x >> 5);
  if (token < tokens) {
    put_result(s, group * kTileRows + (threadIdx.x & 31), token, token >= valid, v);
  }
}

template <uint32_t Type>
__global__ void __launch_bounds__(kWarps * 32) experts_kernel(const ExpertCall call) {
  using T = Tile<Type>;
  const int token = blockIdx.y / call.k, j = blockIdx.y % call.k;
  const bool padding = token >= valid_of(call.valid, call.tokens);
  float acc[1] = {};
  const float* const rows[1] = {call.x + token * call.x_token_stride + j * call.x_slot_stride};
  if (!padding) {
    const int expert = call.ids[token * call.ids_token_stride + j];
    if (expert >= 0 && expert < call.experts) {
      const int64_t group_bytes = int64_t{tiles_of_row<T>(call.id)} * T::kTileBytes;
      const int64_t row_groups = (call.od + kTileRows - 1) / kTileRows;
      dot_rows<Type>(call.weight + (expert * row_groups + blockIdx.x) * group_bytes, call.id, rows,
                     1, acc);
    }
  }
  const float v = reduce_warps(acc);
  const int row = blockIdx.x * kTileRows + (threadIdx.x & 31);
  if (threadIdx.x < 32 && row < call.od) {
    call.out[token * call.out_token_stride + j * call.out_slot_stride + row] = padding ? 0.f : v;
  }
}

}  // namespace

cudaError_t launch_matmul_generic(const MatmulCall& call, const float* x, int64_t x_stride,
                                  cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  const auto run = [&](uint32_t type, const SegmentGroups& groups, int total) {
    const dim3 grid(static_cast<unsigned>(total),
                    static_cast<unsigned>((call.tokens + kTokens - 1) / kTokens));
    const bool known = dispatch_type(type, [&]<uint32_t Type>() {
      generic_kernel<Type><<<grid, kWarps * 32, 0, stream>>>(groups, x, x_stride);
    });
    return known ? cudaPeekAtLastError() : cudaErrorInvalidValue;
  };
  return for_each_type_run(call, kTileRows, run);
}

cudaError_t launch_matmul_experts(const ExpertCall& call, cudaStream_t stream) {
  if (call.tokens == 0 || call.k == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>((call.od + kTileRows - 1) / kTileRows),
                  static_cast<unsigned>(call.tokens * call.k));
  const bool known = dispatch_type(call.type, [&]<uint32_t Type>() {
    experts_kernel<Type><<<grid, kWarps * 32, 0, stream>>>(call);
  });
  return known ? cudaPeekAtLastError() : cudaErrorInvalidValue;
}

}  // namespace minfer_cuda
