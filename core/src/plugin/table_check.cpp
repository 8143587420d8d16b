#include "plugin/table_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "plugin/abi_text.h"

namespace minfer {
namespace {

constexpr size_t kTextBytes = 4096;  // no string of a table is longer
constexpr uint32_t kMaxGates = 256;
constexpr uint32_t kMaxOps = 1024;

struct Slot {
  const char* name;
  size_t offset;
};
#define MINFER_SLOT(name)                \
  Slot {                                 \
#name, offsetof(minfer_plugin, name) \
  }

// Every function of 0.1 that is not marked optional. Functions of later minors never join this
// list.
constexpr std::array kRequired = {
    MINFER_SLOT(device_enumerate), MINFER_SLOT(device_open),
    MINFER_SLOT(device_close),     MINFER_SLOT(device_memory),
    MINFER_SLOT(supports),         MINFER_SLOT(weights_size),
    MINFER_SLOT(weights_import),   MINFER_SLOT(weights_free),
    MINFER_SLOT(kv_page_sizes),    MINFER_SLOT(kv_page_bytes),
    MINFER_SLOT(kv_copy_pages),    MINFER_SLOT(buffer_alloc),
    MINFER_SLOT(buffer_free),      MINFER_SLOT(buffer_host_pointer),
    MINFER_SLOT(buffer_write),     MINFER_SLOT(buffer_read),
    MINFER_SLOT(queue_create),     MINFER_SLOT(queue_destroy),
    MINFER_SLOT(queue_wait),       MINFER_SLOT(event_create),
    MINFER_SLOT(event_destroy),    MINFER_SLOT(event_record),
    MINFER_SLOT(event_wait),       MINFER_SLOT(event_query),
    MINFER_SLOT(plan_compile),     MINFER_SLOT(plan_bind),
    MINFER_SLOT(plan_run),         MINFER_SLOT(plan_describe),
    MINFER_SLOT(plan_destroy),
};

struct Pair {
  Slot one, other;
};
constexpr std::array kPairs = {
    Pair{MINFER_SLOT(host_alloc), MINFER_SLOT(host_free)},
    Pair{MINFER_SLOT(kv_export_page), MINFER_SLOT(kv_import_page)},
};

// What may come before the functions can never shrink.
constexpr uint32_t kSmallestTable = offsetof(minfer_plugin, device_enumerate);

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorCode::kPlugin, std::move(what), {}, "report this to the plugin's maker");
}

bool has(const minfer_plugin& table, const Slot& slot) {
  using Function = void (*)();
  static_assert(sizeof(Function) == sizeof(table.device_close));
  Function function = nullptr;
  std::memcpy(&function, reinterpret_cast<const char*>(&table) + slot.offset, sizeof(function));
  return function != nullptr;
}

Result<void> check_functions(const minfer_plugin& table) {
  std::vector<std::string> missing;
  for (const Slot& slot : kRequired)
    if (!has(table, slot)) missing.emplace_back(slot.name);
  if (!missing.empty())
    return bad(fmt::format("its table lacks required functions: {}", fmt::join(missing, ", ")));
  for (const Pair& pair : kPairs)
    if (has(table, pair.one) != has(table, pair.other))
      return bad(fmt::format("{} and {} must be given together", pair.one.name, pair.other.name));
  return {};
}

Result<void> check_backend_name(const minfer_plugin& table, std::string& out) {
  const std::string name = clean_text(table.backend, 64);
  const bool legal =
      !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
      });
  if (!legal)
    return bad(fmt::format(
        "backend name '{}' is not 1 to 32 lower-case letters, digits, '_' or '-'", name));
  if (name == "core" || name == "auto")
    return bad(fmt::format("backend name '{}' is reserved", name));
  out = name;
  return {};
}

std::vector<std::string> split_choices(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('|', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Result<GateSpec> read_gate(const minfer_gate& gate, uint32_t index) {
  GateSpec spec;
  const auto name = checked_text(gate.name, 128);
  if (!name) return bad(fmt::format("gate {} has no readable name", index));
  spec.name = *name;
  const auto help = checked_text(gate.help, kTextBytes);
  if (!help || help->empty()) return bad(fmt::format("gate {} has no help text", spec.name));
  spec.help = *help;
  switch (gate.type) {
    case MINFER_GATE_BOOL:
      spec.type = GateType::kBool;
      break;
    case MINFER_GATE_INT:
      spec.type = GateType::kInt;
      break;
    case MINFER_GATE_ENUM:
      spec.type = GateType::kEnum;
      break;
    default:
      return bad(fmt::format("gate {} has the unknown type {}", spec.name, gate.type));
  }
  switch (gate.scope) {
    case MINFER_SCOPE_LOAD:
      spec.scope = GateScope::kLoad;
      break;
    case MINFER_SCOPE_PLAN:
      spec.scope = GateScope::kPlan;
      break;
    case MINFER_SCOPE_RUN:
      spec.scope = GateScope::kRun;
      break;
    default:
      return bad(fmt::format("gate {} has the unknown scope {}", spec.name, gate.scope));
  }
  if (spec.type == GateType::kEnum) {
    const auto choices = checked_text(gate.choices, kTextBytes);
    if (!choices || choices->empty()) return bad(fmt::format("gate {} has no choices", spec.name));
    spec.choices = split_choices(*choices);
  }
  spec.affects_numerics = gate.affects_numerics != 0;
  spec.default_value = gate.default_value;
  spec.min_value = gate.min_value;
  spec.max_value = gate.max_value;
  return spec;
}

Result<void> read_gates(const minfer_plugin& table, std::vector<GateSpec>& out) {
  if (table.n_gates == 0) return {};
  if (table.n_gates > kMaxGates || !table.gates)
    return bad(fmt::format("n_gates = {} with {} table; at most {} are allowed", table.n_gates,
                           table.gates ? "a" : "no", kMaxGates));
  constexpr uint32_t smallest = offsetof(minfer_gate, default_value);
  if (table.gate_stride < smallest)
    return bad(fmt::format("gate_stride = {} is below {}", table.gate_stride, smallest));
  const auto* at = reinterpret_cast<const char*>(table.gates);
  for (uint32_t i = 0; i < table.n_gates; ++i, at += table.gate_stride) {
    const auto gate = read_struct<minfer_gate>(at, table.gate_stride);
    if (gate.struct_size < smallest || gate.struct_size > table.gate_stride)
      return bad(fmt::format("gate {} has struct_size {} in a stride of {}", i, gate.struct_size,
                             table.gate_stride));
    MINFER_ASSIGN(GateSpec spec, read_gate(gate, i));
    out.push_back(std::move(spec));
  }
  return {};
}

Result<void> read_ops(const minfer_plugin& table, std::vector<minfer_op_support>& out) {
  if (table.n_ops == 0) return {};
  if (table.n_ops > kMaxOps || !table.ops)
    return bad(fmt::format("n_ops = {} with {} table; at most {} are allowed", table.n_ops,
                           table.ops ? "a" : "no", kMaxOps));
  if (table.op_stride < sizeof(minfer_op_support))
    return bad(
        fmt::format("op_stride = {} is below {}", table.op_stride, sizeof(minfer_op_support)));
  const auto* at = reinterpret_cast<const char*>(table.ops);
  for (uint32_t i = 0; i < table.n_ops; ++i, at += table.op_stride) {
    minfer_op_support op;
    std::memcpy(&op, at, sizeof(op));
    if (op.revision == 0) return bad(fmt::format("operator {} has revision 0", op.op));
    out.push_back(op);
  }
  return {};
}

}  // namespace

Result<void> read_table(const minfer_plugin* table, Plugin& plugin) {
  if (!table) return bad("the query succeeded and returned no table");
  if (table->struct_size < kSmallestTable)
    return bad(fmt::format("its table's struct_size is {}; at least {} is expected",
                           table->struct_size, kSmallestTable));
  plugin.table = read_struct<minfer_plugin>(table);
  plugin.table.struct_size = sizeof(minfer_plugin);
  const minfer_plugin& copy = plugin.table;
  MINFER_TRY(check_backend_name(copy, plugin.info.backend));
  MINFER_TRY(check_functions(copy));
  const auto version = checked_text(copy.version, 128);
  if (!version) return bad("it has no readable version text");
  plugin.info.version = *version;
  plugin.info.description = clean_text(copy.description, kTextBytes);
  plugin.info.abi_minor = copy.abi_minor;
  MINFER_TRY(read_gates(copy, plugin.gates));
  return read_ops(copy, plugin.ops);
}

}  // namespace minfer
