// SOFTMAX, ARG_MAX and TOP_K: row reductions and selections (see basic.h).
#include "basic.h"
#include "overlap.cuh"

namespace minfer_cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ const char* row_of(const View& v, int row) {
  return v.data + (row % v.ne[1]) * v.nb[1] + (row / v.ne[1] % v.ne[2]) * v.nb[2] +
         (row / v.ne[1] / v.ne[2]) * v.nb[3];
}

__device__ __forceinline__ bool row_is_padding(const Limit& limit, const View& v, int row) {
  return is_padding(limit, 0, row % v.ne[1], row / v.ne[1] % v.ne[2], row / v.ne[1] / v.ne[2]);
}

__global__ void __launch_bounds__(kThreads)
    softmax_kernel(float scale, View out, View x, Limit limit) {
  __shared__ float scratch[2][32];
  const int row = blockIdx.x, n = x.ne[0];
  const auto* from = reinterpret_cast<const float*>(row_of(x, row));
  auto* to = reinterpret_cast<float*>(const_cast<char*>(row_of(out, row)));
  if (row_is_padding(limit, x, row)) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = 0.f;
    return;
  }
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) largest = fmaxf(largest, from[i] * scale);
  largest = block_max(largest, scratch[0]);
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(from[i] * scale - largest);
  sum = block_sum(sum, scratch[1]);
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = expf(from[i] * scale - largest) / sum;
}

/// A value and its index as one key whose order is: larger value, then lower index; NaN lowest.
__device__ __forceinline__ uint64_t order_key(float v, int index) {
  uint32_t bits = __float_as_uint(v + 0.f);  // -0 and +0 are equal
  bits = isnan(v) ? 0u : (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
  return (static_cast<uint64_t>(bits) << 32) | (0xffffffffu - static_cast<uint32_t>(index));
}

__device__ __forceinline__ uint64_t block_max_key(uint64_t key, uint64_t* scratch) {
#pragma unroll
  for (int o = 16; o; o >>= 1) {
    const uint64_t other = __shfl_xor_sync(~0u, key, o);
    key = other > key ? other : key;
  }
  const int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  if ((threadIdx.x & 31) == 0) scratch[warp] = key;
  __syncthreads();
  key = scratch[0];
  for (int w = 1; w < warps; ++w) key = scratch[w] > key ? scratch[w] : key;
  __syncthreads();
  return key;
}

__global__ void __launch_bounds__(kThreads)
    arg_max_parts_kernel(View x, Limit limit, uint64_t* parts) {
  __shared__ uint64_t scratch[kThreads / 32];
  start_overlapped();
  const int row = blockIdx.x, n = x.ne[0];
  uint64_t key = 0;
  if (!row_is_padding(limit, x, row)) {
    const auto* from = reinterpret_cast<const float*>(row_of(x, row));
#pragma unroll 8
    for (int i = blockIdx.y * kThreads + threadIdx.x; i < n; i += gridDim.y * kThreads) {
      const uint64_t k = order_key(from[i], i);
      key = k > key ? k : key;
    }
  }
  key = block_max_key(key, scratch);
  if (threadIdx.x == 0) parts[row * kArgMaxParts + blockIdx.y] = key;
}

__global__ void arg_max_final_kernel(View out, View x, Limit limit, const uint64_t* parts, int n) {
  start_overlapped();
  const int row = blockIdx.x, lane = threadIdx.x;
  uint64_t key = 0;
  for (int i = lane; i < n; i += 32) {
    const uint64_t k = parts[row * kArgMaxParts + i];
    key = k > key ? k : key;
  }
#pragma unroll
  for (int o = 16; o; o >>= 1) {
    const uint64_t other = __shfl_xor_sync(~0u, key, o);
    key = other > key ? other : key;
  }
  if (lane == 0) {
    const bool padding = row_is_padding(limit, x, row);
    const int index = static_cast<int>(0xffffffffu - static_cast<uint32_t>(key));
    *at<int32_t>(out, row, 0, 0, 0) = padding ? 0 : index;
  }
}

/// k rounds of a block-wide search for the largest key below the last one found.
__global__ void __launch_bounds__(kThreads) top_k_kernel(View out, View x, int k, Limit limit) {
  __shared__ uint64_t scratch[kThreads / 32];
  const int row = blockIdx.x, n = x.ne[0];
  auto* to = reinterpret_cast<int32_t*>(const_cast<char*>(row_of(out, row)));
  if (row_is_padding(limit, x, row)) {
    for (int i = threadIdx.x; i < k; i += blockDim.x) to[i] = 0;
    return;
  }
  const auto* from = reinterpret_cast<const float*>(row_of(x, row));
  uint64_t below = ~0ull;
  for (int found = 0; found < k; ++found) {
    uint64_t key = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      const uint64_t candidate = order_key(from[i], i);
      if (candidate < below && candidate > key) key = candidate;
    }
    below = block_max_key(key, scratch);
    if (threadIdx.x == 0)
      to[found] = static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(below));
  }
}

int rows_of(const View& v) {
  return v.ne[1] * v.ne[2] * v.ne[3];
}

}  // namespace

cudaError_t launch_softmax(float scale, const View& out, const View& x, const Limit& limit,
                           cudaStream_t stream) {
  if (rows_of(x) == 0 || x.ne[0] == 0) return cudaSuccess;
  softmax_kernel<<<rows_of(x), kThreads, 0, stream>>>(scale, out, x, limit);
  return cudaPeekAtLastError();
}

cudaError_t launch_arg_max(const View& out, const View& x, const Limit& limit, void* scratch,
                           bool overlap, cudaStream_t stream) {
  if (rows_of(x) == 0) return cudaSuccess;
  auto* parts = static_cast<uint64_t*>(scratch);
  const int used = min(kArgMaxParts, (x.ne[0] + 4 * kThreads - 1) / (4 * kThreads));
  const auto rows = static_cast<unsigned>(rows_of(x));
  const cudaError_t error =
      launch_overlapped(overlap, arg_max_parts_kernel, dim3(rows, static_cast<unsigned>(used)),
                        kThreads, 0, stream, x, limit, parts);
  if (error != cudaSuccess) return error;
  return launch_overlapped(overlap, arg_max_final_kernel, dim3(rows), 32, 0, stream, out, x, limit,
                           parts, used);
}

cudaError_t launch_top_k(const View& out, const View& x, int k, const Limit& limit,
                         cudaStream_t stream) {
  if (rows_of(x) == 0) return cudaSuccess;
  top_k_kernel<<<rows_of(x), kThreads, 0, stream>>>(out, x, k, limit);
  return cudaPeekAtLastError();
}

}  // namespace minfer_cuda
