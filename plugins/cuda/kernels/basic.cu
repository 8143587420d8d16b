// Elementwise operators, per-head norm, gathers and concat on strided tensors (see basic.h).
#include "basic.h"
#include "gate_fn.cuh"
#include "tile.cuh"

namespace minfer_cuda {
namespace {

constexpr int kThreads = 256;

struct Index {
  int i1, i2, i3;
};
__device__ __forceinline__ Index row_index(const View& v, int row) {
  return {row % v.ne[1], row / v.ne[1] % v.ne[2], row / v.ne[1] / v.ne[2]};
}

dim3 row_grid(const View& v) {
  const int rows = v.ne[1] * v.ne[2] * v.ne[3];
  return dim3(static_cast<unsigned>(rows),
              static_cast<unsigned>((v.ne[0] + kThreads - 1) / kThreads));
}

bool is_empty(const View& v) {
  return v.ne[0] == 0 || v.ne[1] == 0 || v.ne[2] == 0 || v.ne[3] == 0;
}

__global__ void binary_kernel(BinaryFn fn, View out, View a, View b, Limit limit) {
  const int i0 = blockIdx.y * blockDim.x + threadIdx.x;
  if (i0 >= out.ne[0]) return;
  const Index r = row_index(out, blockIdx.x);
  float v = 0.f;
  if (!is_padding(limit, i0, r.i1, r.i2, r.i3)) {
    const float x = *at<const float>(a, i0, r.i1, r.i2, r.i3);
    const float y = *at<const float>(b, b.ne[0] == 1 ? 0 : i0, b.ne[1] == 1 ? 0 : r.i1,
                                     b.ne[2] == 1 ? 0 : r.i2, b.ne[3] == 1 ? 0 : r.i3);
    v = fn == BinaryFn::kAdd ? x + y : x * y;
  }
  *at<float>(out, i0, r.i1, r.i2, r.i3) = v;
}

__device__ __forceinline__ float unary_value(UnaryFn fn, float p0, float p1, float x) {
  switch (fn) {
    case UnaryFn::kSilu:
      return gate_value(GateFn::kSilu, x);
    case UnaryFn::kGeluTanh:
      return gate_value(GateFn::kGeluTanh, x);
    case UnaryFn::kGeluErf:
      return gate_value(GateFn::kGeluErf, x);
    case UnaryFn::kGeluQuick:
      return gate_value(GateFn::kGeluQuick, x);
    case UnaryFn::kScale:
      return fmaf(x, p0, p1);
    case UnaryFn::kSoftCap:
      return p0 * tanhf(x / p0);
    case UnaryFn::kCopy:
      return x;
  }
  return 0.f;
}

__global__ void unary_kernel(UnaryFn fn, float p0, float p1, View out, View x, Limit limit) {
  const int i0 = blockIdx.y * blockDim.x + threadIdx.x;
  if (i0 >= out.ne[0]) return;
  const Index r = row_index(out, blockIdx.x);
  const bool padding = is_padding(limit, i0, r.i1, r.i2, r.i3);
  *at<float>(out, i0, r.i1, r.i2, r.i3) =
      padding ? 0.f : unary_value(fn, p0, p1, *at<const float>(x, i0, r.i1, r.i2, r.i3));
}

__global__ void norm_strided_kernel(View out, View x, const float* w, float weight_offset,
                                    float eps, Limit limit) {
  const int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (row >= out.ne[1] * out.ne[2] * out.ne[3]) return;
  const Index r = row_index(out, row);
  const int n = out.ne[0];
  const bool padding = is_padding(limit, 0, r.i1, r.i2, r.i3);
  float sum = 0.f;
  if (!padding) {
    for (int i = lane; i < n; i += 32) {
      const float v = *at<const float>(x, i, r.i1, r.i2, r.i3);
      sum = fmaf(v, v, sum);
    }
  }
  const float factor = rsqrtf(warp_sum(sum) / static_cast<float>(n) + eps);
  for (int i = lane; i < n; i += 32) {
    float v = 0.f;
    if (!padding) {
      v = *at<const float>(x, i, r.i1, r.i2, r.i3) * factor;
      if (w) v *= w[i] + weight_offset;
    }
    *at<float>(out, i, r.i1, r.i2, r.i3) = v;
  }
}

template <uint32_t Type>
__global__ void gather_kernel(const uint8_t* table, int id, const int32_t* rows, View out,
                              Limit limit) {
  using T = Tile<Type>;
  const int b = blockIdx.y * blockDim.x + threadIdx.x;
  if (b * 32 >= id) return;
  const int r = blockIdx.x;
  float v[32];
  if (is_padding(limit, 0, r, 0, 0)) {
#pragma unroll
    for (int i = 0; i < 32; ++i) v[i] = 0.f;
  } else {
    const int64_t row = rows[r];
    const int64_t tile = row / kTileRows * (tiles_of_row<T>(id)) + b / T::kSubs;
    dequantize32<Type>(table + tile * T::kTileBytes, static_cast<int>(row % kTileRows),
                       b % T::kSubs, v);
  }
  auto* to = at<float>(out, b * 32, r, 0, 0);
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0 && b * 32 + 32 <= id) {
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    if (b * 32 + i < id) to[i] = v[i];
  }
}

__global__ void gather_rows_kernel(View table, const int32_t* rows, View out, Limit limit) {
  const int i0 = blockIdx.y * blockDim.x + threadIdx.x, r = blockIdx.x;
  if (i0 >= out.ne[0]) return;
  const bool padding = is_padding(limit, i0, r, 0, 0);
  *at<float>(out, i0, r, 0, 0) = padding ? 0.f : *at<const float>(table, i0, rows[r], 0, 0);
}

__global__ void concat_kernel(View out, View x, int axis, int offset, Limit limit) {
  const int i0 = blockIdx.y * blockDim.x + threadIdx.x;
  if (i0 >= x.ne[0]) return;
  const Index r = row_index(x, blockIdx.x);
  int to[4] = {i0, r.i1, r.i2, r.i3};
  to[axis] += offset;
  const bool padding = is_padding(limit, to[0], to[1], to[2], to[3]);
  *at<float>(out, to[0], to[1], to[2], to[3]) =
      padding ? 0.f : *at<const float>(x, i0, r.i1, r.i2, r.i3);
}

__global__ void set_counts_kernel(StepCounts* to, StepCounts counts) {
  *to = counts;
}

}  // namespace

cudaError_t launch_binary(BinaryFn fn, const View& out, const View& a, const View& b,
                          const Limit& limit, cudaStream_t stream) {
  if (is_empty(out)) return cudaSuccess;
  binary_kernel<<<row_grid(out), kThreads, 0, stream>>>(fn, out, a, b, limit);
  return cudaPeekAtLastError();
}

cudaError_t launch_unary(UnaryFn fn, float p0, float p1, const View& out, const View& x,
                         const Limit& limit, cudaStream_t stream) {
  if (is_empty(out)) return cudaSuccess;
  unary_kernel<<<row_grid(out), kThreads, 0, stream>>>(fn, p0, p1, out, x, limit);
  return cudaPeekAtLastError();
}

cudaError_t launch_norm_strided(const View& out, const View& x, const float* w, float weight_offset,
                                float eps, const Limit& limit, cudaStream_t stream) {
  if (is_empty(out)) return cudaSuccess;
  const int rows = out.ne[1] * out.ne[2] * out.ne[3];
  norm_strided_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(out, x, w, weight_offset, eps, limit);
  return cudaPeekAtLastError();
}

cudaError_t launch_gather(uint32_t type, const uint8_t* table, int id, const int32_t* rows,
                          const View& out, const Limit& limit, cudaStream_t stream) {
  if (is_empty(out)) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(out.ne[1]),
                  static_cast<unsigned>(((id + 31) / 32 + 63) / 64));
  const bool known = dispatch_type(type, [&]<uint32_t Type>() {
    gather_kernel<Type><<<grid, 64, 0, stream>>>(table, id, rows, out, limit);
  });
  return known ? cudaPeekAtLastError() : cudaErrorInvalidValue;
}

cudaError_t launch_gather_rows(const View& table, const int32_t* rows, const View& out,
                               const Limit& limit, cudaStream_t stream) {
  if (is_empty(out)) return cudaSuccess;
  gather_rows_kernel<<<row_grid(out), kThreads, 0, stream>>>(table, rows, out, limit);
  return cudaPeekAtLastError();
}

cudaError_t launch_concat_part(const View& out, const View& x, int axis, int offset,
                               const Limit& limit, cudaStream_t stream) {
  if (is_empty(x)) return cudaSuccess;
  concat_kernel<<<row_grid(x), kThreads, 0, stream>>>(out, x, axis, offset, limit);
  return cudaPeekAtLastError();
}

cudaError_t launch_set_counts(StepCounts* to, StepCounts counts, cudaStream_t stream) {
  set_counts_kernel<<<1, 1, 0, stream>>>(to, counts);
  return cudaPeekAtLastError();
}

}  // namespace minfer_cuda
