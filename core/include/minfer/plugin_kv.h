/*
 * A layout of KV pages for authors of plugins who have no better one (C11, also valid C++;
 * header-only and optional).
 *
 * A page holds K of every place and head, then V alike: rows of head_dim values in the region's
 * type (f32, f16 or q8_0), place by place, and head by head within a place. Any page size will do.
 * Stateless, hence thread-safe.
 */
#ifndef MINFER_PLUGIN_KV_H
#define MINFER_PLUGIN_KV_H

#include <math.h>

#include "minfer/plugin_helper.h"
#include "minfer/quant_blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MINFER_KV_MAX_DIM 65536u

typedef struct minfer_kv_layout {
  uint64_t k_row; /* bytes of K of one place and head */
  uint64_t v_row;
  uint64_t v_start; /* where V begins in a page */
  uint64_t page;    /* bytes of a page */
} minfer_kv_layout;

/* Fills *out for a region; MINFER_UNSUPPORTED with the numbers where it cannot be had. */
static inline minfer_status minfer_kv_layout_of(const minfer_kv_desc* kv, minfer_kv_layout* out,
                                                minfer_error* error) {
  memset(out, 0, sizeof *out);
  if (kv->type != MINFER_TYPE_F32 && kv->type != MINFER_TYPE_F16 && kv->type != MINFER_TYPE_Q8_0) {
    return minfer_fail(error, MINFER_UNSUPPORTED, "KV cache in %s; f32, f16 and q8_0 are supported",
                       minfer_type_name(kv->type));
  }
  const uint32_t block = minfer_type_values(kv->type), bytes = minfer_type_bytes(kv->type);
  if (kv->n_head_kv == 0 || kv->head_dim_k == 0 || kv->head_dim_v == 0 || kv->page_tokens == 0 ||
      kv->n_head_kv > MINFER_KV_MAX_DIM || kv->head_dim_k > MINFER_KV_MAX_DIM ||
      kv->head_dim_v > MINFER_KV_MAX_DIM || kv->page_tokens > MINFER_KV_MAX_DIM ||
      kv->head_dim_k % block != 0 || kv->head_dim_v % block != 0) {
    return minfer_fail(error, MINFER_UNSUPPORTED,
                       "KV cache of layer %u: %u heads of K %u and V %u, pages of %u; 1 to %u are "
                       "supported, heads in %s of a multiple of %u",
                       kv->layer, kv->n_head_kv, kv->head_dim_k, kv->head_dim_v, kv->page_tokens,
                       MINFER_KV_MAX_DIM, minfer_type_name(kv->type), block);
  }
  const uint64_t rows = (uint64_t)kv->n_head_kv * kv->page_tokens;
  out->k_row = (uint64_t)kv->head_dim_k / block * bytes;
  out->v_row = (uint64_t)kv->head_dim_v / block * bytes;
  out->v_start = rows * out->k_row;
  out->page = rows * (out->k_row + out->v_row);
  return MINFER_OK;
}

/* kv_page_bytes and kv_page_sizes of the plugin's table, for this layout. */
static inline minfer_status minfer_kv_layout_page_bytes(minfer_device* device,
                                                        const minfer_kv_desc* given,
                                                        uint64_t* bytes, minfer_error* error) {
  (void)device;
  minfer_kv_desc kv;
  minfer_kv_layout layout;
  minfer_read_struct(&kv, sizeof kv, given);
  const minfer_status status = minfer_kv_layout_of(&kv, &layout, error);
  if (status == MINFER_OK) *bytes = layout.page;
  return status;
}

static inline minfer_status minfer_kv_layout_page_sizes(minfer_device* device,
                                                        const minfer_kv_desc* given,
                                                        uint32_t* sizes, uint32_t* n,
                                                        minfer_error* error) {
  (void)device;
  minfer_kv_desc kv;
  minfer_kv_layout layout;
  minfer_read_struct(&kv, sizeof kv, given);
  kv.page_tokens = 16; /* asked for, hence not given */
  const minfer_status status = minfer_kv_layout_of(&kv, &layout, error);
  if (status != MINFER_OK) return status;
  for (uint32_t i = 0; i < *n && i < 5; ++i) sizes[i] = 16u << i;
  *n = 5;
  return MINFER_OK;
}

/* Are all regions of a split laid out like this? 0 says in the verdict which is not. */
static inline int minfer_check_kv_layouts(const minfer_split* split, minfer_verdict* verdict) {
  for (uint32_t i = 0; i < split->n_kv; ++i) {
    minfer_kv_desc kv;
    minfer_kv_layout layout;
    minfer_error error;
    minfer_read_struct(&kv, sizeof kv, (const uint8_t*)split->kv + (size_t)split->kv_stride * i);
    if (minfer_kv_layout_of(&kv, &layout, &error) == MINFER_OK) continue;
    verdict->supported = 0;
    snprintf(verdict->reason, sizeof verdict->reason, "%.255s", error.text);
    return 0;
  }
  return 1;
}

/* Offset in the region of the K (or V) row of a slot and head. */
static inline uint64_t minfer_kv_row(const minfer_kv_desc* kv, const minfer_kv_layout* layout,
                                     int64_t slot, int64_t head, int is_v) {
  const uint64_t page = (uint64_t)slot / kv->page_tokens;
  const uint64_t row = (uint64_t)slot % kv->page_tokens * kv->n_head_kv + (uint64_t)head;
  return page * layout->page + (is_v ? layout->v_start + row * layout->v_row : row * layout->k_row);
}

/* Stores n values in the region's type; minfer_dequantize_row reads them back. */
static inline void minfer_kv_encode(uint32_t type, const float* values, int64_t n, uint8_t* row) {
  if (type == MINFER_TYPE_F32) {
    memcpy(row, values, (size_t)n * sizeof(float));
  } else if (type == MINFER_TYPE_F16) {
    for (int64_t i = 0; i < n; ++i) {
      const minfer_f16 half = minfer_f32_to_f16(values[i]);
      memcpy(row + i * 2, &half, sizeof half);
    }
  } else {
    for (; n >= MINFER_QK; n -= MINFER_QK, values += MINFER_QK, row += sizeof(minfer_block_q8_0)) {
      minfer_block_q8_0 block;
      float largest = 0.0f;
      for (int i = 0; i < MINFER_QK; ++i) largest = fmaxf(largest, fabsf(values[i]));
      block.d = minfer_f32_to_f16(largest / 127.0f);
      const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
      for (int i = 0; i < MINFER_QK; ++i) block.qs[i] = (int8_t)roundf(values[i] * inverse);
      memcpy(row, &block, sizeof block);
    }
  }
}

#ifdef __cplusplus
}
#endif

#endif /* MINFER_PLUGIN_KV_H */
