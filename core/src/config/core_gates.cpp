// The core's own gates: one row each.
#include "minfer/gates.h"

namespace minfer {

std::vector<GateSpec> core_gates() {
  return {
      {.name = "MINFER_CACHE_TYPE",
       .type = GateType::kEnum,
       .scope = GateScope::kLoad,
       .affects_numerics = true,
       .choices = {"auto", "f32", "f16", "q8_0"},
       .help = "Type of stored keys and values; auto takes what cache_type in the config says."},
      {.name = "MINFER_OP_TIMING",
       .type = GateType::kBool,
       .scope = GateScope::kRun,
       .help = "Measure the time of every node; slower, as captured plans are not used."},
  };
}

}  // namespace minfer
