// A tiny plugin that is right by default and gets one fault from macros (faults of loading) or from
// variant_set_fault (faults of answers, which a test chooses while it runs). Computes nothing.
//
//   VARIANT_BACKEND, VARIANT_GATE   names it declares
//   VARIANT_SYMBOL                  name of the exported function
//   VARIANT_QUERY                   statement that ends the query
//   VARIANT_TABLE_SIZE              struct_size of the table
//   VARIANT_EDIT, _EDIT_GATES       expressions that spoil the tables
//   VARIANT_NEWER, VARIANT_OLDER    structs of a later or earlier minor
//   VARIANT_NEEDS_LIBRARY           calls a function of another library
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "minfer/plugin_abi.h"

#ifndef VARIANT_BACKEND
#define VARIANT_BACKEND "good"
#endif
#ifndef VARIANT_GATE
#define VARIANT_GATE "MINFER_GOOD_LEVEL"
#endif
#ifndef VARIANT_SYMBOL
#define VARIANT_SYMBOL minfer_plugin_query_v1
#endif
#ifndef VARIANT_EDIT
#define VARIANT_EDIT (void)0
#endif
#ifndef VARIANT_EDIT_GATES
#define VARIANT_EDIT_GATES (void)0
#endif

// Opaque objects are one byte each; `live` counts those not yet released.
struct minfer_device {};
struct minfer_buffer {};
struct minfer_queue {};
struct minfer_event {};
struct minfer_weights {};
struct minfer_plan {};

namespace {

const char* g_fault = "";
int g_live = 0;
const minfer_host* g_host = nullptr;

bool fault(const char* name) {
  return std::strcmp(g_fault, name) == 0;
}

minfer_status fail(minfer_error* error, minfer_status status, const char* text) {
  std::strncpy(error->text, text, sizeof(error->text) - 1);
  error->text[sizeof(error->text) - 1] = '\0';
  return status;
}

/// Faults that any function can have: statuses and exceptions.
minfer_status common(minfer_error* error) {
  if (fault("throw")) throw std::runtime_error("lost my way");
  if (fault("throw_int")) throw 42;
  if (fault("unsupported"))
    return fail(error, MINFER_UNSUPPORTED, "row of 896 is no multiple of 256");
  if (fault("invalid")) return fail(error, MINFER_INVALID, "offset 3");
  if (fault("oom_host")) return fail(error, MINFER_OOM_HOST, "needs 5 GiB");
  if (fault("oom_device")) return fail(error, MINFER_OOM_DEVICE, "needs 3 GiB, 2 GiB free");
  if (fault("device_lost")) return fail(error, MINFER_DEVICE_LOST, "xid 79");
  if (fault("internal")) return fail(error, MINFER_INTERNAL, "node 7 has no kernel");
  if (fault("cancelled")) return fail(error, MINFER_CANCELLED, "");
  if (fault("version")) return fail(error, MINFER_VERSION, "");
  if (fault("not_ready")) return fail(error, MINFER_NOT_READY, "");
  if (fault("unknown_status")) return fail(error, -77, "");
  if (fault("unterminated_error")) {
    std::memset(error->text, 'x', sizeof(error->text));
    return MINFER_INTERNAL;
  }
  if (fault("control_characters")) return fail(error, MINFER_INTERNAL, "line\nbreak\x1b[31m \xff");
  return MINFER_OK;
}

template <class T>
minfer_status create(T** out, minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  if (fault("null_object")) return MINFER_OK;
  *out = new T;
  ++g_live;
  return MINFER_OK;
}

template <class T>
void release(T* object) {
  --g_live;
  delete object;
  if (fault("release_throws")) throw 1;
}

minfer_status enumerate(minfer_device_info* out, uint32_t stride, uint32_t capacity, uint32_t* n,
                        minfer_error* error) {
  if (fault("no_devices")) {
    *n = 0;
    return fail(error, MINFER_OK, "not macOS");
  }
  if (const minfer_status status = common(error)) return status;
  if (fault("no_count")) return MINFER_OK;
  *n = fault("many_devices") ? 20 : fault("absurd_count") ? 4000000 : 2;
  for (uint32_t i = 0; i < *n && i < capacity; ++i) {
    minfer_device_info info{};
    info.struct_size = sizeof(info);
    info.kind = fault("kind") ? 9 : MINFER_DEVICE_DISCRETE;
    info.score = fault("score") ? 1000000 : fault("unusable") ? 0 : i == 1 ? 310 : 300;
    info.host_accessible = fault("flag") ? 5 : 1;
    info.name = fault("no_name") ? nullptr : fault("name_not_text") ? "\x01\xff" : "Test device";
    info.details = "made up";
    info.reason = fault("unusable") ? "driver 470 is older than 535" : nullptr;
    info.memory_total = 1000;
    info.memory_free = fault("memory") ? 2000 : 900;
    info.buffer_alignment = fault("alignment") ? 96 : fault("alignment_zero") ? 0 : 64;
    info.max_buffer_bytes = 512;
#ifdef VARIANT_OLDER
    const uint32_t written = offsetof(minfer_device_info, max_buffer_bytes);
#else
    const uint32_t written = stride < sizeof(info) ? stride : sizeof(info);
#endif
    std::memcpy(reinterpret_cast<char*>(out) + static_cast<size_t>(i) * stride, &info, written);
  }
  return MINFER_OK;
}

minfer_status open(uint32_t, const minfer_gate_values* gates, minfer_device** out,
                   minfer_error* error) {
  if (gates->n != 2) return fail(error, MINFER_INVALID, "expected two gate values");
  if (g_host) g_host->log(g_host->ctx, MINFER_LOG_INFO, "device opened");
  return create(out, error);
}

minfer_status memory(minfer_device*, minfer_memory* out, minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  out->total = 1000;
  out->free = fault("free") ? 1001 : 400;
  out->held = fault("held") ? 700 : 500;
  out->peak = 600;
  return MINFER_OK;
}

minfer_status supports(minfer_device*, const minfer_split*, const minfer_gate_values*,
                       minfer_verdict* out, minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  if (fault("no_verdict")) return MINFER_OK;
  out->supported = fault("supported") ? 7 : fault("refuses") || fault("refuses_silently") ? 0 : 1;
  if (fault("refuses")) {
    out->node = 1;
    out->tensor = 2;
    std::strcpy(out->reason, "rows of 896");
  }
  if (fault("node")) out->node = 3;
  if (fault("tensor")) out->tensor = 4;
  if (fault("unterminated_reason")) std::memset(out->reason, 'r', sizeof(out->reason));
  if (fault("reason_not_text")) std::strcpy(out->reason, "\xc3\x28");
  return MINFER_OK;
}

minfer_status weights_size(minfer_device*, const minfer_weight_unit*, const minfer_gate_values*,
                           uint64_t* bytes, minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  if (!fault("no_size")) *bytes = fault("huge_size") ? uint64_t{1} << 60 : 100;
  return MINFER_OK;
}

minfer_status weights_import(minfer_device*, const minfer_weight_unit*, const minfer_gate_values*,
                             minfer_weights** out, minfer_error* error) {
  return create(out, error);
}

minfer_status page_sizes(minfer_device*, const minfer_kv_desc*, uint32_t* sizes, uint32_t* n,
                         minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  sizes[0] = 16;
  sizes[1] = fault("not_ascending") ? 16 : 32;
  *n = fault("no_sizes") ? 0 : fault("count_of_sizes") ? 99 : 2;
  return MINFER_OK;
}

minfer_status page_bytes(minfer_device*, const minfer_kv_desc*, uint64_t* bytes,
                         minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  *bytes = fault("page_too_small") ? 8 : fault("page_too_large") ? uint64_t{1} << 50 : 65536;
  return MINFER_OK;
}

minfer_status copy_pages(minfer_queue*, const minfer_kv_desc*, minfer_buffer*, const uint32_t*,
                         const uint32_t*, uint32_t, minfer_error* error) {
  return common(error);
}

minfer_status buffer_alloc(minfer_device*, uint64_t, minfer_buffer** out, minfer_error* error) {
  return create(out, error);
}
void* host_pointer(minfer_buffer*) {
  return nullptr;
}
minfer_status buffer_write(minfer_queue*, minfer_buffer*, uint64_t, const void*, uint64_t,
                           minfer_error* error) {
  return common(error);
}
minfer_status buffer_read(minfer_queue*, minfer_buffer*, uint64_t, void*, uint64_t,
                          minfer_error* error) {
  return common(error);
}
minfer_status host_alloc(minfer_device*, uint64_t bytes, void** out, minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  if (fault("null_object")) return MINFER_OK;
  *out = std::malloc(bytes);
  ++g_live;
  return MINFER_OK;
}
void host_free(minfer_device*, void* memory) {
  --g_live;
  std::free(memory);
}

minfer_status queue_create(minfer_device*, minfer_queue** out, minfer_error* error) {
  return create(out, error);
}
minfer_status queue_wait(minfer_queue*, minfer_error* error) {
  return common(error);
}
minfer_status event_create(minfer_device*, minfer_event** out, minfer_error* error) {
  return create(out, error);
}
minfer_status event_record(minfer_event*, minfer_queue*, minfer_error* error) {
  return common(error);
}
minfer_status event_wait(minfer_event*, minfer_error* error) {
  return common(error);
}
minfer_status event_query(minfer_event*, minfer_error* error) {
  return common(error);
}

minfer_status compile(minfer_device*, const minfer_split*, const minfer_gate_values*,
                      minfer_plan** out, minfer_plan_info* info, minfer_error* error) {
  if (!fault("no_workspace")) info->workspace_bytes = fault("workspace") ? uint64_t{1} << 60 : 256;
  info->workspace_align = fault("plan_alignment") ? 48 : 64;
  return create(out, error);
}
minfer_status bind(minfer_plan*, const minfer_bindings*, minfer_error* error) {
  return common(error);
}
minfer_status run(minfer_plan*, minfer_queue*, const minfer_run_args*, minfer_error* error) {
  return common(error);
}
minfer_status describe(minfer_plan*, uint32_t, minfer_node_report* out, minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  if (fault("no_label")) return MINFER_OK;
  std::strcpy(out->kernel, "noop");
  if (fault("fused_far")) out->fused_into = 3;
  if (fault("fused_self")) out->fused_into = 0;
  if (fault("fused")) out->fused_into = 2;
  if (fault("unterminated_label")) std::memset(out->kernel, 'k', sizeof(out->kernel));
  if (fault("unterminated_why")) std::memset(out->why, 'w', sizeof(out->why));
  return MINFER_OK;
}
minfer_status profile(minfer_plan*, minfer_node_time* out, uint32_t capacity, uint32_t* n,
                      minfer_error* error) {
  if (const minfer_status status = common(error)) return status;
  *n = fault("count_of_times") ? capacity + 1 : 1;
  out[0].node = fault("time_of_no_node") ? 99 : 0;
  out[0].seconds = fault("nan_time")        ? std::numeric_limits<double>::quiet_NaN()
                   : fault("negative_time") ? -1.0
                                            : 0.5;
  return MINFER_OK;
}

#ifdef VARIANT_NEWER
// A later minor: each struct has grown by fields this core does not know.
struct LaterGate {
  minfer_gate gate;
  uint64_t later[3];
};
struct LaterOp {
  minfer_op_support op;
  uint64_t later;
};
struct LaterTable {
  minfer_plugin table;
  void (*later[7])();
};
constexpr uint32_t kMinor = MINFER_ABI_MINOR + 5;
#else
struct LaterGate {
  minfer_gate gate;
};
struct LaterOp {
  minfer_op_support op;
};
struct LaterTable {
  minfer_plugin table;
};
#ifdef VARIANT_OLDER
constexpr uint32_t kMinor = 0;
#else
constexpr uint32_t kMinor = MINFER_ABI_MINOR;
#endif
#endif

minfer_plugin base_table() {
  minfer_plugin table{};
  table.abi_minor = kMinor;
  table.backend = VARIANT_BACKEND;
  table.version = "1.2.3";
  table.description = "A plugin for tests";
  table.device_enumerate = enumerate;
  table.device_open = open;
  table.device_close = release<minfer_device>;
  table.device_memory = memory;
  table.supports = supports;
  table.weights_size = weights_size;
  table.weights_import = weights_import;
  table.weights_free = release<minfer_weights>;
  table.kv_page_sizes = page_sizes;
  table.kv_page_bytes = page_bytes;
  table.kv_copy_pages = copy_pages;
  table.buffer_alloc = buffer_alloc;
  table.buffer_free = release<minfer_buffer>;
  table.buffer_host_pointer = host_pointer;
  table.buffer_write = buffer_write;
  table.buffer_read = buffer_read;
  table.host_alloc = host_alloc;
  table.host_free = host_free;
  table.queue_create = queue_create;
  table.queue_destroy = release<minfer_queue>;
  table.queue_wait = queue_wait;
  table.event_create = event_create;
  table.event_destroy = release<minfer_event>;
  table.event_record = event_record;
  table.event_wait = event_wait;
  table.event_query = event_query;
  table.plan_compile = compile;
  table.plan_bind = bind;
  table.plan_run = run;
  table.plan_describe = describe;
  table.plan_profile = profile;
  table.plan_destroy = release<minfer_plan>;
  return table;
}

LaterGate g_gates[2];
LaterOp g_ops[2];
LaterTable g_table;

void fill_tables() {
  std::memset(&g_table, 0xee, sizeof(g_table));  // what lies beyond struct_size must not be read
  auto& gates = g_gates;
  std::memset(gates, 0xee, sizeof(gates));
#ifdef VARIANT_OLDER
  const uint32_t gate_size = offsetof(minfer_gate, choices);
#else
  const uint32_t gate_size = sizeof(LaterGate);
#endif
  gates[0].gate = {gate_size, MINFER_GATE_INT, MINFER_SCOPE_PLAN, 1, VARIANT_GATE, "a level", 3, 0,
                   9,         nullptr};
  gates[1].gate = {
      gate_size, MINFER_GATE_BOOL, MINFER_SCOPE_RUN, 0, VARIANT_GATE "_FAST", "a switch", 1, 0,
      1,         nullptr};
  g_ops[0].op = {MINFER_OP_ADD, 1};
  g_ops[1].op = {MINFER_OP_MATMUL, 3};

  minfer_plugin& table = g_table.table;
  table = base_table();
#if defined(VARIANT_TABLE_SIZE)
  table.struct_size = VARIANT_TABLE_SIZE;
#elif defined(VARIANT_OLDER)
  table.struct_size = offsetof(minfer_plugin, queue_cancel);
  std::memset(&table.queue_cancel, 0xee, sizeof(table) - table.struct_size);
#else
  table.struct_size = sizeof(LaterTable);
#endif
  table.n_gates = 2;
  table.gate_stride = sizeof(LaterGate);
  table.gates = &gates[0].gate;
  table.n_ops = 2;
  table.op_stride = sizeof(LaterOp);
  table.ops = &g_ops[0].op;
  VARIANT_EDIT_GATES;
  VARIANT_EDIT;
}

}  // namespace

#ifdef VARIANT_NEEDS_LIBRARY
extern "C" int minfer_abi_gone(void);
#endif

/// Chooses the fault of later answers; "" is none. Returns the number of objects not released.
extern "C" MINFER_PLUGIN_EXPORT int variant_set_fault(const char* name) {
  g_fault = name;
  return g_live;
}

extern "C" MINFER_PLUGIN_EXPORT minfer_status VARIANT_SYMBOL(const minfer_host* host,
                                                             const minfer_plugin** out,
                                                             minfer_error* error) {
  (void)fail;
  (void)error;
#ifdef VARIANT_NEEDS_LIBRARY
  minfer_abi_gone();
#endif
  g_host = host;
  fill_tables();
#ifdef VARIANT_QUERY
  VARIANT_QUERY;
#else
  *out = &g_table.table;
  return MINFER_OK;
#endif
}
