// What a host and a planned engine tell about themselves: devices, gates, placement, memory; for
// people and as JSON.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

#include "minfer/engine.h"
#include "minfer/plugin_host.h"

namespace minfer::app {

/// Every device with its score or the reason it is unusable, every plugin without devices, and
/// every rejected file with its reason.
std::string device_list(const PluginHost& host);
/// The same: "devices", "plugins", "rejected".
boost::json::object device_list_json(const PluginHost& host);
/// An entry for each gate: name, owner, value, source, default, choices or range, scope, help.
boost::json::array gate_list_json(const GateRegistry& gates);

/// Which units went to which device: "cuda:0 (embedding, layers 0-20), cpu:0 (layers 21-29, head)",
/// or the device alone where all went there.
std::string placement_line(const Engine& engine);

/// Where each unit went, what each node of a one-token step runs and why not something faster.
Result<std::string> explain_text(Engine& engine);

/// The memory plan per device.
std::string memory_text(const Engine& engine);

/// The plan: "model", "context", "memory" and "units"; with `explain` also "nodes".
Result<boost::json::object> plan_json(Engine& engine, bool explain);

}  // namespace minfer::app
