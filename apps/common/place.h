// Where a model runs: the flags that every program which runs one shares, and the engine options
// that follow from them.
#pragma once

#include <boost/program_options.hpp>
#include <vector>

#include "flags.h"
#include "host.h"
#include "minfer/config.h"
#include "minfer/engine.h"

namespace minfer::app {

/// Whether --device may be given more than once: each time another place to run on.
enum class DeviceLists { kOne, kSeveral };

/// --device, --gpu-layers, --threads, --cache-type, --plugin and --gate, under the heading "where
/// to run it".
boost::program_options::options_description place_flags(DeviceLists lists = DeviceLists::kOne);

/// Lays these flags over a config, --device only where it is declared as DeviceLists::kOne, and
/// appends the gates of --gate and --threads. kUsage naming the flag.
Result<void> take_place(const Flags& flags, RunConfig& config, std::vector<GateFlag>& gates);

/// The places of a --device declared as DeviceLists::kSeveral, one per time it was given; a single
/// empty list (the best devices there are) where it was not. kUsage on an empty list or a wrong
/// number.
Result<std::vector<std::vector<BackendConfig>>> device_lists(const Flags& flags);

/// What a config says of an engine: devices, layers, sequences, largest step, KV type; with a
/// progress line on stderr unless `quiet`. The context is left to the caller.
EngineOptions engine_options(const RunConfig& config, bool quiet);

}  // namespace minfer::app
