// Producers of f16 rows in fragment order (see prefill.h): conversion, and RMS norm with
// conversion.
//
// A block takes a token's row; a thread 16 consecutive values, which are a group of the
// permutation, kept in registers between the passes.
#include <cuda_fp16.h>

#include "../kernels/overlap.cuh"
#include "prefill.h"

namespace minfer_cuda::hopper {
namespace {

constexpr float kLargest = 16384.f;

/// A power of two, at least 1, that brings `largest` to kLargest or less.
__device__ __forceinline__ float row_scale(float largest) {
  return largest > kLargest ? exp2f(ceilf(log2f(largest / kLargest))) : 1.f;
}

__device__ __forceinline__ void write_group(uint16_t* out, const float (&v)[16]) {
  uint32_t words[8];
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const __half2 even = __floats2half2_rn(v[4 * t], v[4 * t + 2]);
    const __half2 odd = __floats2half2_rn(v[4 * t + 1], v[4 * t + 3]);
    words[t] = *reinterpret_cast<const uint32_t*>(&even);
    words[4 + t] = *reinterpret_cast<const uint32_t*>(&odd);
  }
  auto* to = reinterpret_cast<uint4*>(out);
  to[0] = make_uint4(words[0], words[1], words[2], words[3]);
  to[1] = make_uint4(words[4], words[5], words[6], words[7]);
}

__device__ __forceinline__ void read_group(const float* from, float (&v)[16]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 f = reinterpret_cast<const float4*>(from)[i];
    v[4 * i] = f.x, v[4 * i + 1] = f.y, v[4 * i + 2] = f.z, v[4 * i + 3] = f.w;
  }
}

/// A thread has up to `Groups` groups of 16.
template <int Threads, int Groups>
__global__ void __launch_bounds__(Threads)
    fragments_kernel(const float* x, int64_t stride, const float* weight, float weight_offset,
                     float eps, bool norm, int n, int tokens, const int32_t* valid, uint16_t* out,
                     float* scale) {
  __shared__ float scratch[2][32];  // one for each reduction
  const int64_t row = blockIdx.x;
  const int groups = n / 16;
  uint16_t* to = out + row * n;
  start_overlapped();
  if (row >= valid_of(valid, tokens)) {
    // The matmuls drop the results of these rows; only the scale must be a number.
    if (threadIdx.x == 0) scale[row] = 1.f;
    return;
  }
  float v[Groups][16];
  float squares = 0.f, largest = 0.f;
#pragma unroll
  for (int i = 0; i < Groups; ++i) {
    const int g = threadIdx.x + i * Threads;
    if (g < groups) read_group(x + row * stride + g * 16, v[i]);
  }
#pragma unroll
  for (int i = 0; i < Groups; ++i) {
    const int g = threadIdx.x + i * Threads;
    if (g >= groups) continue;
#pragma unroll
    for (int e = 0; e < 16; ++e) squares = fmaf(v[i][e], v[i][e], squares);
    if (weight) {
      float w[16];
      read_group(weight + g * 16, w);
#pragma unroll
      for (int e = 0; e < 16; ++e) v[i][e] *= w[e] + weight_offset;
    }
#pragma unroll
    for (int e = 0; e < 16; ++e) largest = fmaxf(largest, fabsf(v[i][e]));
  }
  float factor = 1.f;
  if (norm) {
    factor = rsqrtf(block_sum(squares, scratch[0]) / static_cast<float>(n) + eps);
  }
  const float s = row_scale(block_max(largest, scratch[1]) * factor);
  factor /= s;
#pragma unroll
  for (int i = 0; i < Groups; ++i) {
    const int g = threadIdx.x + i * Threads;
    if (g >= groups) continue;
#pragma unroll
    for (int e = 0; e < 16; ++e) v[i][e] *= factor;
    write_group(to + g * 16, v[i]);
  }
  if (threadIdx.x == 0) scale[row] = s;
}

cudaError_t launch(const float* x, int64_t x_stride, const float* w, float weight_offset, float eps,
                   bool norm, int n, int tokens, const int32_t* valid, uint16_t* out, float* scale,
                   bool overlap, cudaStream_t stream) {
  if (n > kMaxFragmentRow) return cudaErrorInvalidValue;
  const int threads = n <= 16384 ? 256 : n <= 32768 ? 512 : 1024;
  const auto kernel = n <= 4096    ? fragments_kernel<256, 1>
                      : n <= 8192  ? fragments_kernel<256, 2>
                      : n <= 16384 ? fragments_kernel<256, 4>
                      : n <= 32768 ? fragments_kernel<512, 4>
                                   : fragments_kernel<1024, 4>;
  return launch_overlapped(overlap, kernel, dim3(static_cast<unsigned>(tokens)), threads, 0, stream,
                           x, x_stride, w, weight_offset, eps, norm, n, tokens, valid, out, scale);
}

}  // namespace

cudaError_t launch_to_fragments(const float* x, int64_t x_stride, int n, int tokens,
                                const int32_t* valid, uint16_t* out, float* scale, bool overlap,
                                cudaStream_t stream) {
  return launch(x, x_stride, nullptr, 0.f, 0.f, false, n, tokens, valid, out, scale, overlap,
                stream);
}

cudaError_t launch_norm_to_fragments(const float* x, int64_t x_stride, const float* w,
                                     float weight_offset, float eps, int n, int tokens,
                                     const int32_t* valid, uint16_t* out, float* scale,
                                     bool overlap, cudaStream_t stream) {
  return launch(x, x_stride, w, weight_offset, eps, true, n, tokens, valid, out, scale, overlap,
                stream);
}

}  // namespace minfer_cuda::hopper
