// What a bug report needs to say of the build and of the machine it runs on.
//
// Facts are read from the system's own files; what cannot be read is left out. Nothing here starts
// a driver.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace minfer::doctor {

/// A heading with its facts, in order.
struct Section {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;
};

/// Versions, system, processor, memory, limits, NVIDIA driver, and the environment variables that
/// steer minfer.
std::vector<Section> machine_sections();

/// Names of environment variables that begin with MINFER_.
std::vector<std::string> minfer_variables();

}  // namespace minfer::doctor
