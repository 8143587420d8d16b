// Writing int8 activation rows (activation.h) from kernels.
#pragma once

#include "activation.h"

namespace minfer_cuda {

/// Stores element i of row `row` of `n`; called by whole warps whose lane l holds an i with
/// i % 32 == l, so that the warp is one block.
__device__ __forceinline__ void put_int8(const Int8Rows& out, int64_t row, int n, int i, float v) {
#if __CUDA_ARCH__ >= 800
  const float largest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(fabsf(v))));
#else
  const float largest = warp_max(fabsf(v));
#endif
  const float d = largest * (1.f / 127.f);
  const float inverse = largest > 0.f ? 127.f / largest : 0.f;
  const int q = __float2int_rn(v * inverse);
#if __CUDA_ARCH__ >= 800
  const int sum = __reduce_add_sync(~0u, (threadIdx.x & 31) < 16 ? q : 0);
  const int high = __reduce_add_sync(~0u, q) - sum;
#else
  int sum = q;
#pragma unroll
  for (int o = 8; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  const int high = __shfl_sync(~0u, sum, 16);
#endif
  out.quants[row * n + i] = static_cast<int8_t>(q);
  if ((threadIdx.x & 31) == 0) {
    ActMeta meta;
    meta.d = d;
    meta.lo = static_cast<int16_t>(sum);
    meta.hi = static_cast<int16_t>(high);
    out.meta[row * (n / 32) + i / 32] = meta;
  }
}

}  // namespace minfer_cuda
