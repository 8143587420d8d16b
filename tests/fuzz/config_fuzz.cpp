// Any bytes as a config: an error with a place, or a config whose gates and sampler can be used.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "minfer/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = minfer::parse_config(text, "fuzz.yaml");
  if (!config) {
    if (config.error().code != minfer::ErrorCode::kConfig || config.error().what.empty())
      std::abort();
    return 0;
  }
  // What the config accepts, the sampler accepts, and gates resolve or fail in words.
  if (!config->sampling.check()) std::abort();
  minfer::GateRegistry registry;
  if (!registry.declare("core", minfer::core_gates())) std::abort();
  (void)registry.resolve(config->all_gates(), config->gate_locations);
  return 0;
}
