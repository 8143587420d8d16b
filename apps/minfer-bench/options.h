// The command line of minfer-bench.
#pragma once

#include <string>
#include <vector>

#include "bench.h"
#include "host.h"
#include "minfer/config.h"
#include "minfer/result.h"

namespace minfer::bench {

struct Options {
  RunConfig config;  ///< model, devices, plugins, layers, cache type and largest step
  std::vector<app::GateFlag> gates;
  std::vector<Test> tests;
  uint32_t repetitions = 5;
  bool json = false;
  bool quiet = false;
  bool help = false;
  bool version = false;
};

/// Reads the flags; kUsage, or kNotFound for a model that is not there.
Result<Options> parse_options(int argc, char** argv);

/// The text of --help.
std::string help_text();

}  // namespace minfer::bench
