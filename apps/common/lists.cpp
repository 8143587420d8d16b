#include "lists.h"

#include <fmt/format.h>

#include "terminal.h"

namespace minfer::app {

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

Result<std::string> explain_text(Engine& engine, uint32_t tokens) {
  std::string out = fmt::format("units ({} tokens a step):\n", tokens);
  for (const UnitPlacement& p : engine.placement()) {
    out += fmt::format("  {:20} {:8} weights {:>10}, KV {:>10}{}\n", p.unit.name(),
                       engine.devices()[p.device]->info().id, bytes_text(p.weight_bytes),
                       bytes_text(p.kv_bytes), p.passed_over.empty() ? "" : "; " + p.passed_over);
  }
  MINFER_ASSIGN(const auto nodes, engine.explain(tokens));
  out += "nodes:\n";
  for (const NodePlacement& n : nodes) {
    out += fmt::format("  {:28} {:10} {:8} {}{}\n", n.node, n.op, n.device, n.kernel,
                       n.why.empty() ? "" : " (" + n.why + ")");
  }
  return out;
}

std::string memory_text(const Engine& engine) {
  std::string out =
      fmt::format("{:10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", "device", "weights",
                  "KV", "arena", "workspace", "total", "overhead", "free");
  for (const MemoryPlan::Entry& e : engine.memory_plan().devices) {
    out += fmt::format("{:10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", e.device,
                       bytes_text(e.weights), bytes_text(e.kv), bytes_text(e.arena),
                       bytes_text(e.workspace), bytes_text(e.total()), bytes_text(e.overhead),
                       e.available ? bytes_text(e.available) : "unknown");
  }
  return out;
}

}  // namespace minfer::app
