// The lists of lists.h as JSON.
#include <boost/json.hpp>

#include "lists.h"

namespace minfer::app {
namespace {

namespace json = boost::json;

json::object gate_json(const Gate& gate) {
  const Gate initial{.spec = gate.spec, .value = gate.spec.default_value};
  json::object out = {{"name", gate.spec.name},
                      {"owner", gate.spec.owner},
                      {"value", gate.value_text()},
                      {"source", name_of(gate.source)},
                      {"default", initial.value_text()},
                      {"scope", name_of(gate.spec.scope)},
                      {"affects_numerics", gate.spec.affects_numerics},
                      {"help", gate.spec.help}};
  if (gate.spec.type == GateType::kInt) {
    out["min"] = gate.spec.min_value;
    out["max"] = gate.spec.max_value;
  } else {
    out["choices"] = gate.spec.type == GateType::kBool
                         ? json::array{"on", "off"}
                         : json::array(gate.spec.choices.begin(), gate.spec.choices.end());
  }
  return out;
}

json::object memory_json(const MemoryPlan::Entry& e) {
  return {{"device", e.device},     {"weights", e.weights},     {"kv", e.kv},
          {"arena", e.arena},       {"workspace", e.workspace}, {"staging", e.staging},
          {"overhead", e.overhead}, {"total", e.total()},       {"available", e.available}};
}

}  // namespace

json::object device_list_json(const PluginHost& host) {
  json::array devices, plugins, rejected;
  for (const DeviceInfo& d : host.devices())
    devices.push_back({{"id", d.id},
                       {"name", d.name},
                       {"score", d.score},
                       {"reason", d.reason},
                       {"details", d.details},
                       {"memory_total", d.memory_total},
                       {"memory_free", d.memory_free},
                       {"plugin", host.plugins()[d.plugin].path.string()}});
  for (const PluginInfo& p : host.plugins())
    plugins.push_back({{"backend", p.backend},
                       {"path", p.path.string()},
                       {"version", p.version},
                       {"description", p.description},
                       {"note", p.note}});
  for (const RejectedPlugin& r : host.rejected())
    rejected.push_back({{"path", r.path.string()}, {"reason", r.reason}});
  return {{"devices", std::move(devices)},
          {"plugins", std::move(plugins)},
          {"rejected", std::move(rejected)}};
}

json::array gate_list_json(const GateRegistry& gates) {
  json::array list;
  for (const Gate& gate : gates.all()) list.push_back(gate_json(gate));
  return list;
}

Result<json::object> plan_json(Engine& engine, bool explain) {
  json::array memory, units;
  for (const MemoryPlan::Entry& e : engine.memory_plan().devices) memory.push_back(memory_json(e));
  for (const UnitPlacement& p : engine.placement())
    units.push_back({{"unit", p.unit.name()},
                     {"device", engine.devices()[p.device]->info().id},
                     {"weights", p.weight_bytes},
                     {"kv", p.kv_bytes},
                     {"passed_over", p.passed_over}});
  json::object out = {{"model", engine.model().file().path().string()},
                      {"context", engine.options().context},
                      {"memory", std::move(memory)},
                      {"units", std::move(units)}};
  if (!explain) return out;
  MINFER_ASSIGN(const auto nodes, engine.explain(1));
  json::array list;
  for (const NodePlacement& n : nodes)
    list.push_back({{"node", n.node},
                    {"op", n.op},
                    {"unit", n.unit},
                    {"device", n.device},
                    {"kernel", n.kernel},
                    {"why", n.why}});
  out["nodes"] = std::move(list);
  return out;
}

}  // namespace minfer::app
