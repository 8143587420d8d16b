// Which splits the CPU device takes: the operators' contracts (docs/operators.md) held against
// every node. `supports` and `plan_compile` ask the same function, so that a yes is a promise.
// Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "graph.h"
#include "matmul.h"

namespace minfer_cpu {

struct Refusal {
  uint32_t node = MINFER_NONE;    ///< first node refused
  uint32_t tensor = MINFER_NONE;  ///< the tensor to blame, if one is
  char text[256] = {};            ///< with the numbers
};

/// The first refusal, or nothing when the whole split is supported.
std::optional<Refusal> check_graph(const Graph& graph, Isa isa);

}  // namespace minfer_cpu
