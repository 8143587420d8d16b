// The schema's keys, for the test that holds docs/config.md against them.
#pragma once

#include <string>
#include <vector>

namespace minfer {

/// Every key a config may have: "context", "sampling.top_k", ...
std::vector<std::string> config_keys();

}  // namespace minfer
