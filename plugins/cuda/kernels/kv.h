// KV pages: their layout, and the kernels that fill, copy, export and import them.
//
// A page holds K then V of one layer for page_tokens positions: rows of head_dim, ordered by KV
// head, then place in the page, so that an attention tile of one head is contiguous. q8_0 keeps the
// quants in that order and the f16 scales of each block of 32 in a plane behind them, which keeps
// rows aligned.
#pragma once

#include "view.h"

namespace minfer_cuda {

struct KvPages {
  char* base = nullptr;
  uint32_t type = 0;  ///< MINFER_TYPE_F32, _F16 or _Q8_0
  int32_t n_head = 0;
  int32_t dim_k = 0;
  int32_t dim_v = 0;
  int32_t stride_k = 0;  ///< elements of a stored row: the dim rounded up to 8, the rest zeros
  int32_t stride_v = 0;
  int32_t page_tokens = 0;
  int64_t page_bytes = 0;
  int64_t k_scales = 0;  ///< byte offsets within a page; scales only with q8_0
  int64_t v = 0;
  int64_t v_scales = 0;
};

/// Fills the strides, offsets and page_bytes from type, heads, dims and page_tokens.
void lay_out_page(KvPages& pages);

/// How heads are rotated. `turns[p]` is the angle of pair p at position 1 as a fraction of a full
/// turn in 64-bit fixed point, so that position times turns wraps exactly, however large the
/// position.
struct Rope {
  const uint64_t* turns = nullptr;  ///< [n_rot / 2], null: no rotation
  const float* factors = nullptr;   ///< [n_rot / 2] divides the angle, or null
  int32_t n_rot = 0;
  int32_t interleaved = 0;
  float amplitude = 1.f;
};

/// One operand of launch_heads: `heads` rows of `dim` per token.
struct HeadRows {
  const char* x = nullptr;  ///< f32; null: absent
  int64_t nb_head = 0, nb_token = 0;
  int32_t heads = 0, dim = 0;
  const float* norm = nullptr;  ///< [dim] RMS norm before the rotation, or null
  float norm_eps = 0.f, norm_offset = 0.f;
  int32_t has_norm = 0;
  int32_t rotate = 0;
  char* out = nullptr;  ///< f32 result, or null
  int64_t out_nb_head = 0, out_nb_token = 0;
  int32_t store = 0;  ///< 0: no, 1: as K, 2: as V
};

struct HeadsCall {
  HeadRows rows[3];
  int32_t n_rows = 0;
  Rope rope;
  KvPages kv;
  const int32_t* pos = nullptr;
  const int64_t* slot = nullptr;
  int32_t tokens = 0;
  const int32_t* valid = nullptr;
};

/// Per-head norm, rotation and KV store of up to three operands in one launch: ROPE, KV_STORE and
/// their fusion. A warp per head; head dims up to 512. Padding tokens store nothing and write
/// zeros. `overlap`: see overlap.cuh.
cudaError_t launch_heads(const HeadsCall& call, bool overlap, cudaStream_t stream);

/// A page in canonical form (f32 K [dim_k, n_head, page_tokens], then V) from or to `canonical`.
cudaError_t launch_export_page(const KvPages& pages, uint32_t page, float* canonical,
                               cudaStream_t stream);
cudaError_t launch_import_page(const KvPages& pages, uint32_t page, const float* canonical,
                               cudaStream_t stream);

}  // namespace minfer_cuda
