// The command line of minfer-conformance.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "check.h"
#include "minfer/result.h"

namespace conformance {

struct Options {
  Target target;
  uint64_t seed = 0;
  std::vector<Check> checks;  ///< those to run, in order
  std::string json_file;      ///< "-": standard output instead of the table; empty: none
  std::chrono::seconds limit{120};
  bool list = false, help = false, version = false;
};

minfer::Result<Options> parse_options(int argc, char** argv);
std::string help_text();
/// A line for each check: name and demand.
std::string check_list();

}  // namespace conformance
