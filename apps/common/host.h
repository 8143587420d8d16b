// Opening the plugin host the way every app does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "minfer/gates.h"
#include "minfer/plugin_host.h"

namespace minfer::app {

/// Finds plugins (`files` are --plugin paths, made absolute), resolves gates from config and
/// environment, and enumerates devices.
Result<std::unique_ptr<PluginHost>> open_host(const std::vector<std::string>& files,
                                              const GateTexts& gates);

/// "a,b,c" into its parts; empty parts are dropped.
std::vector<std::string> split_list(std::string_view text);

/// Numbers of "1,2,512"; kUsage naming the flag on anything else.
Result<std::vector<uint32_t>> parse_numbers(std::string_view flag, std::string_view text);

}  // namespace minfer::app
