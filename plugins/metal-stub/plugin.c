/*
 * A plugin for a backend that this system does not have: it loads, answers every question of the
 * boundary, offers no device and says why. It keeps the name `metal` known, so that a config that asks
 * for it gets a reason instead of "unknown backend". Stateless, hence thread-safe.
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

static minfer_status device_open(uint32_t index, const minfer_gate_values* gates,
                                 minfer_device** out, minfer_error* error) {
  (void)index;
  (void)gates;
  (void)out;
  say(error, kReason);
  return MINFER_UNSUPPORTED;
}

static const minfer_plugin kTable = {
    .struct_size = sizeof(minfer_plugin),
    .abi_minor = MINFER_ABI_MINOR,
    .backend = "metal",
    .version = MINFER_METAL_STUB_VERSION,
    .description = "stands in for the Metal backend where there is none",
    .op_stride = sizeof(minfer_op_support),
    .gate_stride = sizeof(minfer_gate),
    .device_enumerate = device_enumerate,
    .device_open = device_open,
};

MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v0(const minfer_host* host,
                                                          const minfer_plugin** out,
                                                          minfer_error* error) {
  if (host == NULL || out == NULL) {
    say(error, "metal: the host's table or the destination is NULL");
    return MINFER_INVALID;
  }
  *out = &kTable;
  return MINFER_OK;
}
