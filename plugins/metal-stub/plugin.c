/*
 * A plugin for a backend that this system does not have: it loads, answers every question of the
 * boundary, offers no device and says why. It keeps the name `metal` known, so that a config that
 * asks for it gets a reason instead of "unknown backend". Stateless, hence thread-safe.
 */
#include <stddef.h>
#include <stdio.h>

#include "minfer/plugin_abi.h"

static const char kReason[] = "not macOS: Metal needs an Apple system";

static void say(minfer_error* error, const char* text) {
  if (error != NULL) snprintf(error->text, sizeof error->text, "%s", text);
}

static minfer_status device_enumerate(minfer_device_info* out, uint32_t stride, uint32_t capacity,
                                      uint32_t* n, minfer_error* error) {
  (void)out;
  (void)stride;
  (void)capacity;
  *n = 0;
  say(error, kReason);
  return MINFER_OK;
}

/* No device can be opened, so nothing below is ever called by a host that keeps the contract; each
 * function refuses all the same. */
#define REFUSES(name, ...)                                      \
  static minfer_status name(__VA_ARGS__, minfer_error* error) { \
    say(error, kReason);                                        \
    return MINFER_UNSUPPORTED;                                  \
  }
#define FREES(name, type)          \
  static void name(type* object) { \
    (void)object;                  \
  }

REFUSES(device_open, uint32_t index, const minfer_gate_values* gates, minfer_device** out)
REFUSES(device_memory, minfer_device* device, minfer_memory* out)
REFUSES(supports, minfer_device* device, const minfer_split* split, const minfer_gate_values* gates,
        minfer_verdict* out)
REFUSES(weights_size, minfer_device* device, const minfer_weight_unit* unit,
        const minfer_gate_values* gates, uint64_t* bytes)
REFUSES(weights_import, minfer_device* device, const minfer_weight_unit* unit,
        const minfer_gate_values* gates, minfer_weights** out)
REFUSES(kv_page_sizes, minfer_device* device, const minfer_kv_desc* kv, uint32_t* sizes,
        uint32_t* n)
REFUSES(kv_page_bytes, minfer_device* device, const minfer_kv_desc* kv, uint64_t* bytes)
REFUSES(kv_copy_pages, minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
        const uint32_t* from, const uint32_t* to, uint32_t n)
REFUSES(buffer_alloc, minfer_device* device, uint64_t bytes, minfer_buffer** out)
REFUSES(buffer_write, minfer_queue* queue, minfer_buffer* buffer, uint64_t offset, const void* data,
        uint64_t bytes)
REFUSES(buffer_read, minfer_queue* queue, minfer_buffer* buffer, uint64_t offset, void* data,
        uint64_t bytes)
REFUSES(queue_create, minfer_device* device, minfer_queue** out)
REFUSES(queue_wait, minfer_queue* queue)
REFUSES(event_create, minfer_device* device, minfer_event** out)
REFUSES(event_record, minfer_event* event, minfer_queue* queue)
REFUSES(event_wait, minfer_event* event)
REFUSES(event_query, minfer_event* event)
REFUSES(plan_compile, minfer_device* device, const minfer_split* split,
        const minfer_gate_values* gates, minfer_plan** out, minfer_plan_info* info)
REFUSES(plan_bind, minfer_plan* plan, const minfer_bindings* bindings)
REFUSES(plan_run, minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args)
REFUSES(plan_describe, minfer_plan* plan, uint32_t node, minfer_node_report* out)
FREES(device_close, minfer_device)
FREES(weights_free, minfer_weights)
FREES(buffer_free, minfer_buffer)
FREES(queue_destroy, minfer_queue)
FREES(event_destroy, minfer_event)
FREES(plan_destroy, minfer_plan)

static void* buffer_host_pointer(minfer_buffer* buffer) {
  (void)buffer;
  return NULL;
}

static const minfer_plugin kTable = {
    .struct_size = sizeof(minfer_plugin),
    .abi_minor = MINFER_ABI_MINOR,
    .backend = "metal",
    .version = MINFER_METAL_STUB_VERSION,
    .description = "stands in for the Metal backend where there is none",
    .gate_stride = sizeof(minfer_gate),
    .op_stride = sizeof(minfer_op_support),
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
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_wait = queue_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .plan_compile = plan_compile,
    .plan_bind = plan_bind,
    .plan_run = plan_run,
    .plan_describe = plan_describe,
    .plan_destroy = plan_destroy,
};

MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v1(const minfer_host* host,
                                                          const minfer_plugin** out,
                                                          minfer_error* error) {
  if (host == NULL || out == NULL) {
    say(error, "metal: the host's table or the destination is NULL");
    return MINFER_INVALID;
  }
  *out = &kTable;
  return MINFER_OK;
}
