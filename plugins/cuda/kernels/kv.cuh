// Device access to KV pages (layout in kv.h).
#pragma once

#include <cuda_fp16.h>

#include "kv.h"
#include "minfer/plugin_abi.h"

namespace minfer_cuda {

enum class KvPart { kK, kV };

/// Row number of (head, place) within the K or V part of a page.
__device__ __forceinline__ int64_t kv_row(const KvPages& p, int head, int place) {
  return static_cast<int64_t>(head) * p.page_tokens + place;
}

__device__ __forceinline__ char* kv_page(const KvPages& p, int64_t page) {
  return p.base + page * p.page_bytes;
}

/// Element i of the row, read as f32.
__device__ __forceinline__ float kv_load(const KvPages& p, KvPart part, const char* page,
                                         int64_t row, int i) {
  const int stride = part == KvPart::kK ? p.stride_k : p.stride_v;
  const char* data = page + (part == KvPart::kK ? 0 : p.v);
  if (p.type == MINFER_TYPE_F32) return reinterpret_cast<const float*>(data)[row * stride + i];
  if (p.type == MINFER_TYPE_F16) {
    return __half2float(reinterpret_cast<const __half*>(data)[row * stride + i]);
  }
  const char* scales = page + (part == KvPart::kK ? p.k_scales : p.v_scales);
  const __half d = reinterpret_cast<const __half*>(scales)[row * (stride / 32) + i / 32];
  return __half2float(d) *
         static_cast<float>(reinterpret_cast<const int8_t*>(data)[row * stride + i]);
}

/// Stores element i of the row; called by whole warps whose lane l holds an i with i % 32 == l.
/// Elements from the dim to the stride are zeros, those beyond are not stored. q8_0 rounds as the
/// file type does: scale max/127 in f16, quants by the f32.
__device__ __forceinline__ void kv_store(const KvPages& p, KvPart part, char* page, int64_t row,
                                         int i, float v) {
  const int stride = part == KvPart::kK ? p.stride_k : p.stride_v;
  const bool active = i < stride;
  char* data = page + (part == KvPart::kK ? 0 : p.v);
  if (p.type == MINFER_TYPE_F32) {
    if (active) reinterpret_cast<float*>(data)[row * stride + i] = v;
  } else if (p.type == MINFER_TYPE_F16) {
    if (active) reinterpret_cast<__half*>(data)[row * stride + i] = __float2half_rn(v);
  } else {
    const float largest = warp_max(fabsf(active ? v : 0.f));
    const float d = largest / 127.f;
    const float inverse = d > 0.f ? 1.f / d : 0.f;
    if (!active) return;
    const float q = roundf(v * inverse);
    reinterpret_cast<int8_t*>(data)[row * stride + i] = static_cast<int8_t>(q);
    if (i % 32 == 0) {
      char* scales = page + (part == KvPart::kK ? p.k_scales : p.v_scales);
      reinterpret_cast<__half*>(scales)[row * (stride / 32) + i / 32] = __float2half_rn(d);
    }
  }
}

}  // namespace minfer_cuda
