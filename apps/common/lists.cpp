#include "lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "terminal.h"

namespace minfer::app {
namespace {

/// Adds ", text" or "text".
void append(std::string& list, const std::string& text) {
  list += (list.empty() ? "" : ", ") + text;
}

/// The units of one device in a few words: layers in ranges; a layer whose two units are apart is
/// named by unit.
std::string units_of(std::span<const UnitPlacement> units, size_t device) {
  const auto here = [&](const UnitPlacement& p) { return p.device == device; };
  const auto split = [&](uint32_t layer) {
    return std::count_if(units.begin(), units.end(), [&](const UnitPlacement& p) {
             return here(p) && p.unit.layer == layer &&
                    (p.unit.kind == UnitKind::kAttention || p.unit.kind == UnitKind::kFfn);
           }) == 1;
  };
  std::string text;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i].unit;
    if (!here(units[i])) continue;
    if (unit.kind == UnitKind::kEmbedding || unit.kind == UnitKind::kHead || split(unit.layer)) {
      append(text, unit.name());
      continue;
    }
    uint32_t last = unit.layer;
    while (i + 1 < units.size() && here(units[i + 1]) && units[i + 1].unit.layer <= last + 1 &&
           units[i + 1].unit.kind != UnitKind::kHead && !split(units[i + 1].unit.layer))
      last = units[++i].unit.layer;
    append(text, last == unit.layer ? fmt::format("layer {}", last)
                                    : fmt::format("layers {}-{}", unit.layer, last));
  }
  return text;
}

}  // namespace

std::string device_list(const PluginHost& host) {
  std::string out;
  for (const DeviceInfo& d : host.devices()) {
    const std::string state =
        d.score > 0 ? fmt::format("score {}", d.score) : fmt::format("unusable: {}", d.reason);
    out += fmt::format("{:10} {:40} {}", d.id, d.name, state);
    if (d.memory_total)
      out += fmt::format(", {} of {} free", bytes_text(d.memory_free), bytes_text(d.memory_total));
    if (!d.details.empty()) out += fmt::format("\n{:10} {}", "", d.details);
    out += fmt::format("\n{:10} from {}\n", "", host.plugins()[d.plugin].path.string());
  }
  for (const PluginInfo& plugin : host.plugins()) {
    if (!plugin.note.empty())
      out += fmt::format("{:10} no device: {}\n{:10} from {}\n", plugin.backend, plugin.note, "",
                         plugin.path.string());
  }
  for (const RejectedPlugin& rejected : host.rejected())
    out += fmt::format("rejected   {}\n{:10} {}\n", rejected.path.string(), "", rejected.reason);
  if (out.empty()) out = "no plugins were found\n";
  return out;
}

std::string placement_line(const Engine& engine) {
  const auto devices = engine.devices();
  if (devices.size() == 1) return devices[0]->info().id;
  std::string text;
  for (size_t d = 0; d < devices.size(); ++d)
    append(text, fmt::format("{} ({})", devices[d]->info().id, units_of(engine.placement(), d)));
  return text;
}

Result<std::string> explain_text(Engine& engine) {
  std::string out = "units:\n";
  for (const UnitPlacement& p : engine.placement()) {
    out += fmt::format("  {:20} {:8} weights {:>10}, KV {:>10}{}\n", p.unit.name(),
                       engine.devices()[p.device]->info().id, bytes_text(p.weight_bytes),
                       bytes_text(p.kv_bytes), p.passed_over.empty() ? "" : "; " + p.passed_over);
  }
  MINFER_ASSIGN(const auto nodes, engine.explain(1));
  out += "nodes of a step of one token:\n";
  for (const NodePlacement& n : nodes) {
    out += fmt::format("  {:28} {:10} {:8} {}{}\n", n.node, n.op, n.device, n.kernel,
                       n.why.empty() ? "" : " (" + n.why + ")");
  }
  return out;
}

std::string memory_text(const Engine& engine) {
  std::string out =
      fmt::format("{:10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", "device", "weights",
                  "KV", "arena", "workspace", "overhead", "total", "free");
  for (const MemoryPlan::Entry& e : engine.memory_plan().devices) {
    out += fmt::format("{:10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", e.device,
                       bytes_text(e.weights), bytes_text(e.kv), bytes_text(e.arena),
                       bytes_text(e.workspace), bytes_text(e.overhead), bytes_text(e.total()),
                       e.available ? bytes_text(e.available) : "unknown");
  }
  return out;
}

}  // namespace minfer::app
