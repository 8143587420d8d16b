// Deliberately broken plugins: the CPU plugin behind a table in which one function is wrong.
// Compiled once for each fault, FAULT, so that each check of minfer-conformance meets the fault it
// is for; FAULT none must pass everything.
//
// The plugin behind is opened when this file is loaded, so that the query itself stays pure.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "minfer/plugin_abi.h"

#define BROKEN_TEXT_(x) #x
#define BROKEN_TEXT(x) BROKEN_TEXT_(x)

namespace {

constexpr std::string_view kFault = BROKEN_TEXT(FAULT);

struct Pending {
  minfer_buffer* buffer;
  uint64_t offset;
  std::vector<uint8_t> bytes;
};

struct World {
  const minfer_plugin* inner = nullptr;
  std::mutex mutex;
  std::map<minfer_queue*, std::thread::id> makers;
  std::map<minfer_plan*, int> binds;
  int writes = 0;
  std::vector<Pending> pending;
};

World& world() {
  static World* instance = new World;  // plugins are never unloaded
  return *instance;
}

const minfer_plugin& inner() {
  return *world().inner;
}

// ---- one function for each fault -------------------------------------------------------------

/// ignores_size: writes the whole struct, whatever its owner has room for.
minfer_status supports_whole(minfer_device* device, const minfer_split* split,
                             const minfer_gate_values* gates, minfer_verdict* out,
                             minfer_error* error) {
  minfer_verdict whole{};
  whole.struct_size = sizeof whole;
  const minfer_status status = inner().supports(device, split, gates, &whole, error);
  if (status == MINFER_OK) {
    whole.struct_size = out->struct_size;
    std::memcpy(out, &whole, sizeof whole);
  }
  return status;
}

/// accepts_unknown: yes to operators that it has never heard of.
minfer_status supports_unknown(minfer_device* device, const minfer_split* split,
                               const minfer_gate_values* gates, minfer_verdict* out,
                               minfer_error* error) {
  const minfer_status status = inner().supports(device, split, gates, out, error);
  if (split->nodes[0].op > MINFER_OP_ARG_MAX) out->supported = 1;
  return status;
}

/// breaks_promise: yes to any TOP_K, also to those that it cannot compile.
minfer_status supports_top_k(minfer_device* device, const minfer_split* split,
                             const minfer_gate_values* gates, minfer_verdict* out,
                             minfer_error* error) {
  const minfer_status status = inner().supports(device, split, gates, out, error);
  if (split->nodes[0].op == MINFER_OP_TOP_K) out->supported = 1;
  return status;
}

/// wide_window: attention sees one position more than its window.
minfer_status compile_wide_window(minfer_device* device, const minfer_split* split,
                                  const minfer_gate_values* gates, minfer_plan** out,
                                  minfer_plan_info* info, minfer_error* error) {
  std::vector<minfer_attention_params> params(split->n_nodes);
  std::vector<minfer_node> nodes;
  for (uint32_t i = 0; i < split->n_nodes; ++i) {
    nodes.push_back(*reinterpret_cast<const minfer_node*>(
        reinterpret_cast<const char*>(split->nodes) + size_t{i} * split->node_stride));
    if (nodes[i].op != MINFER_OP_ATTENTION || nodes[i].params == nullptr) continue;
    std::memcpy(&params[i], nodes[i].params, sizeof params[i]);
    params[i].struct_size = sizeof params[i];
    if (params[i].window > 0) ++params[i].window;
    nodes[i].params = &params[i];
  }
  minfer_split changed = *split;
  changed.nodes = nodes.data();
  changed.node_stride = sizeof(minfer_node);
  return inner().plan_compile(device, &changed, gates, out, info, error);
}

/// released_twice: gives every range back a second time.
minfer_status import_twice_released(minfer_device* device, const minfer_weight_unit* unit,
                                    const minfer_gate_values* gates, minfer_weights** out,
                                    minfer_error* error) {
  const minfer_status status = inner().weights_import(device, unit, gates, out, error);
  if (status == MINFER_OK && unit->n_weights > 0)
    unit->release(unit->release_ctx, unit->weights[0].id);
  return status;
}

/// late_copy: from the third copy since the last wait on, data arrives when somebody waits.
minfer_status write_late(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                         const void* data, uint64_t bytes, minfer_error* error) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  if (++w.writes < 3) return inner().buffer_write(queue, buffer, offset, data, bytes, error);
  const auto* from = static_cast<const uint8_t*>(data);
  w.pending.push_back({buffer, offset, {from, from + bytes}});
  return MINFER_OK;
}

minfer_status wait_and_write(minfer_queue* queue, minfer_error* error) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  for (const Pending& p : w.pending)
    inner().buffer_write(queue, p.buffer, p.offset, p.bytes.data(), p.bytes.size(), error);
  w.pending.clear();
  w.writes = 0;
  return inner().queue_wait(queue, error);
}

/// stale_binding: keeps the addresses of the first bind.
minfer_status bind_once(minfer_plan* plan, const minfer_bindings* bindings, minfer_error* error) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  return w.binds[plan]++ == 0 ? inner().plan_bind(plan, bindings, error) : MINFER_OK;
}

void destroy_bound(minfer_plan* plan) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  w.binds.erase(plan);
  inner().plan_destroy(plan);
}

/// allocates: takes and gives back memory in every run.
minfer_status run_allocating(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                             minfer_error* error) {
  void* volatile scratch = std::malloc(100);
  const minfer_status status = inner().plan_run(plan, queue, args, error);
  std::free(scratch);
  return status;
}

/// prints: talks on standard output.
minfer_status run_printing(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                           minfer_error* error) {
  std::puts("running");
  return inner().plan_run(plan, queue, args, error);
}

/// tied_to_thread: a queue works on the thread that made it only.
minfer_status create_tied(minfer_device* device, minfer_queue** out, minfer_error* error) {
  const minfer_status status = inner().queue_create(device, out, error);
  if (status != MINFER_OK) return status;
  const std::lock_guard lock(world().mutex);
  world().makers[*out] = std::this_thread::get_id();
  return MINFER_OK;
}

minfer_status run_tied(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                       minfer_error* error) {
  {
    const std::lock_guard lock(world().mutex);
    if (world().makers[queue] != std::this_thread::get_id()) {
      std::snprintf(error->text, sizeof error->text, "this is another thread");
      return MINFER_INTERNAL;
    }
  }
  return inner().plan_run(plan, queue, args, error);
}

/// aborts_when_full: ends the process instead of returning a status.
minfer_status alloc_or_abort(minfer_device* device, uint64_t bytes, minfer_buffer** out,
                             minfer_error* error) {
  if (bytes >= uint64_t{1} << 40) std::abort();
  return inner().buffer_alloc(device, bytes, out, error);
}

/// leaks: each open device leaves a file open.
minfer_status open_leaking(uint32_t index, const minfer_gate_values* gates, minfer_device** out,
                           minfer_error* error) {
  [[maybe_unused]] const int leaked = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return inner().device_open(index, gates, out, error);
}

/// hangs: an event that never completes.
minfer_status wait_forever(minfer_event*, minfer_error*) {
  for (;;) ::pause();
}

// ---- the table -------------------------------------------------------------------------------

minfer_plugin make_table() {
  minfer_plugin t = inner();
  t.backend = "broken";
  t.n_gates = 0;  // names of gates belong to the plugin behind
  if (kFault == "ignores_size") t.supports = supports_whole;
  if (kFault == "accepts_unknown") t.supports = supports_unknown;
  if (kFault == "breaks_promise") t.supports = supports_top_k;
  if (kFault == "wide_window") t.plan_compile = compile_wide_window;
  if (kFault == "released_twice") t.weights_import = import_twice_released;
  if (kFault == "late_copy") t.buffer_write = write_late, t.queue_wait = wait_and_write;
  if (kFault == "stale_binding") t.plan_bind = bind_once, t.plan_destroy = destroy_bound;
  if (kFault == "allocates") t.plan_run = run_allocating;
  if (kFault == "prints") t.plan_run = run_printing;
  if (kFault == "tied_to_thread") t.queue_create = create_tied, t.plan_run = run_tied;
  if (kFault == "aborts_when_full") t.buffer_alloc = alloc_or_abort;
  if (kFault == "leaks") t.device_open = open_leaking;
  if (kFault == "hangs") t.event_wait = wait_forever;
  return t;
}

minfer_host g_host;
std::string g_why = "the CPU plugin was not found";

[[gnu::constructor]] void load_inner() {
  void* library = ::dlopen(BROKEN_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    g_why = ::dlerror();
    return;
  }
  const auto query =
      reinterpret_cast<minfer_plugin_query_fn>(::dlsym(library, MINFER_QUERY_SYMBOL));
  minfer_error error{};
  g_host.struct_size = sizeof g_host;
  g_host.abi_minor = MINFER_ABI_MINOR;
  g_host.core_version = "broken plugins";
  g_host.log = [](void*, int32_t, const char*) {};
  g_host.get_interface = [](void*, const char*, uint32_t) -> const void* { return nullptr; };
  if (query == nullptr || query(&g_host, &world().inner, &error) != MINFER_OK) g_why = error.text;
}

}  // namespace

#ifdef BROKEN_EXTRA_SYMBOL
extern "C" MINFER_PLUGIN_EXPORT int broken_extra_symbol(void) {
  return 1;
}
#endif

extern "C" MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v1(const minfer_host*,
                                                                     const minfer_plugin** out,
                                                                     minfer_error* error) {
  if (world().inner == nullptr) {
    std::snprintf(error->text, sizeof error->text, "%s", g_why.c_str());
    return MINFER_INTERNAL;
  }
  static minfer_plugin table = make_table();
  static int calls = 0;
  if (kFault == "query_counts") table.version = ++calls % 2 == 0 ? "even" : "odd";
  *out = &table;
  return MINFER_OK;
}
