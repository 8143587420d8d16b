// Producers of matrix inputs: quantise, convert, norm + quantise, gated unit + quantise.
//
// A block takes one token's row; a warp takes 32 consecutive values at a time, so that its lanes
// are one int8 block and the scale is a warp reduction.
#include <cuda_fp16.h>

#include "gate_fn.cuh"
#include "int8_rows.cuh"
#include "overlap.cuh"

namespace minfer_cuda {
namespace {

constexpr int kThreads = 256;

/// Writes value(i) for all i of a row in every form asked for; value is called by whole warps.
template <class F>
__device__ __forceinline__ void emit_row(const ActivationOut& out, int64_t row, int n, F value) {
  for (int i = threadIdx.x; i < (n + 31) / 32 * 32; i += blockDim.x) {
    const float v = i < n ? value(i) : 0.f;
    if (out.f32 && i < n) out.f32[row * out.f32_stride + i] = v;
    if (out.int8.quants) put_int8(out.int8, row, n, i, v);
  }
}

/// The values [begin, end) of a row that blockIdx.y takes of gridDim.y: whole blocks of 32.
struct Cut {
  int begin, end;
};
__device__ __forceinline__ Cut cut_of_row(int n) {
  const int chunk = ((n + 31) / 32 + gridDim.y - 1) / gridDim.y * 32;
  const int begin = blockIdx.y * chunk;
  return {begin, min(begin + chunk, n)};
}

/// Cuts for which few rows fill the device; rows of many tokens stay whole.
unsigned cuts_of(int n, int tokens) {
  return tokens >= 64 || n % 32 ? 1u : static_cast<unsigned>((n + 511) / 512);
}

__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const float* x, int64_t stride, int n, int tokens, const int32_t* valid,
                    Int8Rows out) {
  start_overlapped();
  const int64_t row = blockIdx.x;
  const bool padding = row >= valid_of(valid, tokens);
  const Cut cut = cut_of_row(n);
  for (int i = cut.begin + threadIdx.x; i < cut.end; i += blockDim.x) {
    put_int8(out, row, n, i, padding ? 0.f : x[row * stride + i]);
  }
}

__global__ void __launch_bounds__(kThreads)
    to_half_kernel(const float* x, int64_t stride, int n, int tokens, const int32_t* valid,
                   HalfRows out) {
  __shared__ float scratch[32];
  const int64_t row = blockIdx.x;
  const int padded = (n + 31) / 32 * 32;
  auto* to = reinterpret_cast<__half*>(out.data) + row * padded;
  const bool padding = row >= valid_of(valid, tokens);
  float largest = 0.f;
  if (!padding) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      largest = fmaxf(largest, fabsf(x[row * stride + i]));
    }
  }
  largest = block_max(largest, scratch);
  // Powers of two keep the conversion's rounding what it is without a scale.
  float scale = 1.f;
  if (largest > 16384.f) scale = exp2f(ceilf(log2f(largest / 16384.f)));
  const float inverse = 1.f / scale;
  for (int i = threadIdx.x; i < padded; i += blockDim.x) {
    to[i] = __float2half_rn(padding || i >= n ? 0.f : x[row * stride + i] * inverse);
  }
  if (threadIdx.x == 0) out.scale[row] = scale;
}

constexpr int kNormThreads = 1024;
constexpr int kCached = 8;  // values that a thread keeps between the two passes

__global__ void __launch_bounds__(kNormThreads)
    norm_rows_kernel(const float* x, int64_t stride, const float* w, float weight_offset, float eps,
                     int n, int tokens, const int32_t* valid, ActivationOut out) {
  __shared__ float scratch[32];
  start_overlapped();
  const int64_t row = blockIdx.x;
  if (row >= valid_of(valid, tokens)) {
    emit_row(out, row, n, [](int) { return 0.f; });
    return;
  }
  const float* from = x + row * stride;
  float cached[kCached], sum = 0.f;
#pragma unroll
  for (int j = 0; j < kCached; ++j) {
    const int i = threadIdx.x + j * blockDim.x;
    cached[j] = i < n ? from[i] : 0.f;
    sum = fmaf(cached[j], cached[j], sum);
  }
  for (int i = threadIdx.x + kCached * blockDim.x; i < n; i += blockDim.x) {
    sum = fmaf(from[i], from[i], sum);
  }
  const float factor = rsqrtf(block_sum(sum, scratch) / static_cast<float>(n) + eps);
  const auto put = [&](int i, float v) {
    v *= factor;
    if (w && i < n) v *= w[i] + weight_offset;
    if (out.f32 && i < n) out.f32[row * out.f32_stride + i] = v;
    if (out.int8.quants) put_int8(out.int8, row, n, i, v);
  };
  const int padded = (n + 31) / 32 * 32;
#pragma unroll
  for (int j = 0; j < kCached; ++j) {
    const int i = threadIdx.x + j * blockDim.x;
    if (i < padded) put(i, cached[j]);
  }
  for (int i = threadIdx.x + kCached * blockDim.x; i < padded; i += blockDim.x) {
    put(i, i < n ? from[i] : 0.f);
  }
}

__global__ void __launch_bounds__(kThreads)
    gated_rows_kernel(GateFn fn, const float* gate, int64_t gate_stride, const float* up,
                      int64_t up_stride, int n, int tokens, const int32_t* valid,
                      ActivationOut out) {
  start_overlapped();
  const int64_t row = blockIdx.x;
  const bool padding = row >= valid_of(valid, tokens);
  const Cut cut = cut_of_row(n);
  for (int i = cut.begin + threadIdx.x; i < (cut.end + 31) / 32 * 32; i += blockDim.x) {
    float v = 0.f;
    if (i < n && !padding) {
      v = gate_value(fn, gate[row * gate_stride + i]) * up[row * up_stride + i];
    }
    if (out.f32 && i < n) out.f32[row * out.f32_stride + i] = v;
    if (out.int8.quants) put_int8(out.int8, row, n, i, v);
  }
}

}  // namespace

cudaError_t launch_quantize(const float* x, int64_t x_stride, int n, int tokens,
                            const int32_t* valid, Int8Rows out, bool overlap, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(tokens), cuts_of(n, tokens));
  return launch_overlapped(overlap, quantize_kernel, grid, kThreads, 0, stream, x, x_stride, n,
                           tokens, valid, out);
}

cudaError_t launch_to_half(const float* x, int64_t x_stride, int n, int tokens,
                           const int32_t* valid, HalfRows out, cudaStream_t stream) {
  to_half_kernel<<<tokens, kThreads, 0, stream>>>(x, x_stride, n, tokens, valid, out);
  return cudaPeekAtLastError();
}

cudaError_t launch_norm_rows(const float* x, int64_t x_stride, const float* w, float weight_offset,
                             float eps, int n, int tokens, const int32_t* valid, ActivationOut out,
                             bool overlap, cudaStream_t stream) {
  // One row alone should be spread over as many threads as a block has; many rows fill the device
  // anyway.
  const int wanted = tokens < 64 ? kNormThreads : kThreads;
  const int threads = n >= wanted ? wanted : (n + 31) / 32 * 32;
  return launch_overlapped(overlap, norm_rows_kernel, dim3(static_cast<unsigned>(tokens)), threads,
                           0, stream, x, x_stride, w, weight_offset, eps, n, tokens, valid, out);
}

cudaError_t launch_gated_rows(GateFn fn, const float* gate, int64_t gate_stride, const float* up,
                              int64_t up_stride, int n, int tokens, const int32_t* valid,
                              ActivationOut out, bool overlap, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(tokens), cuts_of(n, tokens));
  return launch_overlapped(overlap, gated_rows_kernel, grid, kThreads, 0, stream, fn, gate,
                           gate_stride, up, up_stride, n, tokens, valid, out);
}

}  // namespace minfer_cuda
