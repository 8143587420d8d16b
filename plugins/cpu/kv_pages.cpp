// Page geometry and the canonical form.
#include "kv_pages.h"

#include <algorithm>
#include <iterator>

#include "failure.h"
#include "memory.h"
#include "minfer/quant_blocks.h"

namespace minfer_cpu {
namespace {

constexpr uint32_t kMaxHeads = 1u << 16;
constexpr uint32_t kMaxDim = 1u << 16;

KvType kv_type(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_F32:
      return kKvF32;
    case MINFER_TYPE_F16:
      return kKvF16;
    case MINFER_TYPE_Q8_0:
      return kKvQ8;
    default:
      throw Failure(MINFER_UNSUPPORTED, "KV cache: type %s (%u); f32, f16 and q8_0 are supported",
                    minfer_type_name(type), type);
  }
}

}  // namespace

KvLayout::KvLayout(const minfer_kv_desc& desc)
    : type(kv_type(desc.type)),
      heads(desc.n_head_kv),
      dim_k(desc.head_dim_k),
      dim_v(desc.head_dim_v),
      page_tokens(desc.page_tokens),
      n_pages(desc.n_pages) {
  if (heads < 1 || heads > kMaxHeads || dim_k < 1 || dim_k > kMaxDim || dim_v < 1 ||
      dim_v > kMaxDim) {
    throw Failure(MINFER_UNSUPPORTED, "KV cache of layer %u: %u heads of K %u and V %u; 1 to 65536",
                  desc.layer, desc.n_head_kv, desc.head_dim_k, desc.head_dim_v);
  }
  if (type == kKvQ8 && (dim_k % MINFER_QK != 0 || dim_v % MINFER_QK != 0)) {
    throw Failure(MINFER_UNSUPPORTED,
                  "KV cache of layer %u: q8_0 needs heads of a multiple of %d, they are %u and %u",
                  desc.layer, MINFER_QK, desc.head_dim_k, desc.head_dim_v);
  }
  if (std::find(std::begin(kPageSizes), std::end(kPageSizes), desc.page_tokens) ==
      std::end(kPageSizes)) {
    throw Failure(MINFER_UNSUPPORTED,
                  "KV cache of layer %u: pages of %u tokens; 16, 32, 64, 128 and 256 are supported",
                  desc.layer, desc.page_tokens);
  }
  const KvOps& ops = vec_ops_scalar()->kv[type];
  k_block_bytes = ops.k_block_bytes(dim_k);
  v_row_bytes = ops.v_row_bytes(dim_v);
  k_part_bytes =
      static_cast<int64_t>(align_up(static_cast<uint64_t>(page_tokens / kKvLanes * k_block_bytes)));
  head_bytes = static_cast<int64_t>(
      align_up(static_cast<uint64_t>(k_part_bytes + page_tokens * v_row_bytes)));
  page_bytes = heads * head_bytes;
}

void export_page(const KvLayout& layout, const uint8_t* region, int64_t page, float* out) {
  const KvOps& ops = vec_ops_scalar()->kv[layout.type];
  float* k = out;
  float* v = out + layout.page_tokens * layout.heads * layout.dim_k;
  for (int64_t place = 0; place < layout.page_tokens; ++place) {
    for (int64_t head = 0; head < layout.heads; ++head) {
      ops.load_k(region + layout.k_offset(page, head, place), place % kKvLanes, layout.dim_k, k);
      ops.load_v(region + layout.v_offset(page, head, place), layout.dim_v, v);
      k += layout.dim_k;
      v += layout.dim_v;
    }
  }
}

void import_page(const KvLayout& layout, uint8_t* region, int64_t page, const float* in) {
  const KvOps& ops = vec_ops_scalar()->kv[layout.type];
  const float* k = in;
  const float* v = in + layout.page_tokens * layout.heads * layout.dim_k;
  for (int64_t place = 0; place < layout.page_tokens; ++place) {
    for (int64_t head = 0; head < layout.heads; ++head) {
      ops.store_k(k, layout.dim_k, region + layout.k_offset(page, head, place), place % kKvLanes);
      ops.store_v(v, layout.dim_v, region + layout.v_offset(page, head, place));
      k += layout.dim_k;
      v += layout.dim_v;
    }
  }
}

}  // namespace minfer_cpu
