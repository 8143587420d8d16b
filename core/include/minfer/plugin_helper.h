/*
 * Plans the simple way, for authors of plugins (C11, also valid C++; header-only and optional).
 *
 * A plugin that runs one function per node need not write plans: this header copies the split,
 * places the tensors that stay inside it, resolves bindings, and calls the author's function for
 * every node in order, with operands that say where they lie and how long they are in this run.
 * Fusion, capture and kernel choice are for authors who write plans themselves.
 *
 *     struct minfer_plan { struct my_device* device; minfer_simple_plan* simple; };
 *
 *     static minfer_status run_node(void* author, minfer_queue* queue, const minfer_node_call*
 * call, minfer_error* error) { switch (call->node->op) { ... } }
 *
 * plan_compile, plan_bind, plan_run and plan_destroy then call the function of the same ending
 * here. What stays with the author: `supports` (compile accepts any well-formed split), weights,
 * buffers, queues. Functions are static and keep no state outside the plan; one thread uses a plan
 * at a time.
 */
#ifndef MINFER_PLUGIN_HELPER_H
#define MINFER_PLUGIN_HELPER_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "minfer/plugin_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- structs of any size, errors ------------------------------------------------------------- */

/* Copies a growable struct of the other side into `to` of `size` bytes: fields within its stated
 * size, zero for the rest. `from` may be NULL (all zero). */
static inline void minfer_read_struct(void* to, uint32_t size, const void* from) {
  uint32_t stated = 0;
  memset(to, 0, size);
  if (from == NULL) return;
  memcpy(&stated, from, sizeof stated);
  memcpy(to, from, stated < size ? stated : size);
  memcpy(to, &size, sizeof size);
}

/* Writes `from` of `size` bytes into the other side's struct, as far as that one reaches; its
 * struct_size stays. */
static inline void minfer_write_struct(void* to, const void* from, uint32_t size) {
  uint32_t stated = 0;
  memcpy(&stated, to, sizeof stated);
  if (stated > size) stated = size;
  if (stated > sizeof stated) {
    memcpy((uint8_t*)to + sizeof stated, (const uint8_t*)from + sizeof stated,
           stated - sizeof stated);
  }
}

/* Fills `error` and returns `status`. */
static inline minfer_status minfer_fail(minfer_error* error, minfer_status status,
                                        const char* format, ...) {
  if (error != NULL) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
  }
  return status;
}

/* ---- what a node's function sees ----------------------------------------------------------------
 */

typedef struct minfer_operand {
  const minfer_tensor* tensor; /* NULL: the optional operand is absent */
  int64_t ne[4];               /* dimensions in this run: valid counts along dynamic axes */
  minfer_buffer* buffer;       /* NULL for weights, which the author finds by tensor->weight_id */
  uint64_t offset;             /* of the first element */
} minfer_operand;

typedef struct minfer_node_call {
  const minfer_node* node;
  uint32_t index; /* of the node in the split */
  uint32_t n_src;
  const minfer_operand* src;
  const minfer_operand* dst; /* tensor is NULL for KV_STORE */
  const minfer_kv_desc* kv;  /* of KV_STORE and ATTENTION, else NULL */
  minfer_buffer* kv_region;  /* its region, else NULL */
  const minfer_capacity* capacity;
  const minfer_run_args* args;
  uint64_t model;
} minfer_node_call;

/* Enqueues or completes one node. */
typedef minfer_status (*minfer_node_fn)(void* author, minfer_queue* queue,
                                        const minfer_node_call* call, minfer_error* error);
/* Fills bytes of a buffer with zeros, on the queue: rows past the valid counts. */
typedef minfer_status (*minfer_clear_fn)(void* author, minfer_queue* queue, minfer_buffer* buffer,
                                         uint64_t offset, uint64_t bytes, minfer_error* error);

/* ---- the plan
 * --------------------------------------------------------------------------------------- */

typedef struct minfer_simple_node {
  minfer_node node;
  minfer_operand* operands; /* sources, then the destination */
  uint32_t* indices;        /* tensor of each operand, or MINFER_NONE */
  uint64_t params[8];       /* copy of the parameters */
  uint32_t kv;              /* MINFER_NONE: none */
} minfer_simple_node;

typedef struct minfer_simple_plan {
  uint32_t n_tensors, n_nodes, n_kv;
  minfer_tensor* tensors;
  minfer_simple_node* nodes;
  minfer_kv_desc* kv;
  minfer_capacity capacity;
  uint64_t model;
  uint64_t* places;        /* per tensor: offset in the workspace, of those inside the split */
  minfer_buffer** buffers; /* per tensor, from bind */
  uint64_t* offsets;       /* per tensor, from bind */
  minfer_buffer** regions; /* per KV region, from bind */
  uint64_t workspace_bytes;
  int bound;
} minfer_simple_plan;

/* Bytes from a tensor's first element to its last; `element` is the size of one. */
static inline uint64_t minfer_span_bytes(const minfer_tensor* t) {
  uint64_t span = (uint64_t)t->nb[0];
  for (int i = 0; i < 4; ++i) {
    if (t->ne[i] <= 0) return 0;
    span += (uint64_t)(t->ne[i] - 1) * (uint64_t)t->nb[i];
  }
  return span;
}

static inline void minfer_simple_destroy(minfer_simple_plan* plan) {
  if (plan == NULL) return;
  for (uint32_t i = 0; plan->nodes != NULL && i < plan->n_nodes; ++i) {
    free(plan->nodes[i].operands);
    free(plan->nodes[i].indices);
  }
  free(plan->tensors);
  free(plan->nodes);
  free(plan->kv);
  free(plan->places);
  free(plan->buffers);
  free(plan->offsets);
  free(plan->regions);
  free(plan);
}

static inline int minfer_simple_is_inside(const minfer_simple_plan* plan, uint32_t tensor) {
  const minfer_tensor* t = &plan->tensors[tensor];
  return t->view_of == MINFER_NONE && t->kind == MINFER_TENSOR_ACTIVATION &&
         (t->flags & MINFER_FLAG_ESCAPES) == 0;
}

static inline uint32_t minfer_simple_owner(const minfer_simple_plan* plan, uint32_t tensor) {
  const uint32_t owner = plan->tensors[tensor].view_of;
  return owner == MINFER_NONE ? tensor : owner;
}

/* Gives every tensor inside the split a place: the lowest one that no tensor alive at the same time
 * takes. Lives are ranges of nodes. Quadratic in the tensors, which is fast enough for one split.
 */
static inline int minfer_simple_place(minfer_simple_plan* plan, uint64_t alignment) {
  uint32_t* first = (uint32_t*)malloc(((size_t)plan->n_tensors + 1) * sizeof *first);
  uint32_t* last = (uint32_t*)calloc((size_t)plan->n_tensors + 1, sizeof *last);
  if (first == NULL || last == NULL) {
    free(first);
    free(last);
    return 0;
  }
  for (uint32_t i = 0; i < plan->n_tensors; ++i) first[i] = MINFER_NONE;
  for (uint32_t n = 0; n < plan->n_nodes; ++n) {
    const minfer_simple_node* node = &plan->nodes[n];
    for (uint32_t i = 0; i <= node->node.n_src; ++i) {
      if (node->indices[i] == MINFER_NONE) continue;
      const uint32_t owner = minfer_simple_owner(plan, node->indices[i]);
      if (first[owner] == MINFER_NONE) first[owner] = n;
      last[owner] = plan->tensors[owner].flags & MINFER_FLAG_KEEP ? plan->n_nodes : n;
    }
  }
  for (uint32_t i = 0; i < plan->n_tensors; ++i) {
    if (!minfer_simple_is_inside(plan, i) || first[i] == MINFER_NONE) continue;
    const uint64_t bytes = minfer_span_bytes(&plan->tensors[i]);
    uint64_t place = 0;
    for (int moved = 1; moved != 0;) {
      moved = 0;
      for (uint32_t j = 0; j < i; ++j) {
        if (!minfer_simple_is_inside(plan, j) || first[j] == MINFER_NONE) continue;
        const uint64_t end = plan->places[j] + minfer_span_bytes(&plan->tensors[j]);
        if (last[j] < first[i] || last[i] < first[j]) continue;
        if (end <= place || place + bytes <= plan->places[j]) continue;
        place = (end + alignment - 1) / alignment * alignment;
        moved = 1;
      }
    }
    plan->places[i] = place;
    if (place + bytes > plan->workspace_bytes) plan->workspace_bytes = place + bytes;
  }
  free(first);
  free(last);
  return 1;
}

static inline minfer_status minfer_simple_copy_tensors(minfer_simple_plan* plan,
                                                       const minfer_split* split,
                                                       minfer_error* error) {
  for (uint32_t i = 0; i < plan->n_tensors; ++i) {
    minfer_read_struct(&plan->tensors[i], sizeof(minfer_tensor),
                       (const uint8_t*)split->tensors + (size_t)split->tensor_stride * i);
    if (plan->tensors[i].view_of != MINFER_NONE && plan->tensors[i].view_of >= plan->n_tensors) {
      return minfer_fail(error, MINFER_INVALID, "tensor %u views tensor %u of %u", i,
                         plan->tensors[i].view_of, plan->n_tensors);
    }
    /* Names live as long as the call that gives them. */
    plan->tensors[i].name = NULL;
  }
  for (uint32_t i = 0; i < plan->n_kv; ++i) {
    minfer_read_struct(&plan->kv[i], sizeof(minfer_kv_desc),
                       (const uint8_t*)split->kv + (size_t)split->kv_stride * i);
  }
  return MINFER_OK;
}

static inline minfer_status minfer_simple_copy_node(minfer_simple_plan* plan, uint32_t index,
                                                    const void* from, minfer_error* error) {
  minfer_simple_node* node = &plan->nodes[index];
  node->kv = MINFER_NONE;
  minfer_read_struct(&node->node, sizeof(minfer_node), from);
  const uint32_t n = node->node.n_src;
  if (n > 64 || (n > 0 && node->node.src == NULL)) {
    return minfer_fail(error, MINFER_INVALID, "node %u has %u sources, at most 64 are expected",
                       index, n);
  }
  node->operands = (minfer_operand*)calloc((size_t)n + 1, sizeof *node->operands);
  node->indices = (uint32_t*)calloc((size_t)n + 1, sizeof *node->indices);
  if (node->operands == NULL || node->indices == NULL) {
    return minfer_fail(error, MINFER_OOM_HOST, "no memory for node %u", index);
  }
  for (uint32_t i = 0; i <= n; ++i) {
    node->indices[i] = i < n ? node->node.src[i] : node->node.dst;
    if (node->indices[i] == MINFER_NONE) continue;
    if (node->indices[i] >= plan->n_tensors) {
      return minfer_fail(error, MINFER_INVALID, "node %u names tensor %u of %u", index,
                         node->indices[i], plan->n_tensors);
    }
    node->operands[i].tensor = &plan->tensors[node->indices[i]];
  }
  node->node.src = node->indices;
  node->node.name = NULL;
  if (node->node.params != NULL) {
    minfer_read_struct(node->params, sizeof node->params, node->node.params);
    node->node.params = node->params;
    if (node->node.op == MINFER_OP_KV_STORE || node->node.op == MINFER_OP_ATTENTION) {
      minfer_kv_params params; /* the first fields of both structs */
      memcpy(&params, node->params, sizeof params);
      node->kv = params.kv;
      if (node->kv >= plan->n_kv) {
        return minfer_fail(error, MINFER_INVALID, "node %u names KV region %u of %u", index,
                           node->kv, plan->n_kv);
      }
    }
  }
  return MINFER_OK;
}

static inline minfer_status minfer_simple_fill(minfer_simple_plan* plan, const minfer_split* split,
                                               uint64_t alignment, minfer_error* error) {
  const size_t n = (size_t)plan->n_tensors + 1;
  plan->tensors = (minfer_tensor*)calloc(n, sizeof *plan->tensors);
  plan->nodes = (minfer_simple_node*)calloc((size_t)plan->n_nodes + 1, sizeof *plan->nodes);
  plan->kv = (minfer_kv_desc*)calloc((size_t)plan->n_kv + 1, sizeof *plan->kv);
  plan->places = (uint64_t*)calloc(n, sizeof *plan->places);
  plan->buffers = (minfer_buffer**)calloc(n, sizeof *plan->buffers);
  plan->offsets = (uint64_t*)calloc(n, sizeof *plan->offsets);
  plan->regions = (minfer_buffer**)calloc((size_t)plan->n_kv + 1, sizeof *plan->regions);
  if (plan->tensors == NULL || plan->nodes == NULL || plan->kv == NULL || plan->places == NULL ||
      plan->buffers == NULL || plan->offsets == NULL || plan->regions == NULL) {
    return minfer_fail(error, MINFER_OOM_HOST, "no memory for a plan of %u nodes", plan->n_nodes);
  }
  minfer_status status = minfer_simple_copy_tensors(plan, split, error);
  for (uint32_t i = 0; status == MINFER_OK && i < plan->n_nodes; ++i) {
    status = minfer_simple_copy_node(
        plan, i, (const uint8_t*)split->nodes + (size_t)split->node_stride * i, error);
  }
  if (status == MINFER_OK && !minfer_simple_place(plan, alignment)) {
    status = minfer_fail(error, MINFER_OOM_HOST, "no memory to place %u tensors", plan->n_tensors);
  }
  return status;
}

/* Copies a split into a plan. `alignment`: of places in the workspace, the device's
 * buffer_alignment. On success *out is the author's to destroy and *info is filled. */
static inline minfer_status minfer_simple_compile(const minfer_split* given, uint64_t alignment,
                                                  minfer_simple_plan** out, minfer_plan_info* info,
                                                  minfer_error* error) {
  minfer_split split;
  minfer_read_struct(&split, sizeof split, given);
  if (split.n_tensors > (1u << 24) || split.n_nodes > (1u << 24) || split.n_kv > (1u << 20) ||
      (split.n_tensors > 0 && split.tensors == NULL) ||
      (split.n_nodes > 0 && split.nodes == NULL) || (split.n_kv > 0 && split.kv == NULL) ||
      split.capacity == NULL) {
    return minfer_fail(error, MINFER_INVALID, "the split has %u tensors, %u nodes, %u KV regions",
                       split.n_tensors, split.n_nodes, split.n_kv);
  }
  minfer_simple_plan* plan = (minfer_simple_plan*)calloc(1, sizeof *plan);
  if (plan == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a plan");
  plan->n_tensors = split.n_tensors;
  plan->n_nodes = split.n_nodes;
  plan->n_kv = split.n_kv;
  plan->model = split.model;
  minfer_read_struct(&plan->capacity, sizeof plan->capacity, split.capacity);
  const minfer_status status = minfer_simple_fill(plan, &split, alignment, error);
  if (status != MINFER_OK) {
    minfer_simple_destroy(plan);
    return status;
  }
  if (info != NULL) {
    minfer_plan_info told;
    memset(&told, 0, sizeof told);
    told.n_launches = plan->n_nodes;
    told.workspace_bytes = plan->workspace_bytes;
    told.workspace_align = alignment;
    minfer_write_struct(info, &told, sizeof told);
  }
  *out = plan;
  return MINFER_OK;
}

/* Resolves every tensor to a buffer and an offset. */
static inline minfer_status minfer_simple_bind(minfer_simple_plan* plan,
                                               const minfer_bindings* given, minfer_error* error) {
  minfer_bindings bindings;
  minfer_read_struct(&bindings, sizeof bindings, given);
  if ((bindings.n_bindings > 0 && bindings.bindings == NULL) ||
      (plan->workspace_bytes > 0 && bindings.workspace == NULL) ||
      (plan->n_kv > 0 && bindings.kv == NULL)) {
    return minfer_fail(error, MINFER_INVALID, "bindings, workspace or KV regions are missing");
  }
  for (uint32_t i = 0; i < plan->n_tensors; ++i) {
    const int inside = minfer_simple_is_inside(plan, i);
    plan->buffers[i] = inside ? bindings.workspace : NULL;
    plan->offsets[i] = inside ? bindings.workspace_offset + plan->places[i] : 0;
  }
  for (uint32_t i = 0; i < bindings.n_bindings; ++i) {
    const minfer_binding* b = &bindings.bindings[i];
    if (b->tensor >= plan->n_tensors) {
      return minfer_fail(error, MINFER_INVALID, "a binding names tensor %u of %u", b->tensor,
                         plan->n_tensors);
    }
    plan->buffers[b->tensor] = b->buffer;
    plan->offsets[b->tensor] = b->offset;
  }
  for (uint32_t i = 0; i < plan->n_tensors; ++i) {
    const uint32_t owner = plan->tensors[i].view_of;
    if (owner == MINFER_NONE) continue;
    plan->buffers[i] = plan->buffers[owner];
    plan->offsets[i] = plan->offsets[owner] + (uint64_t)plan->tensors[i].view_offset;
  }
  for (uint32_t n = 0; n < plan->n_nodes; ++n) {
    minfer_simple_node* node = &plan->nodes[n];
    for (uint32_t i = 0; i <= node->node.n_src; ++i) {
      const uint32_t t = node->indices[i];
      if (t == MINFER_NONE || plan->tensors[t].kind == MINFER_TENSOR_WEIGHT) continue;
      if (plan->buffers[t] == NULL && minfer_span_bytes(&plan->tensors[t]) > 0) {
        return minfer_fail(error, MINFER_INVALID, "tensor %u of node %u is not bound", t, n);
      }
      node->operands[i].buffer = plan->buffers[t];
      node->operands[i].offset = plan->offsets[t];
    }
  }
  for (uint32_t i = 0; i < plan->n_kv; ++i) plan->regions[i] = bindings.kv[i];
  plan->bound = 1;
  return MINFER_OK;
}

static inline int64_t minfer_valid_count(const minfer_run_args* args, uint32_t dyn_count,
                                         int64_t capacity) {
  switch (dyn_count) {
    case MINFER_DYN_TOKENS:
      return args->n_tokens;
    case MINFER_DYN_SEQS:
      return args->n_seqs;
    case MINFER_DYN_OUTS:
      return args->n_outs;
    default:
      return capacity;
  }
}

/* Clears what lies past the valid count of one bound tensor, row by row of axis 0. */
static inline minfer_status minfer_simple_clear(minfer_simple_plan* plan, uint32_t tensor,
                                                const minfer_run_args* args, minfer_queue* queue,
                                                minfer_clear_fn clear, void* author,
                                                minfer_error* error) {
  const minfer_tensor* t = &plan->tensors[tensor];
  if (t->dyn_axis > 3 || t->dyn_count == MINFER_DYN_NONE) return MINFER_OK;
  int64_t begin[4] = {0, 0, 0, 0};
  begin[t->dyn_axis] = minfer_valid_count(args, t->dyn_count, t->ne[t->dyn_axis]);
  const int64_t n = t->ne[0] - begin[0];
  if (n <= 0 || begin[t->dyn_axis] >= t->ne[t->dyn_axis]) return MINFER_OK;
  for (int64_t i3 = begin[3]; i3 < t->ne[3]; ++i3) {
    for (int64_t i2 = begin[2]; i2 < t->ne[2]; ++i2) {
      for (int64_t i1 = begin[1]; i1 < t->ne[1]; ++i1) {
        const uint64_t offset =
            plan->offsets[tensor] +
            (uint64_t)(begin[0] * t->nb[0] + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3]);
        const minfer_status status =
            clear(author, queue, plan->buffers[tensor], offset, (uint64_t)(n * t->nb[0]), error);
        if (status != MINFER_OK) return status;
      }
    }
  }
  return MINFER_OK;
}

/* Calls `run` for every node in order, then `clear` for rows past the valid counts of the tensors
 * that escape. Ends at the first status that is not MINFER_OK and returns it. */
static inline minfer_status minfer_simple_run(minfer_simple_plan* plan, minfer_queue* queue,
                                              const minfer_run_args* given, minfer_node_fn run,
                                              minfer_clear_fn clear, void* author,
                                              minfer_error* error) {
  minfer_run_args args;
  minfer_read_struct(&args, sizeof args, given);
  if (!plan->bound) return minfer_fail(error, MINFER_INVALID, "the plan is not bound");
  if (args.n_tokens > plan->capacity.tokens || args.n_seqs > plan->capacity.seqs ||
      args.n_outs > plan->capacity.outs) {
    return minfer_fail(error, MINFER_INVALID,
                       "%u tokens, %u sequences, %u rows; the plan has room for %u, %u, %u",
                       args.n_tokens, args.n_seqs, args.n_outs, plan->capacity.tokens,
                       plan->capacity.seqs, plan->capacity.outs);
  }
  for (uint32_t n = 0; n < plan->n_nodes; ++n) {
    minfer_simple_node* node = &plan->nodes[n];
    for (uint32_t i = 0; i <= node->node.n_src; ++i) {
      minfer_operand* operand = &node->operands[i];
      if (operand->tensor == NULL) continue;
      memcpy(operand->ne, operand->tensor->ne, sizeof operand->ne);
      if (operand->tensor->dyn_axis <= 3) {
        operand->ne[operand->tensor->dyn_axis] = minfer_valid_count(
            &args, operand->tensor->dyn_count, operand->tensor->ne[operand->tensor->dyn_axis]);
      }
    }
    minfer_node_call call;
    memset(&call, 0, sizeof call);
    call.node = &node->node;
    call.index = n;
    call.n_src = node->node.n_src;
    call.src = node->operands;
    call.dst = &node->operands[node->node.n_src];
    call.kv = node->kv == MINFER_NONE ? NULL : &plan->kv[node->kv];
    call.kv_region = node->kv == MINFER_NONE ? NULL : plan->regions[node->kv];
    call.capacity = &plan->capacity;
    call.args = &args;
    call.model = plan->model;
    const minfer_status status = run(author, queue, &call, error);
    if (status != MINFER_OK) return status;
  }
  for (uint32_t i = 0; i < plan->n_tensors; ++i) {
    const minfer_tensor* t = &plan->tensors[i];
    if (t->view_of != MINFER_NONE || t->kind != MINFER_TENSOR_ACTIVATION ||
        (t->flags & MINFER_FLAG_ESCAPES) == 0) {
      continue;
    }
    const minfer_status status = minfer_simple_clear(plan, i, &args, queue, clear, author, error);
    if (status != MINFER_OK) return status;
  }
  return MINFER_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* MINFER_PLUGIN_HELPER_H */
