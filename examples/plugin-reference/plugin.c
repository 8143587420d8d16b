/*
 * The plugin's table: device, memory, queues and plans. Work is complete when the call that queued
 * it returns; queues, events and the layout of KV pages are the SDK's for such backends.
 */
#include <minfer/plugin_check.h>
#include <minfer/plugin_kv.h>
#include <minfer/plugin_sync.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reference.h"

#define ALIGNMENT 64u

static const minfer_op_support kOps[] = {
    {MINFER_OP_GET_ROWS, 1},  {MINFER_OP_ADD, 1},    {MINFER_OP_MUL, 1},    {MINFER_OP_SCALE, 1},
    {MINFER_OP_RMS_NORM, 1},  {MINFER_OP_MATMUL, 1}, {MINFER_OP_ROPE, 1},   {MINFER_OP_KV_STORE, 1},
    {MINFER_OP_ATTENTION, 1}, {MINFER_OP_SILU, 1},   {MINFER_OP_GELU, 1},   {MINFER_OP_SOFTMAX, 1},
    {MINFER_OP_SOFT_CAP, 1},  {MINFER_OP_TOP_K, 1},  {MINFER_OP_ARG_MAX, 1}};
#define N_OPS ((uint32_t)(sizeof kOps / sizeof *kOps))

/* ---- device and memory ------------------------------------------------------------------------
 */

static uint64_t host_bytes(int what) {
  return (uint64_t)sysconf(what) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static minfer_status device_enumerate(minfer_device_info* out, uint32_t stride, uint32_t capacity,
                                      uint32_t* n, minfer_error* error) {
  (void)stride, (void)error;
  const minfer_device_info info = {.kind = MINFER_DEVICE_CPU,
                                   .score = 1, /* usable, and the last choice */
                                   .host_accessible = 1,
                                   .name = "reference",
                                   .details = "plain C, one thread",
                                   .memory_total = host_bytes(_SC_PHYS_PAGES),
                                   .memory_free = host_bytes(_SC_AVPHYS_PAGES),
                                   .buffer_alignment = ALIGNMENT};
  if (capacity > 0) minfer_write_struct(out, &info, sizeof info);
  *n = 1;
  return MINFER_OK;
}

static minfer_status device_open(uint32_t index, const minfer_gate_values* gates,
                                 minfer_device** out, minfer_error* error) {
  (void)gates;
  if (index != 0) return minfer_fail(error, MINFER_INVALID, "device %u; there is one", index);
  minfer_device* device = calloc(1, sizeof *device);
  if (device == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a device");
  mtx_init(&device->lock, mtx_recursive);
  *out = device;
  return MINFER_OK;
}

static void device_close(minfer_device* device) {
  mtx_destroy(&device->lock);
  free(device);
}

static minfer_status device_memory(minfer_device* device, minfer_memory* out, minfer_error* error) {
  (void)error;
  mtx_lock(&device->lock);
  const minfer_memory memory = {.total = host_bytes(_SC_PHYS_PAGES),
                                .free = host_bytes(_SC_AVPHYS_PAGES),
                                .held = device->held,
                                .peak = device->peak};
  mtx_unlock(&device->lock);
  minfer_write_struct(out, &memory, sizeof memory);
  return MINFER_OK;
}

uint8_t* device_malloc(minfer_device* device, uint64_t bytes, minfer_error* error) {
  const uint64_t total = host_bytes(_SC_PHYS_PAGES);
  uint8_t* data = NULL;
  mtx_lock(&device->lock);
  if (device->held <= total && bytes <= total - device->held) {
    data = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
  }
  if (data != NULL) device->held += bytes;
  if (device->held > device->peak) device->peak = device->held;
  if (data == NULL) {
    minfer_fail(error, MINFER_OOM_HOST, "no %llu bytes; %llu of the host's %llu are held here",
                (unsigned long long)bytes, (unsigned long long)device->held,
                (unsigned long long)total);
  }
  mtx_unlock(&device->lock);
  return data;
}

void device_free(minfer_device* device, uint8_t* data, uint64_t bytes) {
  mtx_lock(&device->lock);
  device->held -= bytes;
  mtx_unlock(&device->lock);
  free(data);
}

static minfer_status buffer_alloc(minfer_device* device, uint64_t bytes, minfer_buffer** out,
                                  minfer_error* error) {
  minfer_buffer* buffer = calloc(1, sizeof *buffer);
  if (buffer == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a buffer");
  *buffer = (minfer_buffer){device, bytes, device_malloc(device, bytes, error)};
  if (buffer->data == NULL) {
    free(buffer);
    return MINFER_OOM_HOST;
  }
  *out = buffer;
  return MINFER_OK;
}

static void buffer_free(minfer_buffer* buffer) {
  device_free(buffer->device, buffer->data, buffer->bytes);
  free(buffer);
}

static void* buffer_host_pointer(minfer_buffer* buffer) {
  return buffer->data;
}

static minfer_status check_range(const minfer_buffer* buffer, uint64_t offset, uint64_t bytes,
                                 minfer_error* error) {
  if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return MINFER_OK;
  return minfer_fail(error, MINFER_INVALID, "%llu bytes at %llu of a buffer of %llu",
                     (unsigned long long)bytes, (unsigned long long)offset,
                     (unsigned long long)buffer->bytes);
}

static minfer_status buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                  const void* data, uint64_t bytes, minfer_error* error) {
  (void)queue;
  const minfer_status status = check_range(buffer, offset, bytes, error);
  if (status == MINFER_OK && bytes > 0) memcpy(buffer->data + offset, data, bytes);
  return status;
}

static minfer_status buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                 void* data, uint64_t bytes, minfer_error* error) {
  (void)queue;
  const minfer_status status = check_range(buffer, offset, bytes, error);
  if (status == MINFER_OK && bytes > 0) memcpy(data, buffer->data + offset, bytes);
  return status;
}

/* minfer_clear_fn of the helper. */
static minfer_status clear(void* plan, minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                           uint64_t bytes, minfer_error* error) {
  (void)plan, (void)queue, (void)error;
  memset(buffer->data + offset, 0, bytes);
  return MINFER_OK;
}

/* ---- KV pages: any size, in the layout of the SDK ---------------------------------------------
 */

static minfer_status kv_copy_pages(minfer_queue* queue, const minfer_kv_desc* kv,
                                   minfer_buffer* region, const uint32_t* from, const uint32_t* to,
                                   uint32_t n, minfer_error* error) {
  (void)queue;
  uint64_t page = 0;
  minfer_status status = minfer_kv_layout_page_bytes(NULL, kv, &page, error);
  for (uint32_t i = 0; status == MINFER_OK && i < n; ++i) {
    status = check_range(region, (from[i] > to[i] ? from[i] : to[i]) * page, page, error);
    if (status == MINFER_OK)
      memmove(region->data + to[i] * page, region->data + from[i] * page, page);
  }
  return status;
}

/* ---- plans: the helper's, with weights and scratch --------------------------------------------
 */

/* What every backend must refuse, and what this one cannot do besides. */
static int check(const minfer_split* split, minfer_verdict* verdict) {
  return minfer_check_split(split, kOps, N_OPS, verdict) &&
         minfer_check_kv_layouts(split, verdict) && minfer_check_plain_is_f32(split, verdict);
}

static minfer_status supports(minfer_device* device, const minfer_split* split,
                              const minfer_gate_values* gates, minfer_verdict* out,
                              minfer_error* error) {
  (void)device, (void)gates, (void)error;
  minfer_verdict verdict;
  check(split, &verdict);
  minfer_write_struct(out, &verdict, sizeof verdict);
  return MINFER_OK;
}

static void plan_destroy(minfer_plan* plan) {
  minfer_simple_destroy(plan->simple);
  free(plan->weights);
  free(plan->scratch);
  free(plan);
}

static minfer_status plan_compile(minfer_device* device, const minfer_split* split,
                                  const minfer_gate_values* gates, minfer_plan** out,
                                  minfer_plan_info* info, minfer_error* error) {
  (void)gates;
  minfer_verdict verdict;
  if (!check(split, &verdict)) return minfer_fail(error, MINFER_UNSUPPORTED, "%s", verdict.reason);
  minfer_plan* plan = calloc(1, sizeof *plan);
  if (plan == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a plan");
  plan->device = device;
  minfer_plan_info told = {.struct_size = sizeof told};
  const minfer_status status = minfer_simple_compile(split, ALIGNMENT, &plan->simple, &told, error);
  if (status == MINFER_OK) {
    plan->weights = calloc((size_t)plan->simple->n_tensors + 1, sizeof *plan->weights);
    plan->scratch = calloc(scratch_floats(plan->simple), sizeof(float));
  }
  if (plan->weights == NULL || plan->scratch == NULL) {
    plan_destroy(plan);
    return status != MINFER_OK ? status : minfer_fail(error, MINFER_OOM_HOST, "no memory");
  }
  if (info != NULL) minfer_write_struct(info, &told, sizeof told);
  *out = plan;
  return MINFER_OK;
}

static minfer_status plan_bind(minfer_plan* plan, const minfer_bindings* bindings,
                               minfer_error* error) {
  for (uint32_t i = 0; i < plan->simple->n_tensors; ++i) {
    const minfer_tensor* t = &plan->simple->tensors[i];
    if (t->kind != MINFER_TENSOR_WEIGHT) continue;
    plan->weights[i] = find_weight(plan->device, plan->simple->model, t->weight_id);
    if (plan->weights[i] == NULL) {
      return minfer_fail(error, MINFER_INVALID, "weight %llu has not been imported",
                         (unsigned long long)t->weight_id);
    }
  }
  return minfer_simple_bind(plan->simple, bindings, error);
}

static minfer_status plan_run(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                              minfer_error* error) {
  return minfer_simple_run(plan->simple, queue, args, run_node, clear, plan, error);
}

static minfer_status plan_describe(minfer_plan* plan, uint32_t node, minfer_node_report* out,
                                   minfer_error* error) {
  if (node >= plan->simple->n_nodes) return minfer_fail(error, MINFER_INVALID, "node %u", node);
  minfer_node_report report = {.fused_into = MINFER_NONE, .kernel = "scalar C"};
  minfer_write_struct(out, &report, sizeof report);
  return MINFER_OK;
}

static const minfer_plugin kTable = {
    .struct_size = sizeof(minfer_plugin),
    .abi_minor = MINFER_ABI_MINOR,
    .backend = "reference",
    .version = "1.0",
    .description = "every operator in plain C, one function each",
    .gate_stride = sizeof(minfer_gate),
    .n_ops = N_OPS,
    .op_stride = sizeof(minfer_op_support),
    .ops = kOps,
    .device_enumerate = device_enumerate,
    .device_open = device_open,
    .device_close = device_close,
    .device_memory = device_memory,
    .supports = supports,
    .weights_size = weights_size,
    .weights_import = weights_import,
    .weights_free = weights_free,
    .kv_page_sizes = minfer_kv_layout_page_sizes,
    .kv_page_bytes = minfer_kv_layout_page_bytes,
    .kv_copy_pages = kv_copy_pages,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_host_pointer = buffer_host_pointer,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .queue_create = minfer_sync_queue_create,
    .queue_destroy = minfer_sync_queue_destroy,
    .queue_wait = minfer_sync_queue_wait,
    .event_create = minfer_sync_event_create,
    .event_destroy = minfer_sync_event_destroy,
    .event_record = minfer_sync_event_record,
    .event_wait = minfer_sync_event_wait,
    .event_query = minfer_sync_event_wait,
    .plan_compile = plan_compile,
    .plan_bind = plan_bind,
    .plan_run = plan_run,
    .plan_describe = plan_describe,
    .plan_destroy = plan_destroy,
};

MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v1(const minfer_host* host,
                                                          const minfer_plugin** out,
                                                          minfer_error* error) {
  if (host == NULL || out == NULL) return minfer_fail(error, MINFER_INVALID, "no host table");
  *out = &kTable;
  return MINFER_OK;
}
