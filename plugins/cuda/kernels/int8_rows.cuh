// Writing int8 activation rows (activation.h) from kernels.
#pragma once

#include "activation.h"

namespace minfer_cuda {

/// Stores element i of row `row` of `n`; called by whole warps whose lane l holds an i with
/// i % 32 == l, so that the warp is one block.
__device__ __forceinline__ void put_int8(const Int8Rows& out, int64_t row, int n, int i, float v) {
  const float largest = warp_max(fabsf(v));
  const float d = largest * (1.f / 127.f);
  const float inverse = largest > 0.f ? 127.f / largest : 0.f;
  const int q = __float2int_rn(v * inverse);
  int sum = q;
#pragma unroll
  for (int o = 8; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  const int high = __shfl_sync(~0u, sum, 16);
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
