// The command line of minfer-ab.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "host.h"
#include "minfer/config.h"
#include "minfer/result.h"
#include "workload.h"

namespace minfer::ab {

struct Options {
  RunConfig config;                   ///< model, devices, plugins, layers, cache type, largest step
  std::vector<app::GateFlag> gates;   ///< the same on both sides
  app::GateFlag gate;                 ///< the one that is compared; its text is side A's value
  std::array<std::string, 2> values;  ///< of sides A and B
  app::Workload metric{.generate = 32};
  uint32_t pairs = 40;
  double bar = 1.5;          ///< percent
  double confidence = 99.9;  ///< percent
  double tolerance = 0.15;   ///< relative difference of logits that counts as rounding
  uint64_t seed = 1;         ///< of the order within pairs
  std::string label;         ///< text that a kernel of side B must have in its label; may be empty
  bool allow_same_kernels = false;
  bool reload = false;
  bool json = false;
  bool quiet = false;
  bool help = false;
  bool version = false;
};

/// Reads the flags; kUsage, or kNotFound for a model that is not there.
Result<Options> parse_options(int argc, char** argv);

/// The text of --help.
std::string help_text();

}  // namespace minfer::ab
