/*
 * A plugin of one function per node, made with minfer/plugin_helper.h: four operators on plain host
 * memory. It shows that the helper carries a plugin through the operator tests, and that the
 * headers are all a plugin in C needs. No state but what a host makes; thread-safe between objects.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "minfer/plugin_helper.h"

struct minfer_device {
  int unused;
};
struct minfer_queue {
  int unused;
};
struct minfer_event {
  int unused;
};
struct minfer_buffer {
  uint8_t* data;
  uint64_t bytes;
};
struct minfer_plan {
  minfer_device* device;
  minfer_simple_plan* simple;
};
/* Weights: only f32, copied, in a list that every plan searches. */
struct minfer_weights {
  uint32_t n;
  struct naive_weight {
    uint64_t id;
    float* values;
  } * list;
  struct minfer_weights* next;
};
static struct minfer_weights* g_weights;

static minfer_status device_enumerate(minfer_device_info* out, uint32_t stride, uint32_t capacity,
                                      uint32_t* n, minfer_error* error) {
  (void)stride;
  (void)error;
  if (capacity > 0) {
    minfer_device_info info = {.kind = MINFER_DEVICE_CPU,
                               .score = 1,
                               .name = "naive",
                               .details = "plain C",
                               .memory_total = 1u << 30,
                               .buffer_alignment = 16};
    minfer_write_struct(out, &info, sizeof info);
  }
  *n = 1;
  return MINFER_OK;
}

static minfer_status device_open(uint32_t index, const minfer_gate_values* gates,
                                 minfer_device** out, minfer_error* error) {
  (void)index;
  (void)gates;
  minfer_device* device = calloc(1, sizeof *device);
  if (device == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a device");
  *out = device;
  return MINFER_OK;
}

static void device_close(minfer_device* device) {
  free(device);
}

static minfer_status supports(minfer_device* device, const minfer_split* split,
                              const minfer_gate_values* gates, minfer_verdict* out,
                              minfer_error* error) {
  (void)device;
  (void)gates;
  (void)error;
  minfer_verdict verdict = {.supported = 1, .node = MINFER_NONE, .tensor = MINFER_NONE};
  for (uint32_t i = 0; i < split->n_nodes; ++i) {
    const uint32_t op = split->nodes[i].op;
    if (op == MINFER_OP_ADD || op == MINFER_OP_MUL || op == MINFER_OP_SILU ||
        op == MINFER_OP_RMS_NORM) {
      continue;
    }
    verdict.supported = 0;
    verdict.node = i;
    snprintf(verdict.reason, sizeof verdict.reason, "operator %u", op);
    break;
  }
  minfer_write_struct(out, &verdict, sizeof verdict);
  return MINFER_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static minfer_status weights_size(minfer_device* device, const minfer_weight_unit* unit,
                                  const minfer_gate_values* gates, uint64_t* bytes,
                                  minfer_error* error) {
  (void)device;
  (void)gates;
  (void)error;
  *bytes = 0;
  for (uint32_t i = 0; i < unit->n_weights; ++i) *bytes += unit->weights[i].bytes;
  return MINFER_OK;
}

static void weights_free(minfer_weights* weights) {
  for (minfer_weights** at = &g_weights; *at != NULL; at = &(*at)->next) {
    if (*at != weights) continue;
    *at = weights->next;
    break;
  }
  for (uint32_t i = 0; i < weights->n; ++i) free(weights->list[i].values);
  free(weights->list);
  free(weights);
}

static minfer_status weights_import(minfer_device* device, const minfer_weight_unit* unit,
                                    const minfer_gate_values* gates, minfer_weights** out,
                                    minfer_error* error) {
  (void)device;
  (void)gates;
  minfer_weights* weights = calloc(1, sizeof *weights);
  if (weights == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for weights");
  weights->list = calloc((size_t)unit->n_weights + 1, sizeof *weights->list);
  for (uint32_t i = 0; weights->list != NULL && i < unit->n_weights; ++i) {
    const minfer_weight* w = &unit->weights[i];
    weights->list[i].id = w->id;
    weights->list[i].values = malloc(w->bytes);
    memcpy(weights->list[i].values, w->mapping + w->offset, w->bytes);
    weights->n = i + 1;
    unit->release(unit->release_ctx, w->id);
  }
  weights->next = g_weights;
  g_weights = weights;
  *out = weights;
  return MINFER_OK;
}

static minfer_status buffer_alloc(minfer_device* device, uint64_t bytes, minfer_buffer** out,
                                  minfer_error* error) {
  (void)device;
  minfer_buffer* buffer = calloc(1, sizeof *buffer);
  if (buffer != NULL) buffer->data = malloc(bytes + 1);
  if (buffer == NULL || buffer->data == NULL) {
    free(buffer);
    return minfer_fail(error, MINFER_OOM_HOST, "no memory for %llu bytes",
                       (unsigned long long)bytes);
  }
  buffer->bytes = bytes;
  *out = buffer;
  return MINFER_OK;
}

static void buffer_free(minfer_buffer* buffer) {
  if (buffer != NULL) free(buffer->data);
  free(buffer);
}

static minfer_status buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                  const void* data, uint64_t bytes, minfer_error* error) {
  (void)queue;
  (void)error;
  memcpy(buffer->data + offset, data, bytes);
  return MINFER_OK;
}

static minfer_status buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                 void* data, uint64_t bytes, minfer_error* error) {
  (void)queue;
  (void)error;
  memcpy(data, buffer->data + offset, bytes);
  return MINFER_OK;
}

static minfer_status queue_create(minfer_device* device, minfer_queue** out, minfer_error* error) {
  (void)device;
  minfer_queue* queue = calloc(1, sizeof *queue);
  if (queue == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a queue");
  *out = queue;
  return MINFER_OK;
}

static void queue_destroy(minfer_queue* queue) {
  free(queue);
}

static minfer_status queue_wait(minfer_queue* queue, minfer_error* error) {
  (void)queue;
  (void)error;
  return MINFER_OK;
}

/* ---- operators ---------------------------------------------------------------------------------
 */

static const float* values_of(const minfer_operand* operand) {
  if (operand->buffer != NULL) {
    return (const float*)(const void*)(operand->buffer->data + operand->offset);
  }
  for (const minfer_weights* w = g_weights; w != NULL; w = w->next) {
    for (uint32_t i = 0; i < w->n; ++i) {
      if (w->list[i].id == operand->tensor->weight_id) return w->list[i].values;
    }
  }
  return NULL;
}

/* Element of an operand, with dimensions of 1 repeated. */
static float at(const minfer_operand* operand, const float* values, const int64_t* i) {
  int64_t offset = 0;
  for (int axis = 0; axis < 4; ++axis) {
    if (operand->tensor->ne[axis] != 1) offset += i[axis] * operand->tensor->nb[axis];
  }
  return values[offset / 4];
}

static float norm_factor(const minfer_operand* x, const float* values, const int64_t* i,
                         float eps) {
  double squares = 0.0;
  int64_t j[4] = {0, i[1], i[2], i[3]};
  for (; j[0] < x->ne[0]; ++j[0]) squares += (double)at(x, values, j) * at(x, values, j);
  return (float)(1.0 / sqrt(squares / (double)x->ne[0] + eps));
}

static float element(const minfer_node_call* call, const float* a, const float* b,
                     const int64_t* i) {
  const float x = at(&call->src[0], a, i);
  switch (call->node->op) {
    case MINFER_OP_ADD:
      return x + at(&call->src[1], b, i);
    case MINFER_OP_MUL:
      return x * at(&call->src[1], b, i);
    case MINFER_OP_SILU:
      return x / (1.0f + expf(-x));
    default: {
      const minfer_norm_params* p = call->node->params;
      const float weight = b == NULL ? 1.0f : b[i[0]] + p->weight_offset;
      return x * norm_factor(&call->src[0], a, i, p->eps) * weight;
    }
  }
}

static minfer_status run_node(void* author, minfer_queue* queue, const minfer_node_call* call,
                              minfer_error* error) {
  (void)author;
  (void)queue;
  (void)error;
  const float* a = values_of(&call->src[0]);
  const float* b = call->n_src > 1 && call->src[1].tensor != NULL ? values_of(&call->src[1]) : NULL;
  const minfer_operand* out = call->dst;
  int64_t i[4];
  for (i[3] = 0; i[3] < out->ne[3]; ++i[3]) {
    for (i[2] = 0; i[2] < out->ne[2]; ++i[2]) {
      for (i[1] = 0; i[1] < out->ne[1]; ++i[1]) {
        for (i[0] = 0; i[0] < out->ne[0]; ++i[0]) {
          const int64_t place = i[0] * out->tensor->nb[0] + i[1] * out->tensor->nb[1] +
                                i[2] * out->tensor->nb[2] + i[3] * out->tensor->nb[3];
          const float value = element(call, a, b, i);
          memcpy(out->buffer->data + out->offset + place, &value, sizeof value);
        }
      }
    }
  }
  return MINFER_OK;
}

static minfer_status clear(void* author, minfer_queue* queue, minfer_buffer* buffer,
                           uint64_t offset, uint64_t bytes, minfer_error* error) {
  (void)author;
  (void)queue;
  (void)error;
  memset(buffer->data + offset, 0, bytes);
  return MINFER_OK;
}

/* ---- plans: the helper does the work
 * ------------------------------------------------------------- */

static minfer_status plan_compile(minfer_device* device, const minfer_split* split,
                                  const minfer_gate_values* gates, minfer_plan** out,
                                  minfer_plan_info* info, minfer_error* error) {
  (void)gates;
  minfer_plan* plan = calloc(1, sizeof *plan);
  if (plan == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a plan");
  plan->device = device;
  const minfer_status status = minfer_simple_compile(split, 16, &plan->simple, info, error);
  if (status == MINFER_OK) {
    *out = plan;
  } else {
    free(plan);
  }
  return status;
}

static minfer_status plan_bind(minfer_plan* plan, const minfer_bindings* bindings,
                               minfer_error* error) {
  return minfer_simple_bind(plan->simple, bindings, error);
}

static minfer_status plan_run(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                              minfer_error* error) {
  return minfer_simple_run(plan->simple, queue, args, run_node, clear, plan->device, error);
}

static void plan_destroy(minfer_plan* plan) {
  minfer_simple_destroy(plan->simple);
  free(plan);
}

static const minfer_plugin kTable = {
    .struct_size = sizeof(minfer_plugin),
    .abi_minor = MINFER_ABI_MINOR,
    .backend = "naive",
    .version = "1",
    .description = "one function per node",
    .gate_stride = sizeof(minfer_gate),
    .op_stride = sizeof(minfer_op_support),
    .device_enumerate = device_enumerate,
    .device_open = device_open,
    .device_close = device_close,
    .supports = supports,
    .weights_size = weights_size,
    .weights_import = weights_import,
    .weights_free = weights_free,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_wait = queue_wait,
    .plan_compile = plan_compile,
    .plan_bind = plan_bind,
    .plan_run = plan_run,
    .plan_destroy = plan_destroy,
};

MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v1(const minfer_host* host,
                                                          const minfer_plugin** out,
                                                          minfer_error* error) {
  if (host == NULL || out == NULL) return minfer_fail(error, MINFER_INVALID, "NULL");
  *out = &kTable;
  return MINFER_OK;
}
