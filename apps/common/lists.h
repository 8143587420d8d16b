// Tables for --list-devices and --explain.
#pragma once

#include <string>

#include "minfer/engine.h"
#include "minfer/plugin_host.h"

namespace minfer::app {

/// Every device with its score or the reason it is unusable, every plugin without devices, and
/// every rejected file with its reason.
std::string device_list(const PluginHost& host);

/// Where each unit went, what each node runs and why not faster, for a step of `tokens` tokens.
Result<std::string> explain_text(Engine& engine, uint32_t tokens);

/// The memory plan per device.
std::string memory_text(const Engine& engine);

}  // namespace minfer::app
