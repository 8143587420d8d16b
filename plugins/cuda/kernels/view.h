// What kernels know of tensors: a strided view, and how many entries of one axis a run fills.
//
// Host and device; plain data, passed by value to kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace minfer_cuda {

/// A tensor of up to four dimensions, innermost first; strides in bytes.
struct View {
  char* data = nullptr;
  int32_t ne[4] = {1, 1, 1, 1};
  int64_t nb[4] = {0, 0, 0, 0};
};

/// The valid counts of a run, in device memory, so that a captured graph follows them.
struct StepCounts {
  int32_t tokens;
  int32_t seqs;
  int32_t outs;
  int32_t reserved;
};

/// Entries of `axis` from *count on are padding: kernels write zeros there. A null count: all
/// valid.
struct Limit {
  const int32_t* count = nullptr;
  int32_t axis = 0;
};

/// Rows of a 2-D f32 matrix [n, rows] whose tokens may be fewer than the rows.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;  ///< in floats
};

#ifdef __CUDACC__
__device__ __forceinline__ int valid_of(const int32_t* count, int capacity) {
  return count ? min(*count, capacity) : capacity;
}

__device__ __forceinline__ bool is_padding(const Limit& limit, int i0, int i1, int i2, int i3) {
  if (!limit.count) return false;
  const int i = limit.axis == 0 ? i0 : limit.axis == 1 ? i1 : limit.axis == 2 ? i2 : i3;
  return i >= *limit.count;
}

template <class T>
__device__ __forceinline__ T* at(const View& v, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  return reinterpret_cast<T*>(v.data + i0 * v.nb[0] + i1 * v.nb[1] + i2 * v.nb[2] + i3 * v.nb[3]);
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}

/// Sum over a block of up to 32 whole warps, known to every thread. `scratch` has 32 floats that no
/// earlier reduction of the kernel used, which saves a second barrier.
__device__ __forceinline__ float block_sum(float v, float* scratch) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  v = warp_sum(v);
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  return warp_sum(lane < warps ? scratch[lane] : 0.f);
}

/// The same for the largest value.
__device__ __forceinline__ float block_max(float v, float* scratch) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  v = warp_max(v);
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  return warp_max(lane < warps ? scratch[lane] : -INFINITY);
}
#endif

}  // namespace minfer_cuda
