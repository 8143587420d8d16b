/*
 * The plugin's table: devices, memory, queues, events and plans. Work is queued in order on one
 * OpenCL queue for each of the core's and completes later; its faults surface at the next wait.
 */
#include <minfer/plugin_check.h>
#include <minfer/plugin_kv.h>
#include <stdlib.h>

#include "kernels.h"
#include "opencl.h"

#define MAX_DEVICES 16u

struct minfer_event {
  cl_event event; /* NULL before the first record */
};

static const minfer_op_support kOps[] = {
    {MINFER_OP_GET_ROWS, 1},  {MINFER_OP_ADD, 1},    {MINFER_OP_MUL, 1},  {MINFER_OP_SCALE, 1},
    {MINFER_OP_RMS_NORM, 1},  {MINFER_OP_MATMUL, 1}, {MINFER_OP_ROPE, 1}, {MINFER_OP_KV_STORE, 1},
    {MINFER_OP_ATTENTION, 1}, {MINFER_OP_SILU, 1},   {MINFER_OP_GELU, 1}, {MINFER_OP_SOFT_CAP, 1},
    {MINFER_OP_ARG_MAX, 1}};
#define N_OPS ((uint32_t)(sizeof kOps / sizeof *kOps))

minfer_status cl_fail(minfer_error* error, cl_int code, const char* what) {
  minfer_status status = MINFER_INTERNAL;
  if (code == CL_OUT_OF_HOST_MEMORY) status = MINFER_OOM_HOST;
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
      code == CL_INVALID_BUFFER_SIZE) {
    status = MINFER_OOM_DEVICE;
  }
  if (code == CL_DEVICE_NOT_AVAILABLE) status = MINFER_DEVICE_LOST;
  return minfer_fail(error, status, "OpenCL error %d in %s", (int)code, what);
}

/* ---- devices ----------------------------------------------------------------------------------
 */

/* Enumeration is serialised by the core; what it found stays for the life of the process. */
static cl_device_id g_devices[MAX_DEVICES];
static char g_names[MAX_DEVICES][128], g_details[MAX_DEVICES][160];
static uint32_t g_n_devices;
static int g_is_listed;

static void list_devices(void) {
  cl_platform_id platforms[8];
  cl_uint n_platforms = 0;
  g_is_listed = 1;
  if (clGetPlatformIDs(8, platforms, &n_platforms) != CL_SUCCESS) return;
  for (cl_uint i = 0; i < n_platforms && i < 8; ++i) {
    cl_uint n = 0;
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MAX_DEVICES - g_n_devices,
                       g_devices + g_n_devices, &n) != CL_SUCCESS) {
      continue;
    }
    g_n_devices += n < MAX_DEVICES - g_n_devices ? n : MAX_DEVICES - g_n_devices;
  }
}

static uint64_t device_ulong(cl_device_id id, cl_device_info what) {
  cl_ulong value = 0;
  clGetDeviceInfo(id, what, sizeof value, &value, NULL);
  return value;
}

static minfer_device_info describe(uint32_t index) {
  const cl_device_id id = g_devices[index];
  cl_device_type type = 0;
  cl_uint units = 0;
  cl_bool is_unified = CL_FALSE;
  char version[96] = "";
  clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  clGetDeviceInfo(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
  clGetDeviceInfo(id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof is_unified, &is_unified, NULL);
  clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof g_names[index] - 1, g_names[index], NULL);
  clGetDeviceInfo(id, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
  snprintf(g_details[index], sizeof g_details[index], "%u compute units, %s", units, version);
  minfer_device_info info = {.kind = MINFER_DEVICE_OTHER,
                             .name = g_names[index],
                             .details = g_details[index],
                             .memory_total = device_ulong(id, CL_DEVICE_GLOBAL_MEM_SIZE),
                             .buffer_alignment = ALIGNMENT,
                             .max_buffer_bytes = device_ulong(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE)};
  /* Below the backends that are made for the device, so that `auto` prefers those. */
  info.score = 50;
  if (type & CL_DEVICE_TYPE_CPU) info.kind = MINFER_DEVICE_CPU;
  if (type & CL_DEVICE_TYPE_GPU) {
    info.kind = is_unified ? MINFER_DEVICE_INTEGRATED : MINFER_DEVICE_DISCRETE;
    info.score = is_unified ? 150 : 250;
  }
  return info;
}

static minfer_status device_enumerate(minfer_device_info* out, uint32_t stride, uint32_t capacity,
                                      uint32_t* n, minfer_error* error) {
  if (!g_is_listed) list_devices();
  for (uint32_t i = 0; i < g_n_devices && i < capacity; ++i) {
    const minfer_device_info info = describe(i);
    minfer_write_struct((uint8_t*)out + (size_t)stride * i, &info, sizeof info);
  }
  if (g_n_devices == 0) minfer_fail(error, MINFER_OK, "no OpenCL platform offers a device");
  *n = g_n_devices;
  return MINFER_OK;
}

static void device_close(minfer_device* device) {
  if (device->loader != NULL) clReleaseCommandQueue(device->loader);
  if (device->program != NULL) clReleaseProgram(device->program);
  if (device->context != NULL) clReleaseContext(device->context);
  mtx_destroy(&device->lock);
  free(device);
}

static minfer_status build_program(minfer_device* device, minfer_error* error) {
  cl_int code;
  const char* source = kKernels;
  char options[64];
  snprintf(options, sizeof options, "-DMAX_HEAD_DIM=%u", MAX_HEAD_DIM);
  device->program = clCreateProgramWithSource(device->context, 1, &source, NULL, &code);
  if (code != CL_SUCCESS) return cl_fail(error, code, "clCreateProgramWithSource");
  code = clBuildProgram(device->program, 1, &device->id, options, NULL, NULL);
  if (code == CL_SUCCESS) return MINFER_OK;
  char log[MINFER_ERROR_BYTES - 64] = "";
  clGetProgramBuildInfo(device->program, device->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log,
                        NULL);
  return minfer_fail(error, MINFER_UNSUPPORTED, "the kernels do not build (%d): %s", (int)code,
                     log);
}

static minfer_status device_open(uint32_t index, const minfer_gate_values* gates,
                                 minfer_device** out, minfer_error* error) {
  (void)gates;
  if (!g_is_listed) list_devices();
  if (index >= g_n_devices) {
    return minfer_fail(error, MINFER_INVALID, "device %u of %u", index, g_n_devices);
  }
  minfer_device* device = calloc(1, sizeof *device);
  if (device == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a device");
  mtx_init(&device->lock, mtx_recursive);
  device->id = g_devices[index];
  device->total = device_ulong(device->id, CL_DEVICE_GLOBAL_MEM_SIZE);
  device->largest = device_ulong(device->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  cl_int code;
  device->context = clCreateContext(NULL, 1, &device->id, NULL, NULL, &code);
  if (code == CL_SUCCESS) {
    device->loader = clCreateCommandQueue(device->context, device->id, 0, &code);
  }
  const minfer_status status =
      code != CL_SUCCESS ? cl_fail(error, code, "opening a device") : build_program(device, error);
  if (status == MINFER_OK) {
    *out = device;
  } else {
    device_close(device);
  }
  return status;
}

static minfer_status device_memory(minfer_device* device, minfer_memory* out, minfer_error* error) {
  (void)error;
  const uint64_t held = atomic_load(&device->held);
  const minfer_memory memory = {.total = device->total,
                                .free = held < device->total ? device->total - held : 0,
                                .held = held,
                                .peak = atomic_load(&device->peak)};
  minfer_write_struct(out, &memory, sizeof memory);
  return MINFER_OK;
}

/* ---- memory -----------------------------------------------------------------------------------
 */

cl_mem device_alloc(minfer_device* device, uint64_t bytes, minfer_status* status,
                    minfer_error* error) {
  const uint64_t held = atomic_load(&device->held);
  if (bytes > device->largest || held > device->total || bytes > device->total - held) {
    *status = minfer_fail(error, MINFER_OOM_DEVICE,
                          "no %llu bytes: %llu of %llu are held, one buffer has at most %llu",
                          (unsigned long long)bytes, (unsigned long long)held,
                          (unsigned long long)device->total, (unsigned long long)device->largest);
    return NULL;
  }
  cl_int code;
  cl_mem memory = clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes > 0 ? (size_t)bytes : 1,
                                 NULL, &code);
  if (code != CL_SUCCESS) {
    *status = cl_fail(error, code, "an allocation");
    return NULL;
  }
  const uint64_t now = atomic_fetch_add(&device->held, bytes) + bytes;
  uint_fast64_t peak = atomic_load(&device->peak);
  while (peak < now && !atomic_compare_exchange_weak(&device->peak, &peak, now)) {
  }
  return memory;
}

void device_release(minfer_device* device, cl_mem memory, uint64_t bytes) {
  clReleaseMemObject(memory);
  atomic_fetch_sub(&device->held, bytes);
}

static minfer_status buffer_alloc(minfer_device* device, uint64_t bytes, minfer_buffer** out,
                                  minfer_error* error) {
  minfer_buffer* buffer = calloc(1, sizeof *buffer);
  if (buffer == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a buffer");
  minfer_status status = MINFER_OK;
  *buffer = (minfer_buffer){device, bytes, device_alloc(device, bytes, &status, error)};
  if (buffer->memory == NULL) {
    free(buffer);
    return status;
  }
  *out = buffer;
  return MINFER_OK;
}

static void buffer_free(minfer_buffer* buffer) {
  device_release(buffer->device, buffer->memory, buffer->bytes);
  free(buffer);
}

static void* buffer_host_pointer(minfer_buffer* buffer) {
  (void)buffer;
  return NULL;
}

static minfer_status check_range(const minfer_buffer* buffer, uint64_t offset, uint64_t bytes,
                                 minfer_error* error) {
  if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return MINFER_OK;
  return minfer_fail(error, MINFER_INVALID, "%llu bytes at %llu of a buffer of %llu",
                     (unsigned long long)bytes, (unsigned long long)offset,
                     (unsigned long long)buffer->bytes);
}

/* The host range stays untouched until a later wait, so no copy here needs to block. */
static minfer_status buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                  const void* data, uint64_t bytes, minfer_error* error) {
  const minfer_status status = check_range(buffer, offset, bytes, error);
  if (status != MINFER_OK || bytes == 0) return status;
  const cl_int code = clEnqueueWriteBuffer(queue->queue, buffer->memory, CL_FALSE, (size_t)offset,
                                           (size_t)bytes, data, 0, NULL, NULL);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "a write");
}

static minfer_status buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                 void* data, uint64_t bytes, minfer_error* error) {
  const minfer_status status = check_range(buffer, offset, bytes, error);
  if (status != MINFER_OK || bytes == 0) return status;
  const cl_int code = clEnqueueReadBuffer(queue->queue, buffer->memory, CL_FALSE, (size_t)offset,
                                          (size_t)bytes, data, 0, NULL, NULL);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "a read");
}

static minfer_status buffer_copy(minfer_queue* queue, minfer_buffer* to, uint64_t to_offset,
                                 minfer_buffer* from, uint64_t from_offset, uint64_t bytes,
                                 minfer_error* error) {
  minfer_status status = check_range(to, to_offset, bytes, error);
  if (status == MINFER_OK) status = check_range(from, from_offset, bytes, error);
  if (status != MINFER_OK || bytes == 0) return status;
  const cl_int code =
      clEnqueueCopyBuffer(queue->queue, from->memory, to->memory, (size_t)from_offset,
                          (size_t)to_offset, (size_t)bytes, 0, NULL, NULL);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "a copy");
}

/* minfer_clear_fn of the helper. */
static minfer_status clear(void* plan, minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                           uint64_t bytes, minfer_error* error) {
  (void)plan;
  const cl_uint zero = 0;
  const cl_int code = clEnqueueFillBuffer(queue->queue, buffer->memory, &zero, sizeof zero,
                                          (size_t)offset, (size_t)bytes, 0, NULL, NULL);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "clearing rows");
}

static minfer_status kv_copy_pages(minfer_queue* queue, const minfer_kv_desc* kv,
                                   minfer_buffer* region, const uint32_t* from, const uint32_t* to,
                                   uint32_t n, minfer_error* error) {
  uint64_t page = 0;
  minfer_status status = minfer_kv_layout_page_bytes(NULL, kv, &page, error);
  for (uint32_t i = 0; status == MINFER_OK && i < n; ++i) {
    if (from[i] == to[i]) continue;
    status = buffer_copy(queue, region, to[i] * page, region, from[i] * page, page, error);
  }
  return status;
}

/* Any type of the SDK's layout, and heads that fit a work item. */
static minfer_status check_kv(const minfer_kv_desc* kv, minfer_error* error) {
  if (kv->head_dim_v <= MAX_HEAD_DIM) return MINFER_OK;
  return minfer_fail(error, MINFER_UNSUPPORTED, "KV cache with V of %u, at most %u is supported",
                     kv->head_dim_v, MAX_HEAD_DIM);
}

static minfer_status kv_page_bytes(minfer_device* device, const minfer_kv_desc* given,
                                   uint64_t* bytes, minfer_error* error) {
  minfer_kv_desc kv;
  minfer_read_struct(&kv, sizeof kv, given);
  const minfer_status status = check_kv(&kv, error);
  return status != MINFER_OK ? status : minfer_kv_layout_page_bytes(device, given, bytes, error);
}

static minfer_status kv_page_sizes(minfer_device* device, const minfer_kv_desc* given,
                                   uint32_t* sizes, uint32_t* n, minfer_error* error) {
  minfer_kv_desc kv;
  minfer_read_struct(&kv, sizeof kv, given);
  const minfer_status status = check_kv(&kv, error);
  return status != MINFER_OK ? status : minfer_kv_layout_page_sizes(device, given, sizes, n, error);
}

/* ---- queues and events ------------------------------------------------------------------------
 */

static minfer_status queue_create(minfer_device* device, minfer_queue** out, minfer_error* error) {
  cl_int code;
  minfer_queue* queue = calloc(1, sizeof *queue);
  if (queue == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a queue");
  *queue = (minfer_queue){device, clCreateCommandQueue(device->context, device->id, 0, &code)};
  if (code != CL_SUCCESS) {
    free(queue);
    return cl_fail(error, code, "clCreateCommandQueue");
  }
  *out = queue;
  return MINFER_OK;
}

static void queue_destroy(minfer_queue* queue) {
  clReleaseCommandQueue(queue->queue);
  free(queue);
}

static minfer_status queue_wait(minfer_queue* queue, minfer_error* error) {
  const cl_int code = clFinish(queue->queue);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "queued work");
}

static minfer_status event_create(minfer_device* device, minfer_event** out, minfer_error* error) {
  (void)device;
  minfer_event* event = calloc(1, sizeof *event);
  if (event == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for an event");
  *out = event;
  return MINFER_OK;
}

static void event_destroy(minfer_event* event) {
  if (event->event != NULL) clReleaseEvent(event->event);
  free(event);
}

static minfer_status event_record(minfer_event* event, minfer_queue* queue, minfer_error* error) {
  cl_event marker;
  cl_int code = clEnqueueMarkerWithWaitList(queue->queue, 0, NULL, &marker);
  if (code != CL_SUCCESS) return cl_fail(error, code, "a marker");
  if (event->event != NULL) clReleaseEvent(event->event);
  event->event = marker;
  /* Queries must come true without a wait. */
  code = clFlush(queue->queue);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "clFlush");
}

static minfer_status event_wait(minfer_event* event, minfer_error* error) {
  if (event->event == NULL) return MINFER_OK;
  const cl_int code = clWaitForEvents(1, &event->event);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "queued work");
}

static minfer_status event_query(minfer_event* event, minfer_error* error) {
  if (event->event == NULL) return MINFER_OK;
  cl_int state = CL_COMPLETE;
  const cl_int code =
      clGetEventInfo(event->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  if (code != CL_SUCCESS || state < 0) return cl_fail(error, code ? code : state, "queued work");
  return state == CL_COMPLETE ? MINFER_OK : MINFER_NOT_READY;
}

static minfer_status queue_wait_event(minfer_queue* queue, minfer_event* event,
                                      minfer_error* error) {
  if (event->event == NULL) return MINFER_OK;
  const cl_int code = clEnqueueBarrierWithWaitList(queue->queue, 1, &event->event, NULL);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "a barrier");
}

/* ---- plans ------------------------------------------------------------------------------------
 */

static int refuse(minfer_verdict* verdict, uint32_t node, const char* why) {
  verdict->supported = 0;
  verdict->node = node;
  if (node == MINFER_NONE) {
    snprintf(verdict->reason, sizeof verdict->reason, "%.250s", why);
  } else {
    snprintf(verdict->reason, sizeof verdict->reason, "node %u: %.200s", node, why);
  }
  return 0;
}

/* The operand of an operator that is an optional vector. */
static uint32_t vector_of(uint32_t op) {
  switch (op) {
    case MINFER_OP_RMS_NORM:
      return 1; /* weight */
    case MINFER_OP_MATMUL:
      return 2; /* bias */
    case MINFER_OP_ROPE:
      return 2; /* frequency factors */
    case MINFER_OP_ATTENTION:
      return 5; /* sinks */
    default:
      return MINFER_NONE;
  }
}

/* An optional vector must be a weight, since kernels read it from the start of its memory. */
static int check_vector(const minfer_split* split, const minfer_node* node, uint32_t index,
                        uint32_t i, minfer_verdict* verdict) {
  if (i >= node->n_src || node->src[i] == MINFER_NONE) return 1;
  minfer_tensor t;
  minfer_check_read_tensor(split, node->src[i], &t);
  return t.kind == MINFER_TENSOR_WEIGHT ? 1 : refuse(verdict, index, "a vector that is no weight");
}

static int check(const minfer_split* given, minfer_verdict* verdict) {
  if (!minfer_check_split(given, kOps, N_OPS, verdict)) return 0;
  if (!minfer_check_kv_layouts(given, verdict)) return 0;
  minfer_error error;
  minfer_split split;
  minfer_read_struct(&split, sizeof split, given);
  for (uint32_t i = 0; i < split.n_kv; ++i) {
    minfer_kv_desc kv;
    minfer_read_struct(&kv, sizeof kv, (const uint8_t*)split.kv + (size_t)split.kv_stride * i);
    if (check_kv(&kv, &error) != MINFER_OK) return refuse(verdict, MINFER_NONE, error.text);
  }
  for (uint32_t n = 0; n < split.n_nodes; ++n) {
    minfer_node node;
    minfer_read_struct(&node, sizeof node,
                       (const uint8_t*)split.nodes + (size_t)split.node_stride * n);
    const uint32_t vector = vector_of(node.op);
    if (!check_vector(&split, &node, n, vector, verdict)) return 0;
  }
  return 1;
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
  for (uint32_t i = 0; plan->simple != NULL && i < plan->simple->n_nodes; ++i) {
    if (plan->kernels != NULL && plan->kernels[i] != NULL) clReleaseKernel(plan->kernels[i]);
    if (plan->turns != NULL && plan->turns[i] != NULL) clReleaseMemObject(plan->turns[i]);
  }
  free(plan->kernels);
  free(plan->turns);
  free(plan->weights);
  minfer_simple_destroy(plan->simple);
  free(plan);
}

static minfer_status make_kernels(minfer_plan* plan, minfer_error* error) {
  const size_t n = (size_t)plan->simple->n_nodes + 1;
  plan->kernels = calloc(n, sizeof *plan->kernels);
  plan->turns = calloc(n, sizeof *plan->turns);
  plan->weights = calloc((size_t)plan->simple->n_tensors + 1, sizeof *plan->weights);
  if (plan->kernels == NULL || plan->turns == NULL || plan->weights == NULL) {
    return minfer_fail(error, MINFER_OOM_HOST, "no memory for a plan");
  }
  for (uint32_t i = 0; i < plan->simple->n_nodes; ++i) {
    const uint32_t op = plan->simple->nodes[i].node.op;
    cl_int code;
    plan->kernels[i] = clCreateKernel(plan->device->program, kernel_name(op), &code);
    if (code != CL_SUCCESS) return cl_fail(error, code, kernel_name(op));
    const minfer_status status = op == MINFER_OP_ROPE ? make_turns(plan, i, error) : MINFER_OK;
    if (status != MINFER_OK) return status;
  }
  return MINFER_OK;
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
  minfer_status status = minfer_simple_compile(split, ALIGNMENT, &plan->simple, &told, error);
  if (status == MINFER_OK) status = make_kernels(plan, error);
  if (status != MINFER_OK) {
    plan_destroy(plan);
    return status;
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
  const minfer_status status =
      minfer_simple_run(plan->simple, queue, args, run_node, clear, plan, error);
  clFlush(queue->queue); /* let the device begin */
  return status;
}

static minfer_status plan_describe(minfer_plan* plan, uint32_t node, minfer_node_report* out,
                                   minfer_error* error) {
  if (node >= plan->simple->n_nodes) return minfer_fail(error, MINFER_INVALID, "node %u", node);
  minfer_node_report report = {.fused_into = MINFER_NONE};
  snprintf(report.kernel, sizeof report.kernel, "%s/f32",
           kernel_name(plan->simple->nodes[node].node.op));
  minfer_write_struct(out, &report, sizeof report);
  return MINFER_OK;
}

static const minfer_plugin kTable = {
    .struct_size = sizeof(minfer_plugin),
    .abi_minor = MINFER_ABI_MINOR,
    .backend = "opencl",
    .version = "1.0",
    .description = "float32 arithmetic on any OpenCL 1.2 device",
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
    .kv_page_sizes = kv_page_sizes,
    .kv_page_bytes = kv_page_bytes,
    .kv_copy_pages = kv_copy_pages,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_host_pointer = buffer_host_pointer,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .buffer_copy = buffer_copy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_wait = queue_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .queue_wait_event = queue_wait_event,
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
