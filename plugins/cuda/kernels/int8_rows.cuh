// Writing int8 activation rows (activation.h) from kernels.
#pragma once

#include "activation.h"

namespace minfer_cuda {

/// Stores N blocks of 32 of row `row` of `n`, from element i on, element i + c * 32 + lane in v[c];
/// called by whole warps. The blocks are worked on side by side.
template <int N>
__device__ __forceinline__ void put_int8_blocks(const Int8Rows& out, int64_t row, int n, int i,
                                                const float (&v)[N]) {
  const int lane = threadIdx.x & 31;
  float largest[N];
  int q[N], low[N], high[N];
#pragma unroll
  for (int c = 0; c < N; ++c) {
#if __CUDA_ARCH__ >= 800
    largest[c] = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(fabsf(v[c]))));
#else
    largest[c] = warp_max(fabsf(v[c]));
#endif
  }
#pragma unroll
  for (int c = 0; c < N; ++c) {
    const float inverse = largest[c] > 0.f ? 127.f / largest[c] : 0.f;
    q[c] = __float2int_rn(v[c] * inverse);
#if __CUDA_ARCH__ >= 800
    low[c] = __reduce_add_sync(~0u, lane < 16 ? q[c] : 0);
    high[c] = __reduce_add_sync(~0u, lane < 16 ? 0 : q[c]);
#else
    int sum = q[c];
#pragma unroll
    for (int o = 8; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    low[c] = __shfl_sync(~0u, sum, 0);
    high[c] = __shfl_sync(~0u, sum, 16);
#endif
  }
#pragma unroll
  for (int c = 0; c < N; ++c) {
    const int64_t at = row * n + i + c * 32;
    out.quants[at + lane] = static_cast<int8_t>(q[c]);
    if (lane == 0) {
      out.meta[at / 32] = {largest[c] * (1.f / 127.f), static_cast<int16_t>(low[c]),
                           static_cast<int16_t>(high[c])};
    }
  }
}

/// Stores element i of row `row` of `n`; called by whole warps whose lane l holds an i with
/// i % 32 == l, so that the warp is one block.
__device__ __forceinline__ void put_int8(const Int8Rows& out, int64_t row, int n, int i, float v) {
  const float one[1] = {v};
  put_int8_blocks(out, row, n, i - (threadIdx.x & 31), one);
}

}  // namespace minfer_cuda
