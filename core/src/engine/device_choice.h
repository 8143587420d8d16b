// Which devices an engine opens, in order of preference. Not thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "minfer/engine.h"

namespace minfer {

/// Opens the devices that the options name, or every usable one, best score first. A named device
/// that cannot be used is an error with its reason when `strict_devices`, else one log line; where
/// gpu_layers leaves layers over and nothing else is named, the CPU follows. Never empty.
Result<std::vector<std::shared_ptr<Device>>> choose_devices(PluginHost& host,
                                                            const EngineOptions& options);

/// Tokens per KV page that every device can use for these layers: `wanted`, or with 0 the largest
/// size up to 64, else the smallest common one. kUnsupported with each device's sizes when there is
/// none.
Result<uint32_t> choose_page_tokens(std::span<const std::shared_ptr<Device>> devices,
                                    std::span<const minfer_kv_desc> layers, uint32_t wanted);

}  // namespace minfer
