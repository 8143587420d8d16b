// The command line of minfer-bench.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host.h"
#include "minfer/config.h"
#include "minfer/result.h"
#include "workload.h"

namespace minfer::bench {

enum class Format { kTable, kMarkdown, kCsv, kJson };

struct Options {
  RunConfig config;  ///< plugins, layers, cache type and largest step
  std::vector<app::GateFlag> gates;
  std::vector<std::filesystem::path> models;
  std::vector<std::vector<BackendConfig>> places;  ///< a list of devices each; empty: the best
  std::vector<app::Workload> tests;
  uint32_t repetitions = 5;
  bool ceilings = true;
  Format format = Format::kTable;
  std::string plot;  ///< file; empty: none
  bool quiet = false;
  bool help = false;
  bool version = false;
};

/// Reads the flags; kUsage, or kNotFound for a model that is not there.
Result<Options> parse_options(int argc, char** argv);

/// The text of --help.
std::string help_text();

}  // namespace minfer::bench
