// What a run tells about itself: --timing, --json and the per-operator table.
#pragma once

#include <string>

#include "generate.h"
#include "minfer/engine.h"

namespace minfer::run {

/// Seconds from the program's start.
struct StartUp {
  double plan_seconds = 0;  ///< until the model was placed and its plans compiled
  double load_seconds = 0;  ///< until the first step could run
};

/// Load, prefill and decode times with rates and percentiles of the time between tokens, the seed,
/// and the memory held beside what was planned.
std::string timing_text(const Generation& generation, Engine& engine, const StartUp& start);

/// The run as one JSON object on a line.
std::string json_text(const Generation& generation, Engine& engine, const StartUp& start);

/// Time, calls and GB/s per operator and kernel, longest first.
std::string op_timing_text(const Engine& engine);

}  // namespace minfer::run
