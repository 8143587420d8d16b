/*
 * From a node to a kernel: arguments, work sizes, the enqueue. Work-group sizes are fixed, since
 * some drivers compile a kernel anew for each.
 */
#include <minfer/plugin_kv.h>
#include <minfer/plugin_math.h>
#include <stdlib.h>

#include "opencl.h"

/* As in kernels.cl. */
struct view {
  cl_long offset, ne[4], nb[4];
};
struct pages {
  cl_long page_bytes, v_start, k_row, v_row;
  cl_int heads, dim_k, dim_v, page_tokens, type, reserved;
};

const char* kernel_name(uint32_t op) {
  switch (op) {
    case MINFER_OP_GET_ROWS:
      return "get_rows";
    case MINFER_OP_RMS_NORM:
      return "rms_norm";
    case MINFER_OP_MATMUL:
      return "matmul";
    case MINFER_OP_ROPE:
      return "rope";
    case MINFER_OP_KV_STORE:
      return "kv_store";
    case MINFER_OP_ATTENTION:
      return "attention";
    case MINFER_OP_ARG_MAX:
      return "arg_max";
    default:
      return "elementwise";
  }
}

minfer_status make_turns(minfer_plan* plan, uint32_t node, minfer_error* error) {
  const minfer_rope_params* p = plan->simple->nodes[node].node.params;
  const uint32_t pairs = p->n_rot / 2;
  float* turns = malloc((size_t)pairs * 2 * sizeof *turns);
  if (turns == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a ROPE's angles");
  for (uint32_t i = 0; i < pairs; ++i) {
    const double turn = minfer_rope_angle(p, i, 1.0, 1.0) / 6.283185307179586;
    turns[2 * i] = (float)turn;
    turns[2 * i + 1] = (float)(turn - turns[2 * i]);
  }
  cl_int code;
  plan->turns[node] = clCreateBuffer(plan->device->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                     (size_t)pairs * 2 * sizeof *turns, turns, &code);
  free(turns);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "a table of angles");
}

/* ---- arguments: the first error sticks --------------------------------------------------------
 */

struct call {
  const minfer_plan* plan;
  cl_kernel kernel;
  cl_uint n; /* arguments so far */
  cl_int code;
};

static void arg(struct call* c, const void* value, size_t bytes) {
  const cl_int code = clSetKernelArg(c->kernel, c->n++, bytes, value);
  if (c->code == CL_SUCCESS) c->code = code;
}
static void arg_uint(struct call* c, cl_uint value) {
  arg(c, &value, sizeof value);
}
static void arg_long(struct call* c, cl_long value) {
  arg(c, &value, sizeof value);
}
static void arg_float(struct call* c, cl_float value) {
  arg(c, &value, sizeof value);
}

/* The weight behind an operand; NULL: it is a tensor in a buffer. */
static const struct weight* weight_of(const struct call* c, const minfer_operand* operand) {
  return c->plan->weights[operand->tensor - c->plan->simple->tensors];
}

/* Weights lie without gaps; what is in blocks has a stride from row to row, but none within. */
static struct view view_of(const struct call* c, const minfer_operand* operand) {
  struct view v = {(cl_long)operand->offset, {0}, {0}};
  const struct weight* weight = weight_of(c, operand);
  cl_long packed = weight != NULL ? minfer_type_bytes(weight->type) : 0;
  for (int i = 0; i < 4; ++i) {
    const int64_t n = operand->tensor->ne[i];
    v.ne[i] = operand->ne[i];
    v.nb[i] = n == 1 ? 0 : weight != NULL ? packed : operand->tensor->nb[i];
    packed *= i == 0 && weight != NULL ? n / minfer_type_values(weight->type) : n;
  }
  return v;
}

static int is_there(const minfer_node_call* call, uint32_t i) {
  return i < call->n_src && call->src[i].tensor != NULL;
}

static void arg_memory(struct call* c, const minfer_operand* operand) {
  const struct weight* weight = weight_of(c, operand);
  arg(c, weight != NULL ? &weight->memory : &operand->buffer->memory, sizeof(cl_mem));
}

static void arg_tensor(struct call* c, const minfer_operand* operand) {
  const struct view v = view_of(c, operand);
  arg_memory(c, operand);
  arg(c, &v, sizeof v);
}

/* A matrix or table: a tensor, and the type of its values. */
static void arg_matrix(struct call* c, const minfer_operand* operand) {
  const struct weight* weight = weight_of(c, operand);
  arg_tensor(c, operand);
  arg_uint(c, weight != NULL ? weight->type : MINFER_TYPE_F32);
}

/* An optional vector: memory (the other operand's where absent), and whether it is there. A plain
 * weight starts at 0; a vector that is an activation is refused by the check. */
static void arg_vector(struct call* c, const minfer_node_call* call, uint32_t i,
                       const minfer_operand* other) {
  arg_memory(c, is_there(call, i) ? &call->src[i] : other);
  arg_uint(c, is_there(call, i) ? 1 : 0);
}

static void arg_pages(struct call* c, const minfer_node_call* call) {
  minfer_kv_layout layout;
  minfer_kv_layout_of(call->kv, &layout, NULL);
  const struct pages pages = {(cl_long)layout.page,         (cl_long)layout.v_start,
                              (cl_long)layout.k_row,        (cl_long)layout.v_row,
                              (cl_int)call->kv->n_head_kv,  (cl_int)call->kv->head_dim_k,
                              (cl_int)call->kv->head_dim_v, (cl_int)call->kv->page_tokens,
                              (cl_int)call->kv->type,       0};
  arg(c, &call->kv_region->memory, sizeof(cl_mem));
  arg(c, &pages, sizeof pages);
}

/* ---- operators: arguments, and the work items along up to three axes --------------------------
 */

static void elementwise(struct call* c, const minfer_node_call* call, size_t* work) {
  const uint32_t op = call->node->op;
  float p = 0.0f, q = 0.0f;
  if (op == MINFER_OP_SCALE) {
    p = ((const minfer_scale_params*)call->node->params)->factor;
    q = ((const minfer_scale_params*)call->node->params)->offset;
  }
  if (op == MINFER_OP_SOFT_CAP) p = ((const minfer_soft_cap_params*)call->node->params)->cap;
  if (op == MINFER_OP_GELU) p = (float)((const minfer_gelu_params*)call->node->params)->kind;
  arg_tensor(c, &call->src[0]);
  arg_tensor(c, &call->src[is_there(call, 1) ? 1 : 0]);
  arg_tensor(c, call->dst);
  arg_uint(c, op);
  arg_float(c, p);
  arg_float(c, q);
  for (int i = 0; i < 4; ++i) work[0] *= (size_t)call->dst->ne[i];
}

static void rms_norm(struct call* c, const minfer_node_call* call, size_t* work) {
  const minfer_norm_params* p = call->node->params;
  arg_tensor(c, &call->src[0]);
  arg_vector(c, call, 1, &call->src[0]);
  arg_tensor(c, call->dst);
  arg_float(c, p->eps);
  arg_float(c, p->weight_offset);
  for (int i = 0; i < 3; ++i) work[i] = (size_t)call->dst->ne[i + 1];
}

static void rope(struct call* c, const minfer_node_call* call, size_t* work) {
  const minfer_rope_params* p = call->node->params;
  arg_tensor(c, &call->src[0]);
  arg_tensor(c, &call->src[1]);
  arg(c, &c->plan->turns[call->index], sizeof(cl_mem));
  arg_vector(c, call, 2, &call->src[0]);
  arg_float(c, (float)minfer_rope_magnitude(p));
  arg_uint(c, p->n_rot);
  arg_uint(c, p->mode);
  arg_tensor(c, call->dst);
  work[0] = (size_t)call->dst->ne[1];
  work[1] = (size_t)call->dst->ne[2];
}

static void matmul(struct call* c, const minfer_node_call* call, size_t* work) {
  arg_matrix(c, &call->src[0]);
  arg_tensor(c, &call->src[1]);
  arg_vector(c, call, 2, &call->src[1]);
  arg_tensor(c, call->dst);
  work[0] = (size_t)call->dst->ne[0];
  work[1] = (size_t)call->dst->ne[1];
}

static void attention(struct call* c, const minfer_node_call* call, size_t* work) {
  const minfer_attention_params* p = call->node->params;
  const minfer_tensor* out = call->dst->tensor;
  /* [dim, heads, tokens], or the same bytes as [dim * heads, tokens]. */
  const int is_flat = out->ne[0] != call->kv->head_dim_v || out->ne[1] != p->n_head;
  for (uint32_t i = 0; i < 5; ++i) arg_tensor(c, &call->src[i]);
  arg_vector(c, call, 5, &call->src[0]);
  arg_pages(c, call);
  arg_memory(c, call->dst);
  arg_long(c, (cl_long)call->dst->offset);
  arg_long(c, is_flat ? (cl_long)call->kv->head_dim_v * (cl_long)sizeof(float) : out->nb[1]);
  arg_long(c, is_flat ? out->nb[1] : out->nb[2]);
  arg_uint(c, p->n_head);
  arg_uint(c, p->window);
  arg_uint(c, p->causal);
  arg_float(c, p->scale);
  arg_float(c, p->soft_cap);
  work[0] = p->n_head;
  work[1] = (size_t)call->src[0].ne[2];
}

minfer_status run_node(void* author, minfer_queue* queue, const minfer_node_call* call,
                       minfer_error* error) {
  const minfer_plan* plan = author;
  struct call c = {plan, plan->kernels[call->index], 0, CL_SUCCESS};
  size_t work[3] = {1, 1, 1}, group[3] = {1, 1, 1};
  switch (call->node->op) {
    case MINFER_OP_GET_ROWS:
      arg_matrix(&c, &call->src[0]);
      arg_tensor(&c, &call->src[1]);
      arg_tensor(&c, call->dst);
      work[0] = ((size_t)call->dst->ne[0] + 31) / 32; /* GROUP of kernels.cl */
      work[1] = (size_t)call->dst->ne[1];
      group[0] = 16;
      break;
    case MINFER_OP_RMS_NORM:
      rms_norm(&c, call, work);
      break;
    case MINFER_OP_MATMUL:
      matmul(&c, call, work);
      group[0] = 16;
      break;
    case MINFER_OP_ROPE:
      rope(&c, call, work);
      break;
    case MINFER_OP_KV_STORE:
      for (uint32_t i = 0; i < 3; ++i) arg_tensor(&c, &call->src[i]);
      arg_pages(&c, call);
      work[0] = call->kv->n_head_kv;
      work[1] = (size_t)call->src[2].ne[0];
      break;
    case MINFER_OP_ATTENTION:
      attention(&c, call, work);
      break;
    case MINFER_OP_ARG_MAX:
      arg_tensor(&c, &call->src[0]);
      arg_tensor(&c, call->dst);
      work[0] = (size_t)call->dst->ne[0];
      break;
    default:
      elementwise(&c, call, work);
      group[0] = 64;
  }
  if (work[0] * work[1] * work[2] == 0) return MINFER_OK; /* an empty step */
  work[0] = (work[0] + group[0] - 1) / group[0] * group[0];
  if (c.code == CL_SUCCESS) {
    c.code = clEnqueueNDRangeKernel(queue->queue, c.kernel, 3, NULL, work, group, 0, NULL, NULL);
  }
  return c.code == CL_SUCCESS ? MINFER_OK : cl_fail(error, c.code, kernel_name(call->node->op));
}
