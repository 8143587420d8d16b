// Where things lie in a page of a KV region, and copies of pages. Pure; see KvOps for the layout of
// one head's part.
#pragma once

#include <cstdint>

#include "minfer/plugin_abi.h"
#include "vec_ops.h"

namespace minfer_cpu {

/// Page sizes in tokens, ascending.
inline constexpr uint32_t kPageSizes[] = {16, 32, 64, 128, 256};

/// The layout of one region's pages: per KV head K, then V, each part aligned.
struct KvLayout {
  KvType type = kKvF32;
  int64_t heads = 0;
  int64_t dim_k = 0, dim_v = 0;
  int64_t page_tokens = 0;
  int64_t n_pages = 0;
  int64_t k_block_bytes = 0;  ///< kKvLanes tokens of K of one head
  int64_t v_row_bytes = 0;    ///< one token of V of one head
  int64_t k_part_bytes = 0, head_bytes = 0, page_bytes = 0;

  /// Throws Failure(MINFER_UNSUPPORTED) with the numbers for what no region can be.
  explicit KvLayout(const minfer_kv_desc& desc);

  int64_t k_offset(int64_t page, int64_t head, int64_t place) const {
    return page * page_bytes + head * head_bytes + place / kKvLanes * k_block_bytes;
  }
  int64_t v_offset(int64_t page, int64_t head, int64_t place) const {
    return page * page_bytes + head * head_bytes + k_part_bytes + place * v_row_bytes;
  }
};

/// A page to and from the ABI's canonical f32 form.
void export_page(const KvLayout& layout, const uint8_t* region, int64_t page, float* out);
void import_page(const KvLayout& layout, uint8_t* region, int64_t page, const float* in);

}  // namespace minfer_cpu
