// A check of the kit: a named demand on a plugin, run in a process of its own.
//
// Checks say what they find through matrix/findings.h. The list is immutable; safe from any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cases.h"

namespace conformance {

/// What is checked.
struct Target {
  std::filesystem::path plugin;  ///< absolute
  uint32_t device = 0;
  std::filesystem::path second;  ///< another plugin to load beside it; empty: one that is found
};

struct Check {
  std::string name;  ///< "replay", or "matmul.EveryTypeOverShapes" for one of a group
  std::string what;  ///< the demand in one line
  bool needs_device = true;
  bool exits = false;  ///< leaves through exit(), so that the plugin's destructors run
  std::function<void(const Target&)> run;
};

/// All checks, in the order in which they run.
const std::vector<Check>& all_checks();

}  // namespace conformance
