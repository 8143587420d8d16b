// The plugin's table: every function of the ABI, each a thin shell around the code that does the
// work. Nothing here may throw; `guarded` sees to it.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "abi_read.h"
#include "check.h"
#include "cpu_info.h"
#include "device.h"
#include "graph.h"
#include "kv_pages.h"
#include "plan.h"

namespace minfer_cpu {
namespace {

template <class T>
void need(const T* pointer, const char* what) {
  if (pointer == nullptr) throw Failure(MINFER_INVALID, "cpu: %s is NULL", what);
}

// ---- devices

const char* device_name() {
  static const std::string name = cpu_name();
  return name.c_str();
}

const char* device_details() {
  static const std::string details =
      std::to_string(allowed_cores()) + " cores, up to " + isa_name(detect_isa());
  return details.c_str();
}

minfer_status device_enumerate(minfer_device_info* out, uint32_t stride, uint32_t capacity,
                               uint32_t* n, minfer_error* error) {
  return guarded(error, [&] {
    need(n, "the count of devices");
    if (capacity > 0) {
      need(out, "the list of devices");
      if (stride < sizeof(uint32_t)) throw Failure(MINFER_INVALID, "cpu: a stride of %u", stride);
      const HostMemory memory = host_memory();
      minfer_device_info info{};
      info.kind = MINFER_DEVICE_CPU;
      info.score = 100;
      info.host_accessible = 1;
      info.name = device_name();
      info.details = device_details();
      info.memory_total = memory.total;
      info.memory_free = memory.free;
      info.buffer_alignment = kAlignment;
      write_struct(out, info, "minfer_device_info");
    }
    *n = 1;
  });
}

minfer_status device_open(uint32_t index, const minfer_gate_values* gates, minfer_device** out,
                          minfer_error* error) {
  return guarded(error, [&] {
    need(out, "the destination");
    if (index != 0) throw Failure(MINFER_INVALID, "cpu: device %u, there is only device 0", index);
    *out = new minfer_device(Gates::read(gates));
  });
}

void device_close(minfer_device* device) {
  delete device;
}

minfer_status device_memory(minfer_device* device, minfer_memory* out, minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    const HostMemory memory = host_memory();
    minfer_memory now{};
    now.total = memory.total;
    now.free = memory.free;
    now.held = device->memory.held();
    now.peak = device->memory.peak();
    write_struct(out, now, "minfer_memory");
  });
}

minfer_status supports(minfer_device* device, const minfer_split* split,
                       const minfer_gate_values* gates, minfer_verdict* out, minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    const Graph graph = read_split(split);
    const std::optional<Refusal> refusal = check_graph(graph, Gates::read(gates).isa);
    minfer_verdict verdict{};
    verdict.supported = refusal ? 0 : 1;
    verdict.node = refusal ? refusal->node : MINFER_NONE;
    verdict.tensor = refusal ? refusal->tensor : MINFER_NONE;
    if (refusal) std::memcpy(verdict.reason, refusal->text, sizeof verdict.reason);
    write_struct(out, verdict, "minfer_verdict");
  });
}

// ---- weights

minfer_status weights_size(minfer_device* device, const minfer_weight_unit* unit,
                           const minfer_gate_values* gates, uint64_t* bytes, minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    need(bytes, "the destination");
    *bytes = device->weights.import_bytes(unit, Gates::read(gates).isa);
  });
}

minfer_status weights_import(minfer_device* device, const minfer_weight_unit* unit,
                             const minfer_gate_values* gates, minfer_weights** out,
                             minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    need(out, "the destination");
    auto weights = std::make_unique<minfer_weights>();
    weights->forms =
        device->weights.import(unit, Gates::read(gates).isa, device->memory, device->pool);
    *out = weights.release();
  });
}

void weights_free(minfer_weights* weights) {
  delete weights;
}

// ---- KV pages

minfer_status kv_page_sizes(minfer_device* device, const minfer_kv_desc* kv, uint32_t* sizes,
                            uint32_t* n, minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    need(n, "the count of page sizes");
    auto desc = read_struct<minfer_kv_desc>(kv, "minfer_kv_desc");
    desc.page_tokens = kPageSizes[0];  // the caller asks because it does not know
    KvLayout layout(desc);
    const auto count = static_cast<uint32_t>(std::size(kPageSizes));
    if (*n > 0) need(sizes, "the list of page sizes");
    for (uint32_t i = 0; i < count && i < *n; ++i) sizes[i] = kPageSizes[i];
    *n = count;
  });
}

minfer_status kv_page_bytes(minfer_device* device, const minfer_kv_desc* kv, uint64_t* bytes,
                            minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    need(bytes, "the destination");
    *bytes = static_cast<uint64_t>(
        KvLayout(read_struct<minfer_kv_desc>(kv, "minfer_kv_desc")).page_bytes);
  });
}

// The region's pages as the buffer has them, so that no page lies outside.
int64_t region_pages(const KvLayout& layout, const minfer_buffer* region) {
  need(region, "the KV region");
  return static_cast<int64_t>(region->memory.bytes()) / layout.page_bytes;
}

void check_page(const KvLayout& layout, const minfer_buffer* region, uint32_t page) {
  if (page >= region_pages(layout, region)) {
    throw Failure(MINFER_INVALID, "cpu: page %u, the region has %lld", page,
                  static_cast<long long>(region_pages(layout, region)));
  }
}

minfer_status kv_copy_pages(minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
                            const uint32_t* from, const uint32_t* to, uint32_t n,
                            minfer_error* error) {
  return guarded(error, [&] {
    need(queue, "the queue");
    const KvLayout layout(read_struct<minfer_kv_desc>(kv, "minfer_kv_desc"));
    if (n > 0) {
      need(from, "the list of pages");
      need(to, "the list of pages");
    }
    for (uint32_t i = 0; i < n; ++i) {
      check_page(layout, region, from[i]);
      check_page(layout, region, to[i]);
    }
    uint8_t* data = region->memory.data();
    for (uint32_t i = 0; i < n; ++i) {
      std::memmove(data + to[i] * layout.page_bytes, data + from[i] * layout.page_bytes,
                   static_cast<size_t>(layout.page_bytes));
    }
  });
}

minfer_status kv_export_page(minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
                             uint32_t page, float* out, minfer_error* error) {
  return guarded(error, [&] {
    need(queue, "the queue");
    need(out, "the destination");
    const KvLayout layout(read_struct<minfer_kv_desc>(kv, "minfer_kv_desc"));
    check_page(layout, region, page);
    export_page(layout, region->memory.data(), page, out);
  });
}

minfer_status kv_import_page(minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
                             uint32_t page, const float* in, minfer_error* error) {
  return guarded(error, [&] {
    need(queue, "the queue");
    need(in, "the source");
    const KvLayout layout(read_struct<minfer_kv_desc>(kv, "minfer_kv_desc"));
    check_page(layout, region, page);
    import_page(layout, region->memory.data(), page, in);
  });
}

// ---- buffers

minfer_status buffer_alloc(minfer_device* device, uint64_t bytes, minfer_buffer** out,
                           minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    need(out, "the destination");
    *out = new minfer_buffer{Allocation(device->memory, bytes, "a buffer")};
  });
}

void buffer_free(minfer_buffer* buffer) {
  delete buffer;
}

void* buffer_host_pointer(minfer_buffer* buffer) {
  return buffer != nullptr ? buffer->memory.data() : nullptr;
}

uint8_t* range(const minfer_buffer* buffer, uint64_t offset, uint64_t bytes) {
  need(buffer, "the buffer");
  const uint64_t size = buffer->memory.bytes();
  if (offset > size || bytes > size - offset) {
    throw Failure(MINFER_INVALID, "cpu: bytes %llu to %llu of a buffer of %llu",
                  static_cast<unsigned long long>(offset),
                  static_cast<unsigned long long>(offset) + bytes,
                  static_cast<unsigned long long>(size));
  }
  return buffer->memory.data() + offset;
}

minfer_status buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                           const void* data, uint64_t bytes, minfer_error* error) {
  return guarded(error, [&] {
    need(queue, "the queue");
    uint8_t* to = range(buffer, offset, bytes);
    if (bytes == 0) return;
    need(data, "the source");
    std::memcpy(to, data, bytes);
  });
}

minfer_status buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset, void* data,
                          uint64_t bytes, minfer_error* error) {
  return guarded(error, [&] {
    need(queue, "the queue");
    const uint8_t* from = range(buffer, offset, bytes);
    if (bytes == 0) return;
    need(data, "the destination");
    std::memcpy(data, from, bytes);
  });
}

minfer_status buffer_copy(minfer_queue* queue, minfer_buffer* to, uint64_t to_offset,
                          minfer_buffer* from, uint64_t from_offset, uint64_t bytes,
                          minfer_error* error) {
  return guarded(error, [&] {
    need(queue, "the queue");
    uint8_t* destination = range(to, to_offset, bytes);
    const uint8_t* source = range(from, from_offset, bytes);
    if (bytes > 0) std::memmove(destination, source, bytes);
  });
}

// ---- queues and events: work is complete when the call that queued it returns

minfer_status queue_create(minfer_device* device, minfer_queue** out, minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    need(out, "the destination");
    auto queue = std::make_unique<minfer_queue>();
    queue->device = device;
    *out = queue.release();
  });
}

void queue_destroy(minfer_queue* queue) {
  delete queue;
}

minfer_status queue_wait(minfer_queue* queue, minfer_error* error) {
  return guarded(error, [&] {
    need(queue, "the queue");
    if (queue->cancelled.exchange(false)) throw Failure(MINFER_CANCELLED, "cpu: cancelled");
  });
}

minfer_status queue_cancel(minfer_queue* queue, minfer_error* error) {
  return guarded(error, [&] {
    need(queue, "the queue");
    queue->cancelled.store(true);
  });
}

minfer_status event_create(minfer_device* device, minfer_event** out, minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    need(out, "the destination");
    *out = new minfer_event;
  });
}

void event_destroy(minfer_event* event) {
  delete event;
}

minfer_status event_record(minfer_event* event, minfer_queue* queue, minfer_error* error) {
  return guarded(error, [&] {
    need(event, "the event");
    need(queue, "the queue");
  });
}

minfer_status event_wait(minfer_event* event, minfer_error* error) {
  return guarded(error, [&] { need(event, "the event"); });
}

minfer_status queue_wait_event(minfer_queue* queue, minfer_event* event, minfer_error* error) {
  return event_record(event, queue, error);
}

// ---- plans

minfer_status plan_compile(minfer_device* device, const minfer_split* split,
                           const minfer_gate_values* gates, minfer_plan** out,
                           minfer_plan_info* info, minfer_error* error) {
  return guarded(error, [&] {
    need(device, "the device");
    need(out, "the destination");
    const Gates values = Gates::read(gates);
    Graph graph = read_split(split);
    if (const auto refusal = check_graph(graph, values.isa)) {
      throw Failure(MINFER_UNSUPPORTED, "%s", refusal->text);
    }
    auto plan = compile_plan(*device, std::move(graph), values);
    if (info != nullptr) {
      minfer_plan_info told{};
      told.n_launches = static_cast<uint32_t>(plan->steps.size());
      told.workspace_bytes = plan->workspace_bytes;
      told.workspace_align = kAlignment;
      write_struct(info, told, "minfer_plan_info");
    }
    *out = plan.release();
  });
}

minfer_status plan_bind(minfer_plan* plan, const minfer_bindings* bindings, minfer_error* error) {
  return guarded(error, [&] {
    need(plan, "the plan");
    bind_plan(*plan, bindings);
  });
}

minfer_status plan_run(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                       minfer_error* error) {
  return guarded(error, [&] {
    need(plan, "the plan");
    need(queue, "the queue");
    run_plan(*plan, *queue, args);
  });
}

minfer_status plan_describe(minfer_plan* plan, uint32_t node, minfer_node_report* out,
                            minfer_error* error) {
  return guarded(error, [&] {
    need(plan, "the plan");
    if (node >= plan->reports.size()) {
      throw Failure(MINFER_INVALID, "cpu: node %u, the plan has %zu", node, plan->reports.size());
    }
    write_struct(out, plan->reports[node], "minfer_node_report");
  });
}

minfer_status plan_profile(minfer_plan* plan, minfer_node_time* out, uint32_t capacity, uint32_t* n,
                           minfer_error* error) {
  return guarded(error, [&] {
    need(plan, "the plan");
    need(n, "the count of nodes");
    if (!plan->has_times) throw Failure(MINFER_INVALID, "cpu: the plan has had no timed run");
    if (capacity > 0) need(out, "the list of times");
    for (uint32_t i = 0; i < capacity && i < plan->times.size(); ++i) out[i] = plan->times[i];
    *n = static_cast<uint32_t>(plan->times.size());
  });
}

void plan_destroy(minfer_plan* plan) {
  delete plan;
}

// ---- the table

constexpr minfer_op_support kOps[] = {
    {MINFER_OP_GET_ROWS, 1},     {MINFER_OP_ADD, 1},      {MINFER_OP_MUL, 1},
    {MINFER_OP_SCALE, 1},        {MINFER_OP_RMS_NORM, 1}, {MINFER_OP_MATMUL, 1},
    {MINFER_OP_ROPE, 1},         {MINFER_OP_KV_STORE, 1}, {MINFER_OP_ATTENTION, 1},
    {MINFER_OP_SILU, 1},         {MINFER_OP_GELU, 1},     {MINFER_OP_SOFTMAX, 1},
    {MINFER_OP_SOFT_CAP, 1},     {MINFER_OP_CONCAT, 1},   {MINFER_OP_TOP_K, 1},
    {MINFER_OP_MATMUL_BY_ID, 1}, {MINFER_OP_ARG_MAX, 1},
};

minfer_plugin make_table() {
  minfer_plugin table{};
  table.struct_size = sizeof table;
  table.abi_minor = MINFER_ABI_MINOR;
  table.backend = "cpu";
  table.version = MINFER_CPU_VERSION;
  table.description = "CPU kernels, chosen by instruction level at run time";
  table.gates = gate_table(&table.n_gates);
  table.gate_stride = sizeof(minfer_gate);
  table.n_ops = static_cast<uint32_t>(std::size(kOps));
  table.op_stride = sizeof(minfer_op_support);
  table.ops = kOps;
  table.device_enumerate = device_enumerate;
  table.device_open = device_open;
  table.device_close = device_close;
  table.device_memory = device_memory;
  table.supports = supports;
  table.weights_size = weights_size;
  table.weights_import = weights_import;
  table.weights_free = weights_free;
  table.kv_page_sizes = kv_page_sizes;
  table.kv_page_bytes = kv_page_bytes;
  table.kv_copy_pages = kv_copy_pages;
  table.kv_export_page = kv_export_page;
  table.kv_import_page = kv_import_page;
  table.buffer_alloc = buffer_alloc;
  table.buffer_free = buffer_free;
  table.buffer_host_pointer = buffer_host_pointer;
  table.buffer_write = buffer_write;
  table.buffer_read = buffer_read;
  table.buffer_copy = buffer_copy;
  table.queue_create = queue_create;
  table.queue_destroy = queue_destroy;
  table.queue_wait = queue_wait;
  table.queue_wait_event = queue_wait_event;
  table.queue_cancel = queue_cancel;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_wait = event_wait;
  table.event_query = event_wait;
  table.plan_compile = plan_compile;
  table.plan_bind = plan_bind;
  table.plan_run = plan_run;
  table.plan_describe = plan_describe;
  table.plan_profile = plan_profile;
  table.plan_destroy = plan_destroy;
  return table;
}

}  // namespace
}  // namespace minfer_cpu

extern "C" MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v1(const minfer_host* host,
                                                                     const minfer_plugin** out,
                                                                     minfer_error* error) {
  return minfer_cpu::guarded(error, [&] {
    static const minfer_plugin table = minfer_cpu::make_table();
    minfer_cpu::read_struct<minfer_host>(host, "minfer_host");
    if (out == nullptr) throw minfer_cpu::Failure(MINFER_INVALID, "cpu: no place for the table");
    *out = &table;
  });
}
