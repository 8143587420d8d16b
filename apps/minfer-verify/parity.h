// The parity gate: each node of a model's step by itself on the candidate, given what the
// reference's nodes made, so that every node that differs is found and an error does not travel.
//
// Matrix products are also given a probe (steps.h), which shows a single wrong weight and its row.
// Then each placement unit runs as one plan, with whatever its backend fuses.
#pragma once

#include <string>
#include <vector>

#include "side.h"
#include "steps.h"

namespace minfer::verify {

enum class Probe { kValues, kExact, kUnit };

/// One comparison.
struct Finding {
  Probe probe = Probe::kValues;
  std::string node;
  std::string op;  ///< "MatMul Q4_K"; of a unit "unit"
  std::string unit;
  std::string weight;  ///< name and shape of a weight that is read; may be empty
  std::string kernel;
  uint32_t tokens = 0;  ///< of the step
  double error = 0;     ///< relative norm; of a probe, the worst row's
  double limit = 0;
  int64_t row = -1;  ///< the worst row of a probe
  bool holds() const { return error <= limit; }
};

struct Parity {
  std::vector<Finding> findings;  ///< in the order of the graph, step by step
  /// The first that does not hold, or nullptr.
  const Finding* first_difference() const;
};

Result<void> compare_step(Side& candidate, const StepValues& reference, Parity& out);

}  // namespace minfer::verify
