/*
 * Checks a split against docs/operators.md, for authors of plugins (C11, also valid C++;
 * header-only and optional).
 *
 * A plugin promises with `supports` that a split compiles, and must neither crash on one that
 * breaks the contract nor say yes to one it does not know. minfer_check_split does what is the same
 * for every backend: numbers of operators and revisions, tensors, strides and views within their
 * owners, operands that are there, with the types and shapes that the operator has. What a device
 * cannot do beside that stays with the author. minfer_check_weights does the same for a unit of
 * weights. Allocates nothing; thread-safe.
 */
#ifndef MINFER_PLUGIN_CHECK_H
#define MINFER_PLUGIN_CHECK_H

#include "minfer/plugin_helper.h"
#include "minfer/quant_blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MINFER_CHECK_MAX_SRC 8
#define MINFER_CHECK_MAX_BYTES ((int64_t)1 << 56)

/* One node with its operands, read to full size. */
typedef struct minfer_checker {
  minfer_split split;
  minfer_node node;
  uint32_t index;
  int has[MINFER_CHECK_MAX_SRC]; /* operand i is present */
  minfer_tensor src[MINFER_CHECK_MAX_SRC];
  minfer_tensor dst;
  uint64_t params[8];
  minfer_verdict* verdict;
} minfer_checker;

/* Notes the refusal and returns 0, as every check here does that is not content. */
static inline int minfer_refuse(minfer_checker* c, uint32_t tensor, const char* format, ...) {
  char said[160];
  va_list args;
  va_start(args, format);
  vsnprintf(said, sizeof said, format, args);
  va_end(args);
  c->verdict->supported = 0;
  c->verdict->node = c->index;
  c->verdict->tensor = tensor;
  snprintf(c->verdict->reason, sizeof c->verdict->reason, "node %u (operator %u): %s", c->index,
           c->node.op, said);
  return 0;
}

static inline void minfer_check_read_tensor(const minfer_split* split, uint32_t index,
                                            minfer_tensor* out) {
  minfer_read_struct(out, sizeof *out,
                     (const uint8_t*)split->tensors + (size_t)split->tensor_stride * index);
}

/* Dimensions, strides and the dynamic axis of one tensor; its span must fit MINFER_CHECK_MAX_BYTES.
 */
static inline int minfer_check_tensor(minfer_checker* c, uint32_t index, const minfer_tensor* t) {
  const int64_t values = minfer_type_values(t->type), size = minfer_type_bytes(t->type);
  if (values == 0 || (values != 1 && t->kind != MINFER_TENSOR_WEIGHT)) {
    return minfer_refuse(c, index, "tensor %u has type %u, which is not known here", index,
                         t->type);
  }
  if (t->kind > MINFER_TENSOR_WEIGHT) return minfer_refuse(c, index, "kind %u", t->kind);
  int64_t elements = 1, span = size;
  for (int i = 0; i < 4; ++i) {
    if (t->ne[i] < 0 || (t->ne[i] > 0 && elements > MINFER_CHECK_MAX_BYTES / 256 / t->ne[i])) {
      return minfer_refuse(c, index, "tensor %u has dimensions that are negative or too large",
                           index);
    }
    if (t->ne[i] > 0) elements *= t->ne[i];
    if (t->kind == MINFER_TENSOR_WEIGHT) continue;
    const int64_t steps = t->ne[i] > 0 ? t->ne[i] - 1 : 0;
    if (t->nb[i] < 0 || t->nb[i] % size != 0 || (i == 0 && t->nb[0] != size) ||
        (steps > 0 && t->nb[i] > (MINFER_CHECK_MAX_BYTES - span) / steps)) {
      return minfer_refuse(c, index, "tensor %u: nb[%d] is %lld", index, i, (long long)t->nb[i]);
    }
    span += steps * t->nb[i];
  }
  if (t->kind == MINFER_TENSOR_WEIGHT && (t->ne[0] % values != 0 || t->view_of != MINFER_NONE)) {
    return minfer_refuse(c, index, "weight %u: rows of %lld, %s has blocks of %lld", index,
                         (long long)t->ne[0], minfer_type_name(t->type), (long long)values);
  }
  if (t->dyn_axis != MINFER_NONE && (t->dyn_axis > 3 || t->dyn_count > MINFER_DYN_OUTS)) {
    return minfer_refuse(c, index, "tensor %u: dynamic axis %u, count %u", index, t->dyn_axis,
                         t->dyn_count);
  }
  return 1;
}

static inline int minfer_check_view(minfer_checker* c, uint32_t index, const minfer_tensor* t) {
  if (t->view_of == MINFER_NONE) return 1;
  if (t->view_of >= c->split.n_tensors) {
    return minfer_refuse(c, index, "tensor %u views tensor %u", index, t->view_of);
  }
  minfer_tensor owner;
  minfer_check_read_tensor(&c->split, t->view_of, &owner);
  const int64_t size = minfer_type_bytes(t->type);
  const int64_t room = (int64_t)minfer_span_bytes(&owner), span = (int64_t)minfer_span_bytes(t);
  if (owner.view_of != MINFER_NONE || owner.kind == MINFER_TENSOR_WEIGHT || t->view_offset < 0 ||
      t->view_offset % size != 0 || t->view_offset > room || span > room - t->view_offset) {
    return minfer_refuse(c, index, "tensor %u: %lld bytes at %lld of tensor %u with %lld bytes",
                         index, (long long)span, (long long)t->view_offset, t->view_of,
                         (long long)room);
  }
  return 1;
}

/* ---- what operators have in common ------------------------------------------------------------
 */

static inline int minfer_check_shape(minfer_checker* c, uint32_t index, const minfer_tensor* t,
                                     int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  if (t->ne[0] == n0 && t->ne[1] == n1 && t->ne[2] == n2 && t->ne[3] == n3) return 1;
  return minfer_refuse(c, index, "[%lld, %lld, %lld, %lld], expected [%lld, %lld, %lld, %lld]",
                       (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2],
                       (long long)t->ne[3], (long long)n0, (long long)n1, (long long)n2,
                       (long long)n3);
}

static inline int minfer_check_is(minfer_checker* c, uint32_t i, const minfer_tensor* as) {
  return minfer_check_shape(c, c->node.src[i], &c->src[i], as->ne[0], as->ne[1], as->ne[2],
                            as->ne[3]);
}

/* Operand i is an activation or input of this type. */
static inline int minfer_check_activation(minfer_checker* c, uint32_t i, uint32_t type) {
  if (!c->has[i]) return minfer_refuse(c, MINFER_NONE, "operand %u is missing", i);
  if (c->src[i].kind == MINFER_TENSOR_WEIGHT || c->src[i].type != type) {
    return minfer_refuse(c, c->node.src[i], "operand %u is %s%s, expected an activation in %s", i,
                         c->src[i].kind == MINFER_TENSOR_WEIGHT ? "a weight in " : "",
                         minfer_type_name(c->src[i].type), minfer_type_name(type));
  }
  return 1;
}

/* Operand i, where present, is n values: a plain weight, or f32. */
static inline int minfer_check_vector(minfer_checker* c, uint32_t i, int64_t n) {
  if (!c->has[i]) return 1;
  return (c->src[i].kind == MINFER_TENSOR_WEIGHT ||
          minfer_check_activation(c, i, MINFER_TYPE_F32)) &&
         minfer_check_shape(c, c->node.src[i], &c->src[i], n, 1, 1, 1);
}

static inline int minfer_check_matrix(minfer_checker* c, uint32_t i) {
  if (!c->has[i]) return minfer_refuse(c, MINFER_NONE, "the matrix is missing");
  const uint32_t type = c->src[i].type;
  if (c->src[i].kind != MINFER_TENSOR_WEIGHT || type == MINFER_TYPE_I32 ||
      type == MINFER_TYPE_I64) {
    return minfer_refuse(c, c->node.src[i], "the matrix is no weight of a known type (%s)",
                         minfer_type_name(type));
  }
  return 1;
}

static inline int minfer_check_dst(minfer_checker* c, uint32_t type) {
  if (c->node.dst == MINFER_NONE) return minfer_refuse(c, MINFER_NONE, "there is no destination");
  if (c->dst.kind != MINFER_TENSOR_ACTIVATION || c->dst.type != type) {
    return minfer_refuse(c, c->node.dst, "the destination is no activation in %s",
                         minfer_type_name(type));
  }
  return 1;
}

/* Operators that read whole rows cannot have them cut by a valid count. */
static inline int minfer_check_rows(minfer_checker* c, uint32_t i) {
  if (c->src[i].dyn_axis != 0 || c->src[i].dyn_count == MINFER_DYN_NONE) return 1;
  return minfer_refuse(c, c->node.src[i], "axis 0 changes with each run, rows are read whole");
}

/* One f32 operand, one destination of its shape. */
static inline int minfer_check_unary(minfer_checker* c) {
  return minfer_check_activation(c, 0, MINFER_TYPE_F32) && minfer_check_dst(c, MINFER_TYPE_F32) &&
         minfer_check_is(c, 0, &c->dst);
}

/* ---- operators --------------------------------------------------------------------------------
 */

static inline int minfer_check_get_rows(minfer_checker* c) {
  if (!c->has[0]) return minfer_refuse(c, MINFER_NONE, "the table is missing");
  const int is_weight = c->src[0].kind == MINFER_TENSOR_WEIGHT;
  return (is_weight ? minfer_check_matrix(c, 0) : minfer_check_activation(c, 0, MINFER_TYPE_F32)) &&
         minfer_check_activation(c, 1, MINFER_TYPE_I32) && minfer_check_dst(c, MINFER_TYPE_F32) &&
         minfer_check_rows(c, 0) &&
         minfer_check_shape(c, c->node.src[0], &c->src[0], c->src[0].ne[0], c->src[0].ne[1], 1,
                            1) &&
         minfer_check_shape(c, c->node.src[1], &c->src[1], c->src[1].ne[0], 1, 1, 1) &&
         minfer_check_shape(c, c->node.dst, &c->dst, c->src[0].ne[0], c->src[1].ne[0], 1, 1);
}

static inline int minfer_check_binary(minfer_checker* c) {
  if (!minfer_check_unary(c)) return 0;
  if (!c->has[1]) return minfer_refuse(c, MINFER_NONE, "the second operand is missing");
  if (c->src[1].kind != MINFER_TENSOR_WEIGHT && !minfer_check_activation(c, 1, MINFER_TYPE_F32))
    return 0;
  for (int i = 0; i < 4; ++i) {
    if (c->src[1].ne[i] == c->dst.ne[i] || c->src[1].ne[i] == 1) continue;
    return minfer_refuse(c, c->node.src[1], "%lld of axis %d do not repeat over %lld",
                         (long long)c->src[1].ne[i], i, (long long)c->dst.ne[i]);
  }
  return 1;
}

static inline int minfer_check_rope(minfer_checker* c) {
  minfer_rope_params p;
  memcpy(&p, c->params, sizeof p);
  if (!minfer_check_unary(c) || !minfer_check_rows(c, 0)) return 0;
  if (!minfer_check_activation(c, 1, MINFER_TYPE_I32)) return 0;
  if (p.n_rot == 0 || p.n_rot % 2 != 0 || p.n_rot > c->dst.ne[0] ||
      p.mode > MINFER_ROPE_INTERLEAVED || !(p.freq_base > 0.0f) || !(p.freq_scale > 0.0f)) {
    return minfer_refuse(
        c, c->node.src[0], "mode %u, %u dimensions of %lld rotated, base %g, scale %g", p.mode,
        p.n_rot, (long long)c->dst.ne[0], (double)p.freq_base, (double)p.freq_scale);
  }
  return minfer_check_shape(c, c->node.dst, &c->dst, c->dst.ne[0], c->dst.ne[1], c->dst.ne[2], 1) &&
         minfer_check_shape(c, c->node.src[1], &c->src[1], c->dst.ne[2], 1, 1, 1) &&
         minfer_check_vector(c, 2, p.n_rot / 2);
}

static inline int minfer_check_matmul(minfer_checker* c) {
  if (!minfer_check_matrix(c, 0) || !minfer_check_activation(c, 1, MINFER_TYPE_F32)) return 0;
  const int64_t id = c->src[0].ne[0], od = c->src[0].ne[1], nt = c->src[1].ne[1];
  return minfer_check_rows(c, 1) && minfer_check_dst(c, MINFER_TYPE_F32) &&
         minfer_check_shape(c, c->node.src[0], &c->src[0], id, od, 1, 1) &&
         minfer_check_shape(c, c->node.src[1], &c->src[1], id, nt, 1, 1) &&
         minfer_check_shape(c, c->node.dst, &c->dst, od, nt, 1, 1) && minfer_check_vector(c, 2, od);
}

static inline int minfer_check_matmul_by_id(minfer_checker* c) {
  if (!minfer_check_matrix(c, 0) || !minfer_check_activation(c, 1, MINFER_TYPE_F32) ||
      !minfer_check_activation(c, 2, MINFER_TYPE_I32)) {
    return 0;
  }
  const int64_t id = c->src[0].ne[0], od = c->src[0].ne[1];
  const int64_t k = c->src[2].ne[0], nt = c->src[2].ne[1];
  return minfer_check_rows(c, 1) && minfer_check_dst(c, MINFER_TYPE_F32) &&
         minfer_check_shape(c, c->node.src[0], &c->src[0], id, od, c->src[0].ne[2], 1) &&
         minfer_check_shape(c, c->node.src[1], &c->src[1], id, c->src[1].ne[1] == 1 ? 1 : k, nt,
                            1) &&
         minfer_check_shape(c, c->node.src[2], &c->src[2], k, nt, 1, 1) &&
         minfer_check_shape(c, c->node.dst, &c->dst, od, k, nt, 1);
}

/* The KV region that KV_STORE and ATTENTION name; both have the index as their first parameter. */
static inline int minfer_check_kv(minfer_checker* c, minfer_kv_desc* kv) {
  minfer_kv_params p;
  memcpy(&p, c->params, sizeof p);
  if (p.kv >= c->split.n_kv) {
    return minfer_refuse(c, MINFER_NONE, "KV region %u of %u", p.kv, c->split.n_kv);
  }
  minfer_read_struct(kv, sizeof *kv,
                     (const uint8_t*)c->split.kv + (size_t)c->split.kv_stride * p.kv);
  if (kv->n_head_kv > 0 && kv->head_dim_k > 0 && kv->head_dim_v > 0 && kv->page_tokens > 0)
    return 1;
  return minfer_refuse(c, MINFER_NONE, "KV region %u has no heads or no room", p.kv);
}

static inline int minfer_check_kv_store(minfer_checker* c) {
  minfer_kv_desc kv;
  if (!minfer_check_kv(c, &kv) || !minfer_check_activation(c, 0, MINFER_TYPE_F32) ||
      !minfer_check_activation(c, 1, MINFER_TYPE_F32) ||
      !minfer_check_activation(c, 2, MINFER_TYPE_I64)) {
    return 0;
  }
  const int64_t nt = c->src[2].ne[0];
  return minfer_check_shape(c, c->node.src[0], &c->src[0], kv.head_dim_k, kv.n_head_kv, nt, 1) &&
         minfer_check_shape(c, c->node.src[1], &c->src[1], kv.head_dim_v, kv.n_head_kv, nt, 1) &&
         minfer_check_shape(c, c->node.src[2], &c->src[2], nt, 1, 1, 1);
}

static inline int minfer_check_attention(minfer_checker* c) {
  minfer_kv_desc kv;
  minfer_attention_params p;
  memcpy(&p, c->params, sizeof p);
  if (!minfer_check_kv(c, &kv) || !minfer_check_activation(c, 0, MINFER_TYPE_F32)) return 0;
  for (uint32_t i = 1; i <= 4; ++i) {
    if (!minfer_check_activation(c, i, MINFER_TYPE_I32)) return 0;
  }
  if (c->has[6]) return minfer_refuse(c, c->node.src[6], "masks are reserved");
  if (p.n_head == 0 || p.n_head % kv.n_head_kv != 0) {
    return minfer_refuse(c, MINFER_NONE, "%u heads over %u KV heads", p.n_head, kv.n_head_kv);
  }
  const int64_t nt = c->src[0].ne[2], ns = c->src[3].ne[0];
  /* The heads of a token lie side by side: [dim * heads, nt] names the same bytes. */
  const int64_t joint = (int64_t)kv.head_dim_v * p.n_head;
  const int flat =
      c->dst.ne[0] == joint && c->dst.ne[2] == 1 && (p.n_head > 1 || c->dst.ne[1] == nt);
  return minfer_check_dst(c, MINFER_TYPE_F32) &&
         minfer_check_shape(c, c->node.src[0], &c->src[0], kv.head_dim_k, p.n_head, nt, 1) &&
         minfer_check_shape(c, c->node.src[1], &c->src[1], nt, 1, 1, 1) &&
         minfer_check_shape(c, c->node.src[2], &c->src[2], ns + 1, 1, 1, 1) &&
         minfer_check_shape(c, c->node.src[3], &c->src[3], ns, 1, 1, 1) &&
         minfer_check_shape(c, c->node.src[4], &c->src[4], c->src[4].ne[0], ns, 1, 1) &&
         (flat ? minfer_check_shape(c, c->node.dst, &c->dst, joint, nt, 1, 1)
               : minfer_check_shape(c, c->node.dst, &c->dst, kv.head_dim_v, p.n_head, nt, 1)) &&
         minfer_check_vector(c, 5, p.n_head);
}

static inline int minfer_check_concat(minfer_checker* c) {
  minfer_concat_params p;
  memcpy(&p, c->params, sizeof p);
  if (!minfer_check_activation(c, 0, MINFER_TYPE_F32) ||
      !minfer_check_activation(c, 1, MINFER_TYPE_F32) || !minfer_check_dst(c, MINFER_TYPE_F32)) {
    return 0;
  }
  if (p.axis > 3 || c->dst.dyn_axis == p.axis)
    return minfer_refuse(c, c->node.dst, "axis %u", p.axis);
  int64_t a[4], out[4];
  for (uint32_t i = 0; i < 4; ++i) {
    a[i] = i == p.axis ? c->src[0].ne[i] : c->src[1].ne[i];
    out[i] = i == p.axis ? c->src[0].ne[i] + c->src[1].ne[i] : c->src[0].ne[i];
  }
  return minfer_check_shape(c, c->node.src[0], &c->src[0], a[0], a[1], a[2], a[3]) &&
         minfer_check_shape(c, c->node.dst, &c->dst, out[0], out[1], out[2], out[3]);
}

/* TOP_K and ARG_MAX: rows of at least k values. `out0`, `out1`: the destination's shape. */
static inline int minfer_check_choice(minfer_checker* c, int64_t k, int is_arg_max) {
  if (!minfer_check_activation(c, 0, MINFER_TYPE_F32) || !minfer_check_dst(c, MINFER_TYPE_I32) ||
      !minfer_check_rows(c, 0)) {
    return 0;
  }
  const int64_t n = c->src[0].ne[0], m = c->src[0].ne[1];
  if (k < 1 || k > n) {
    return minfer_refuse(c, c->node.src[0], "the %lld largest of %lld", (long long)k, (long long)n);
  }
  return minfer_check_shape(c, c->node.src[0], &c->src[0], n, m, 1, 1) &&
         minfer_check_shape(c, c->node.dst, &c->dst, is_arg_max ? m : k, is_arg_max ? 1 : m, 1, 1);
}

static inline int minfer_check_operator(minfer_checker* c) {
  const uint32_t op = c->node.op;
  const int needs_params = op == MINFER_OP_SCALE || op == MINFER_OP_RMS_NORM ||
                           op == MINFER_OP_ROPE || op == MINFER_OP_KV_STORE ||
                           op == MINFER_OP_ATTENTION || op == MINFER_OP_GELU ||
                           op == MINFER_OP_SOFTMAX || op == MINFER_OP_SOFT_CAP ||
                           op == MINFER_OP_CONCAT || op == MINFER_OP_TOP_K;
  if (needs_params && c->node.params == NULL) return minfer_refuse(c, MINFER_NONE, "no parameters");
  minfer_read_struct(c->params, sizeof c->params, needs_params ? c->node.params : NULL);
  uint32_t first; /* the first parameter, where it is a number */
  memcpy(&first, (const uint8_t*)c->params + sizeof(uint32_t), sizeof first);
  switch (op) {
    case MINFER_OP_GET_ROWS:
      return minfer_check_get_rows(c);
    case MINFER_OP_ADD:
    case MINFER_OP_MUL:
      return minfer_check_binary(c);
    case MINFER_OP_SCALE:
    case MINFER_OP_SILU:
    case MINFER_OP_SOFT_CAP:
      return minfer_check_unary(c);
    case MINFER_OP_GELU:
      if (first > MINFER_GELU_QUICK) return minfer_refuse(c, MINFER_NONE, "kind %u of GELU", first);
      return minfer_check_unary(c);
    case MINFER_OP_SOFTMAX:
      return minfer_check_unary(c) && minfer_check_rows(c, 0);
    case MINFER_OP_RMS_NORM:
      return minfer_check_unary(c) && minfer_check_rows(c, 0) &&
             minfer_check_vector(c, 1, c->dst.ne[0]);
    case MINFER_OP_MATMUL:
      return minfer_check_matmul(c);
    case MINFER_OP_ROPE:
      return minfer_check_rope(c);
    case MINFER_OP_KV_STORE:
      return minfer_check_kv_store(c);
    case MINFER_OP_ATTENTION:
      return minfer_check_attention(c);
    case MINFER_OP_CONCAT:
      return minfer_check_concat(c);
    case MINFER_OP_TOP_K:
      return minfer_check_choice(c, first, 0);
    case MINFER_OP_ARG_MAX:
      return minfer_check_choice(c, 1, 1);
    case MINFER_OP_MATMUL_BY_ID:
      return minfer_check_matmul_by_id(c);
    default:
      return minfer_refuse(c, MINFER_NONE, "the operator is unknown");
  }
}

static inline int minfer_check_node(minfer_checker* c, const minfer_op_support* ops,
                                    uint32_t n_ops) {
  minfer_read_struct(&c->node, sizeof c->node,
                     (const uint8_t*)c->split.nodes + (size_t)c->split.node_stride * c->index);
  uint32_t revision = 0;
  for (uint32_t i = 0; i < n_ops; ++i) {
    if (ops[i].op == c->node.op) revision = ops[i].revision;
  }
  if (c->node.revision == 0 || c->node.revision > revision) {
    return minfer_refuse(c, MINFER_NONE, "revision %u; known is %u (0: none)", c->node.revision,
                         revision);
  }
  if (c->node.n_src > MINFER_CHECK_MAX_SRC || (c->node.n_src > 0 && c->node.src == NULL)) {
    return minfer_refuse(c, MINFER_NONE, "%u operands", c->node.n_src);
  }
  for (uint32_t i = 0; i < MINFER_CHECK_MAX_SRC; ++i) {
    c->has[i] = i < c->node.n_src && c->node.src[i] != MINFER_NONE;
    if (!c->has[i]) continue;
    if (c->node.src[i] >= c->split.n_tensors) {
      return minfer_refuse(c, MINFER_NONE, "operand %u is tensor %u of %u", i, c->node.src[i],
                           c->split.n_tensors);
    }
    minfer_check_read_tensor(&c->split, c->node.src[i], &c->src[i]);
  }
  if (c->node.dst != MINFER_NONE) {
    if (c->node.dst >= c->split.n_tensors) {
      return minfer_refuse(c, MINFER_NONE, "the destination is tensor %u of %u", c->node.dst,
                           c->split.n_tensors);
    }
    minfer_check_read_tensor(&c->split, c->node.dst, &c->dst);
  }
  return minfer_check_operator(c);
}

/* 1: every node is one of `ops` at a revision within, and well-formed. 0: *verdict says what is
 * not. `verdict` is of this header's size; write it to the caller's with minfer_write_struct. */
static inline int minfer_check_split(const minfer_split* given, const minfer_op_support* ops,
                                     uint32_t n_ops, minfer_verdict* verdict) {
  minfer_checker c;
  memset(&c, 0, sizeof c);
  memset(verdict, 0, sizeof *verdict);
  verdict->supported = 1;
  verdict->node = verdict->tensor = MINFER_NONE;
  c.verdict = verdict;
  c.index = MINFER_NONE;
  minfer_read_struct(&c.split, sizeof c.split, given);
  if ((c.split.n_tensors > 0 && (c.split.tensors == NULL || c.split.tensor_stride < 4)) ||
      (c.split.n_nodes > 0 && (c.split.nodes == NULL || c.split.node_stride < 4)) ||
      (c.split.n_kv > 0 && (c.split.kv == NULL || c.split.kv_stride < 4)) ||
      c.split.capacity == NULL) {
    return minfer_refuse(&c, MINFER_NONE, "the split's arrays are missing");
  }
  for (uint32_t i = 0; i < c.split.n_tensors; ++i) {
    minfer_tensor t;
    minfer_check_read_tensor(&c.split, i, &t);
    if (!minfer_check_tensor(&c, i, &t)) return 0;
  }
  for (uint32_t i = 0; i < c.split.n_tensors; ++i) {
    minfer_tensor t;
    minfer_check_read_tensor(&c.split, i, &t);
    if (!minfer_check_view(&c, i, &t)) return 0;
  }
  for (c.index = 0; c.index < c.split.n_nodes; ++c.index) {
    if (!minfer_check_node(&c, ops, n_ops)) return 0;
  }
  return 1;
}

/* For backends that read elementwise weights (norms, biases, factors) as they lie in the file: they
 * are f32 there in practice. Call it after minfer_check_split; 0 names the first that is not. */
static inline int minfer_check_plain_is_f32(const minfer_split* split, minfer_verdict* verdict) {
  for (uint32_t n = 0; n < split->n_nodes; ++n) {
    minfer_node node;
    minfer_read_struct(&node, sizeof node,
                       (const uint8_t*)split->nodes + (size_t)split->node_stride * n);
    const int has_matrix = node.op == MINFER_OP_MATMUL || node.op == MINFER_OP_MATMUL_BY_ID ||
                           node.op == MINFER_OP_GET_ROWS;
    for (uint32_t i = has_matrix ? 1 : 0; i < node.n_src; ++i) {
      if (node.src[i] == MINFER_NONE) continue;
      minfer_tensor t;
      minfer_check_read_tensor(split, node.src[i], &t);
      if (t.kind != MINFER_TENSOR_WEIGHT || t.type == MINFER_TYPE_F32) continue;
      verdict->supported = 0;
      verdict->node = n;
      verdict->tensor = node.src[i];
      snprintf(verdict->reason, sizeof verdict->reason,
               "node %u reads a weight in %s elementwise; f32 is supported", n,
               minfer_type_name(t.type));
      return 0;
    }
  }
  return 1;
}

/* ---- weights -----------------------------------------------------------------------------------
 */

/* Weight i of a unit, read to full size. */
static inline minfer_weight minfer_weight_at(const minfer_weight_unit* unit, uint32_t i) {
  minfer_weight w;
  minfer_read_struct(&w, sizeof w, (const uint8_t*)unit->weights + (size_t)unit->weight_stride * i);
  return w;
}

/* Reads a unit to full size. MINFER_UNSUPPORTED for a type that is no weight type, MINFER_INVALID
 * where bytes do not fit the shape or lie outside the mapping (which is NULL for weights_size). */
static inline minfer_status minfer_check_weights(const minfer_weight_unit* given,
                                                 minfer_weight_unit* out, minfer_error* error) {
  minfer_read_struct(out, sizeof *out, given);
  if (out->n_weights > 0 && (out->weights == NULL || out->weight_stride < sizeof(uint32_t))) {
    return minfer_fail(error, MINFER_INVALID, "%u weights, but no list", out->n_weights);
  }
  for (uint32_t i = 0; i < out->n_weights; ++i) {
    const minfer_weight w = minfer_weight_at(out, i);
    const char* name = w.name != NULL ? w.name : "(unnamed)";
    const uint32_t values = minfer_type_values(w.type);
    if (values == 0 || w.type == MINFER_TYPE_I32 || w.type == MINFER_TYPE_I64) {
      return minfer_fail(error, MINFER_UNSUPPORTED, "weight %s: type %u is not known here", name,
                         w.type);
    }
    int64_t n = 1;
    for (int axis = 0; axis < 4 && n > 0; ++axis) {
      n = w.ne[axis] < 1 || w.ne[axis] > MINFER_CHECK_MAX_BYTES / 256 / n ? 0 : n * w.ne[axis];
    }
    if (n == 0 || w.ne[0] % values != 0 ||
        w.bytes != (uint64_t)n / values * minfer_type_bytes(w.type)) {
      return minfer_fail(error, MINFER_INVALID,
                         "weight %s: %llu bytes of %s do not fit [%lld, %lld, %lld, %lld]", name,
                         (unsigned long long)w.bytes, minfer_type_name(w.type), (long long)w.ne[0],
                         (long long)w.ne[1], (long long)w.ne[2], (long long)w.ne[3]);
    }
    if (w.mapping != NULL && (w.offset > w.mapping_bytes || w.bytes > w.mapping_bytes - w.offset)) {
      return minfer_fail(error, MINFER_INVALID, "weight %s ends past the mapping of %llu bytes",
                         name, (unsigned long long)w.mapping_bytes);
    }
  }
  return MINFER_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* MINFER_PLUGIN_CHECK_H */
