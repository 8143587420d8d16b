/*
 * One function per operator, in the formulas of docs/operators.md, over strided tensors. Sums are
 * taken in double, so that what remains of error is the rounding of stored values.
 */
#include <math.h>
#include <string.h>

#include <minfer/plugin_kv.h>
#include <minfer/plugin_math.h>

#include "reference.h"

/* A tensor in this run: valid lengths, and strides that are 0 along axes of length 1. */
struct view {
  uint8_t* data;
  int64_t ne[4], nb[4];
};

static struct view view_of(const minfer_plan* plan, const minfer_operand* operand) {
  struct view v = {NULL, {0}, {0}};
  if (operand->tensor == NULL) return v;
  const struct weight* weight = plan->weights[operand->tensor - plan->simple->tensors];
  if (weight != NULL) v.data = weight->data;
  if (operand->buffer != NULL) v.data = operand->buffer->data + operand->offset;
  int64_t packed = sizeof(float); /* elementwise weights lie without gaps */
  for (int i = 0; i < 4; ++i) {
    v.ne[i] = operand->ne[i];
    v.nb[i] = operand->tensor->ne[i] == 1 ? 0 : weight != NULL ? packed : operand->tensor->nb[i];
    packed *= operand->tensor->ne[i];
  }
  return v;
}

static float* at(const struct view* v, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  return (float*)(void*)(v->data + i0 * v->nb[0] + i1 * v->nb[1] + i2 * v->nb[2] + i3 * v->nb[3]);
}

static int32_t int_at(const struct view* v, int64_t i0, int64_t i1) {
  return *(const int32_t*)(const void*)(v->data + i0 * v->nb[0] + i1 * v->nb[1]);
}

/* ---- elementwise ------------------------------------------------------------------------------
 */

static float element(const minfer_node* node, float a, float b) {
  switch (node->op) {
    case MINFER_OP_ADD:
      return a + b;
    case MINFER_OP_MUL:
      return a * b;
    case MINFER_OP_SCALE: {
      const minfer_scale_params* p = node->params;
      return a * p->factor + p->offset;
    }
    case MINFER_OP_SOFT_CAP: {
      const float cap = ((const minfer_soft_cap_params*)node->params)->cap;
      return cap * tanhf(a / cap);
    }
    case MINFER_OP_SILU:
      return a / (1.0f + expf(-a));
    default: {
      const uint32_t kind = ((const minfer_gelu_params*)node->params)->kind;
      if (kind == MINFER_GELU_QUICK) return a / (1.0f + expf(-1.702f * a));
      if (kind == MINFER_GELU_ERF) return (float)(0.5 * a * (1.0 + erf(a * 0.70710678118654752)));
      return (float)(0.5 * a * (1.0 + tanh(0.79788456080286536 * (a + 0.044715 * a * a * a))));
    }
  }
}

static void elementwise(const minfer_node* node, const struct view* a, const struct view* b,
                        const struct view* out) {
  for (int64_t i3 = 0; i3 < out->ne[3]; ++i3)
    for (int64_t i2 = 0; i2 < out->ne[2]; ++i2)
      for (int64_t i1 = 0; i1 < out->ne[1]; ++i1)
        for (int64_t i0 = 0; i0 < out->ne[0]; ++i0) {
          const float second = b->data != NULL ? *at(b, i0, i1, i2, i3) : 0.0f;
          *at(out, i0, i1, i2, i3) = element(node, *at(a, i0, i1, i2, i3), second);
        }
}

/* ---- whole rows -------------------------------------------------------------------------------
 */

static void rms_norm(const minfer_norm_params* p, const float* x, const float* weight, int64_t n,
                     float* out) {
  double squares = 0.0;
  for (int64_t i = 0; i < n; ++i) squares += (double)x[i] * x[i];
  const float factor = (float)(1.0 / sqrt(squares / (double)n + p->eps));
  for (int64_t i = 0; i < n; ++i)
    out[i] = x[i] * factor * (weight ? weight[i] + p->weight_offset : 1.0f);
}

static void softmax(float scale, const float* x, int64_t n, float* out) {
  float largest = -INFINITY;
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) largest = fmaxf(largest, x[i] * scale);
  for (int64_t i = 0; i < n; ++i) sum += out[i] = expf(x[i] * scale - largest);
  for (int64_t i = 0; i < n; ++i) out[i] = (float)(out[i] / sum);
}

static void rope(const minfer_rope_params* p, const float* x, int64_t n, int32_t pos,
                 const float* factors, float* out) {
  const double magnitude = minfer_rope_magnitude(p);
  const int64_t half = p->n_rot / 2;
  for (int64_t pair = 0; pair < half; ++pair) {
    const double angle = minfer_rope_angle(p, pair, pos, factors != NULL ? factors[pair] : 1.0f);
    const float c = (float)(cos(angle) * magnitude), s = (float)(sin(angle) * magnitude);
    const int64_t i = p->mode == MINFER_ROPE_NEOX ? pair : 2 * pair;
    const int64_t j = p->mode == MINFER_ROPE_NEOX ? pair + half : 2 * pair + 1;
    const float a = x[i], b = x[j];
    out[i] = a * c - b * s;
    out[j] = a * s + b * c;
  }
  for (int64_t i = p->n_rot; i < n; ++i) out[i] = x[i];
}

/* Is `a` chosen before `b`, which stands earlier? NaN comes last. */
static int is_larger(float a, float b) {
  return isnan(b) ? !isnan(a) : a > b;
}

/* Keeps the best seen sorted; equal values stay behind earlier ones. */
static void top_k(const float* x, int64_t n, int64_t k, int32_t* best) {
  int64_t held = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (held == k && !is_larger(x[i], x[best[held - 1]])) continue;
    int64_t place = held < k ? held++ : held - 1;
    for (; place > 0 && is_larger(x[i], x[best[place - 1]]); --place) best[place] = best[place - 1];
    best[place] = (int32_t)i;
  }
}

static void each_row(const minfer_node* node, const struct view* src, const struct view* out) {
  const struct view* x = &src[0];
  const float* second = (const float*)(const void*)src[1].data;
  for (int64_t i3 = 0; i3 < x->ne[3]; ++i3)
    for (int64_t i2 = 0; i2 < x->ne[2]; ++i2)
      for (int64_t i1 = 0; i1 < x->ne[1]; ++i1) {
        const float* row = at(x, 0, i1, i2, i3);
        float* to = at(out, 0, i1, i2, i3);
        if (node->op == MINFER_OP_RMS_NORM) rms_norm(node->params, row, second, x->ne[0], to);
        if (node->op == MINFER_OP_SOFTMAX)
          softmax(((const minfer_softmax_params*)node->params)->scale, row, x->ne[0], to);
        if (node->op == MINFER_OP_ROPE)
          rope(node->params, row, x->ne[0], int_at(&src[1], i2, 0),
               (const float*)(void*)src[2].data, to);
        if (node->op == MINFER_OP_TOP_K)
          top_k(row, x->ne[0], ((const minfer_top_k_params*)node->params)->k, (int32_t*)(void*)to);
        if (node->op == MINFER_OP_ARG_MAX)
          top_k(row, x->ne[0], 1, (int32_t*)(void*)at(out, i1, 0, 0, 0));
      }
}

/* ---- matrices ---------------------------------------------------------------------------------
 */

/* Row `index` of a matrix or table in f32: a weight's is dequantised into the scratch. */
static const float* matrix_row(const minfer_plan* plan, const minfer_operand* matrix, int64_t index,
                               float* scratch) {
  const struct weight* weight = plan->weights[matrix->tensor - plan->simple->tensors];
  if (weight == NULL) {
    return (const float*)(void*)(matrix->buffer->data + matrix->offset +
                                 (uint64_t)(index * matrix->tensor->nb[1]));
  }
  const int64_t n = matrix->tensor->ne[0];
  const int64_t bytes = n / minfer_type_values(weight->type) * minfer_type_bytes(weight->type);
  minfer_dequantize_row(weight->type, weight->data + index * bytes, n, scratch);
  return scratch;
}

static float dot(const float* a, const float* b, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; i += 32) {
    float part = 0.0f;
    for (int64_t j = i; j < n && j < i + 32; ++j) part += a[j] * b[j];
    sum += part;
  }
  return (float)sum;
}

static void get_rows(const minfer_plan* plan, const minfer_operand* table, const struct view* rows,
                     const struct view* out) {
  for (int64_t r = 0; r < out->ne[1]; ++r) {
    const float* row = matrix_row(plan, table, int_at(rows, r, 0), plan->scratch);
    memcpy(at(out, 0, r, 0, 0), row, (size_t)out->ne[0] * sizeof(float));
  }
}

static void matmul(const minfer_plan* plan, const minfer_operand* weight, const struct view* src,
                   const struct view* out) {
  const struct view *x = &src[1], *bias = &src[2];
  for (int64_t o = 0; o < out->ne[0]; ++o) {
    const float* row = matrix_row(plan, weight, o, plan->scratch);
    const float start = bias->data != NULL ? *at(bias, o, 0, 0, 0) : 0.0f;
    for (int64_t t = 0; t < out->ne[1]; ++t) {
      *at(out, o, t, 0, 0) = dot(row, at(x, 0, t, 0, 0), x->ne[0]) + start;
    }
  }
}

/* ---- the KV cache -----------------------------------------------------------------------------
 */

/* Address of the K or V row of a slot and head; the check has seen that there is a layout. */
static uint8_t* kv_row(const minfer_node_call* call, int64_t slot, int64_t head, int is_v) {
  minfer_kv_layout layout;
  minfer_kv_layout_of(call->kv, &layout, NULL);
  return call->kv_region->data + minfer_kv_row(call->kv, &layout, slot, head, is_v);
}

static void kv_store(const minfer_node_call* call, const struct view* src) {
  for (int64_t t = 0; t < src[2].ne[0]; ++t) {
    const int64_t slot = *(const int64_t*)(const void*)(src[2].data + t * src[2].nb[0]);
    for (int64_t h = 0; h < call->kv->n_head_kv && slot >= 0; ++h) {
      for (int is_v = 0; is_v <= 1; ++is_v) {
        minfer_kv_encode(call->kv->type, at(&src[is_v], 0, h, t, 0), src[is_v].ne[0],
                         kv_row(call, slot, h, is_v));
      }
    }
  }
}

/* K or V of position j of sequence s in f32. */
static void load_kv(const minfer_node_call* call, const struct view* table, int64_t s, int64_t j,
                    int64_t head, int is_v, float* row) {
  const int64_t page = int_at(table, j / call->kv->page_tokens, s);
  const int64_t slot = page * call->kv->page_tokens + j % call->kv->page_tokens;
  minfer_dequantize_row(call->kv->type, kv_row(call, slot, head, is_v),
                        is_v ? call->kv->head_dim_v : call->kv->head_dim_k, row);
}

/* Query head `h` of token `t` over the positions [from, to) of sequence `s`. */
static void attend(const minfer_node_call* call, const struct view* src, int64_t t, int64_t h,
                   int64_t s, int64_t from, int64_t to, float* scratch, float* out) {
  const minfer_attention_params* p = call->node->params;
  const minfer_kv_desc* kv = call->kv;
  const int64_t kv_head = h / (p->n_head / kv->n_head_kv);
  float* row = scratch; /* one K or V row, then the scores */
  float* scores = scratch + kv->head_dim_k + kv->head_dim_v;
  const float sink = src[5].data != NULL ? *at(&src[5], h, 0, 0, 0) : -INFINITY;
  float largest = sink;
  for (int64_t j = from; j < to; ++j) {
    load_kv(call, &src[4], s, j, kv_head, 0, row);
    float score = p->scale * dot(at(&src[0], 0, h, t, 0), row, kv->head_dim_k);
    if (p->soft_cap != 0.0f) score = p->soft_cap * tanhf(score / p->soft_cap);
    scores[j - from] = score;
    largest = fmaxf(largest, score);
  }
  double sum = src[5].data != NULL ? exp(sink - largest) : 0.0;
  for (int64_t j = from; j < to; ++j) sum += scores[j - from] = expf(scores[j - from] - largest);
  for (int64_t j = from; j < to; ++j) {
    load_kv(call, &src[4], s, j, kv_head, 1, row);
    for (uint32_t i = 0; i < kv->head_dim_v; ++i)
      out[i] += (float)(scores[j - from] / sum) * row[i];
  }
}

static void attention(const minfer_plan* plan, const minfer_node_call* call, const struct view* src,
                      const struct view* out) {
  const minfer_attention_params* p = call->node->params;
  const int64_t dim = call->kv->head_dim_v;
  /* [dim, heads, tokens], or the same bytes as [dim * heads, tokens]. */
  const int is_flat = call->dst->tensor->ne[0] != dim || call->dst->tensor->ne[1] != p->n_head;
  const int64_t head_stride = is_flat ? dim * (int64_t)sizeof(float) : call->dst->tensor->nb[1];
  const int64_t token_stride = is_flat ? call->dst->tensor->nb[1] : call->dst->tensor->nb[2];
  const int64_t n_tokens = src[0].ne[2], n_seqs = src[3].ne[0];
  int64_t s = 0;
  for (int64_t t = 0; t < n_tokens; ++t) {
    while (s < n_seqs && t >= int_at(&src[2], s + 1, 0)) ++s;
    const int is_in = s < n_seqs && t >= int_at(&src[2], s, 0);
    const int64_t pos = is_in ? int_at(&src[1], t, 0) : 0;
    int64_t to = is_in ? int_at(&src[3], s, 0) : 0;
    if (p->causal != 0 && to > pos + 1) to = pos + 1;
    const int64_t from = p->window != 0 && pos + 1 > p->window ? pos + 1 - p->window : 0;
    for (int64_t h = 0; h < p->n_head; ++h) {
      float* row = (float*)(void*)(out->data + t * token_stride + h * head_stride);
      memset(row, 0, (size_t)dim * sizeof *row);
      if (from < to) attend(call, src, t, h, s, from, to, plan->scratch, row);
    }
  }
}

/* ---- dispatch ---------------------------------------------------------------------------------
 */

uint64_t scratch_floats(const minfer_simple_plan* plan) {
  uint64_t most = 1;
  for (uint32_t i = 0; i < plan->n_tensors; ++i) {
    const minfer_tensor* t = &plan->tensors[i];
    if (t->kind == MINFER_TENSOR_WEIGHT && (uint64_t)t->ne[0] > most) most = (uint64_t)t->ne[0];
  }
  for (uint32_t i = 0; i < plan->n_nodes; ++i) {
    if (plan->nodes[i].node.op != MINFER_OP_ATTENTION) continue;
    const minfer_kv_desc* kv = &plan->kv[plan->nodes[i].kv];
    const uint64_t pages = (uint64_t)plan->tensors[plan->nodes[i].indices[4]].ne[0];
    const uint64_t floats = pages * kv->page_tokens + kv->head_dim_k + kv->head_dim_v;
    if (floats > most) most = floats;
  }
  return most;
}

minfer_status run_node(void* author, minfer_queue* queue, const minfer_node_call* call,
                       minfer_error* error) {
  (void)queue, (void)error;
  const minfer_plan* plan = author;
  struct view src[8] = {0};
  for (uint32_t i = 0; i < call->n_src && i < 8; ++i) src[i] = view_of(plan, &call->src[i]);
  const struct view out = view_of(plan, call->dst);
  switch (call->node->op) {
    case MINFER_OP_GET_ROWS:
      get_rows(plan, &call->src[0], &src[1], &out);
      break;
    case MINFER_OP_RMS_NORM:
    case MINFER_OP_SOFTMAX:
    case MINFER_OP_ROPE:
    case MINFER_OP_TOP_K:
    case MINFER_OP_ARG_MAX:
      each_row(call->node, src, &out);
      break;
    case MINFER_OP_MATMUL:
      matmul(plan, &call->src[0], src, &out);
      break;
    case MINFER_OP_KV_STORE:
      kv_store(call, src);
      break;
    case MINFER_OP_ATTENTION:
      attention(plan, call, src, &out);
      break;
    default: /* the check let nothing else through */
      elementwise(call->node, &src[0], &src[1], &out);
      break;
  }
  return MINFER_OK;
}
