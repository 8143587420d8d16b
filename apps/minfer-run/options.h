// The command line of minfer-run, laid over a config.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host.h"
#include "minfer/config.h"
#include "minfer/result.h"

namespace minfer::run {

struct Options {
  RunConfig config;                  ///< YAML with the flags laid over it
  std::vector<app::GateFlag> gates;  ///< of --gate and --threads, which win over the environment

  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  std::string dump_graph;
  std::string dump_logits;
  std::string trace;

  bool help = false;
  bool version = false;
  bool list_devices = false;
  bool list_gates = false;
  bool dry_run = false;
  bool explain = false;
  bool json = false;
  bool timing = false;
  bool quiet = false;
  bool verbose = false;
  bool ignore_end = false;  ///< generate past end-of-generation tokens
};

/// Reads flags and the config they name. kUsage for a wrong flag, else what the config's reader
/// says.
Result<Options> parse_options(int argc, char** argv);

/// The text of --help.
std::string help_text();

/// The two lines that say how the program is called.
std::string usage_text();

}  // namespace minfer::run
