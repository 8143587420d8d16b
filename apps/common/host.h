// Opening the plugin host the way every app does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "minfer/config.h"
#include "minfer/gates.h"
#include "minfer/plugin_host.h"

namespace minfer::app {

/// A gate as a flag gives it.
struct GateFlag {
  std::string owner;  ///< may be empty: names are unique
  std::string name;
  std::string text;
  std::string flag;  ///< "--gate", for errors
};

/// Reads "OWNER:NAME=VALUE" or "NAME=VALUE" of --gate.
Result<GateFlag> parse_gate(const std::string& text);

/// Loads the config's plugins and those that are found, resolves gates (flags over environment over
/// config), and enumerates devices.
Result<std::unique_ptr<PluginHost>> open_host(const RunConfig& config,
                                              const std::vector<GateFlag>& flags);

/// What "--device a,b:1" means; kUsage on an empty list and on a wrong number.
Result<std::vector<BackendConfig>> parse_devices(const std::string& text);

/// What "--cache-type NAME" means.
Result<CacheType> parse_cache_type(const std::string& name);
/// The same for EngineOptions::kv_type; nothing for kAuto.
std::optional<uint32_t> kv_type(CacheType type);

}  // namespace minfer::app
