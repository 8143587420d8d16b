// The simulated device's table and the one exported symbol. The plugin behind is the CPU plugin of
// the same build or bundle, found by its place relative to this file.
#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>

#include "sim.h"

namespace minfer_sim {

World& world() {
  static World* instance = new World;  // plugins are never unloaded
  return *instance;
}

minfer_status World::violation(minfer_error* error, const char* format, ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (error) snprintf(error->text, sizeof error->text, "contract broken: %s", text);
  const std::lock_guard lock(mutex);
  if (stats.violations++ == 0) std::memcpy(stats.first_violation, text, sizeof text);
  return MINFER_INTERNAL;
}

bool World::allocation_fails() {
  const std::lock_guard lock(mutex);
  return fail_allocation_in > 0 && --fail_allocation_in == 0;
}

minfer_status set_error(minfer_error* error, minfer_status status, const char* format, ...) {
  if (!error) return status;
  va_list args;
  va_start(args, format);
  vsnprintf(error->text, sizeof error->text, format, args);
  va_end(args);
  return status;
}

namespace {

const minfer_plugin* g_inner = nullptr;

void reset() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const Stats before = w.stats;
  w.stats = Stats{};
  w.stats.live_buffers = before.live_buffers;
  w.stats.live_plans = before.live_plans;
  w.stats.live_imports = before.live_imports;
  w.memory = 0;
  w.refused_op = w.refused_type = MINFER_NONE;
  w.fail_in = 0;
  w.fail_allocation_in = 0;
  w.threaded = false;
}

const Control kControl = {
    .reset = reset,
    .stats =
        [](Stats* out) {
          const std::lock_guard lock(world().mutex);
          *out = world().stats;
        },
    .set_memory =
        [](uint64_t bytes) {
          const std::lock_guard lock(world().mutex);
          world().memory = bytes;
        },
    .refuse =
        [](uint32_t op, uint32_t type) {
          const std::lock_guard lock(world().mutex);
          world().refused_op = op;
          world().refused_type = type;
        },
    .fail_run =
        [](uint32_t nth, int32_t status, uint32_t queued) {
          const std::lock_guard lock(world().mutex);
          world().fail_in = nth;
          world().fail_status = status;
          world().fail_queued = queued != 0;
        },
    .fail_allocation =
        [](uint32_t nth) {
          const std::lock_guard lock(world().mutex);
          world().fail_allocation_in = nth;
        },
    .set_threaded =
        [](bool threaded) {
          const std::lock_guard lock(world().mutex);
          world().threaded = threaded;
        },
};

const void* get_interface(const char* name, uint32_t version) {
  return std::strcmp(name, "minfer_sim") == 0 && version == 1 ? &kControl : nullptr;
}

constexpr minfer_gate kGates[] = {
    {sizeof(minfer_gate), MINFER_GATE_INT, MINFER_SCOPE_PLAN, 0, "MINFER_SIM_EXTRA_WORKSPACE",
     "KiB of workspace that plans ask for beyond what they need.", 0, 0, 1 << 20, nullptr},
};

minfer_plugin make_table() {
  minfer_plugin table{};
  table.struct_size = sizeof table;
  table.abi_minor = MINFER_ABI_MINOR;
  table.backend = "sim";
  table.version = "1";
  table.description = "simulated devices for tests of the scheduler";
  table.n_gates = 1;
  table.gate_stride = sizeof(minfer_gate);
  table.gates = kGates;
  table.n_ops = g_inner->n_ops;
  table.op_stride = g_inner->op_stride;
  table.ops = g_inner->ops;
  table.get_interface = get_interface;
  fill_device_slots(table);
  fill_memory_slots(table);
  fill_plan_slots(table);
  return table;
}

}  // namespace

const minfer_plugin& inner() {
  return *g_inner;
}

}  // namespace minfer_sim

extern "C" MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v1(const minfer_host* host,
                                                                     const minfer_plugin** out,
                                                                     minfer_error* error) {
  using namespace minfer_sim;
  if (!g_inner) {
    Dl_info self{};
    if (!dladdr(&g_inner, &self)) return set_error(error, MINFER_INTERNAL, "no path of this file");
    const auto tests = std::filesystem::path(self.dli_fname).parent_path().parent_path();
    const auto inner = tests.parent_path() / "lib/minfer/plugins/libminfer_cpu.so";
    void* library = dlopen(inner.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return set_error(error, MINFER_INTERNAL, "%s", dlerror());
    const auto query =
        reinterpret_cast<minfer_plugin_query_fn>(dlsym(library, MINFER_QUERY_SYMBOL));
    if (!query) return set_error(error, MINFER_INTERNAL, "%s", dlerror());
    const minfer_status status = query(host, &g_inner, error);
    if (status != MINFER_OK) return status;
  }
  static const minfer_plugin table = make_table();
  *out = &table;
  return MINFER_OK;
}
