// Whether both sides compute the same, within what the gate declares.
#pragma once

#include <cstdint>
#include <string>

#include "minfer/result.h"
#include "sides.h"

namespace minfer::ab {

struct OutputCheck {
  uint32_t rows = 0;  ///< of logits that were compared
  /// |b - a| / |a - mean of its row|, Euclidean norms over all rows.
  double error = 0;
  uint32_t different_tokens = 0;  ///< rows whose arg-max differs
  std::string refusal;            ///< why no verdict can be given; empty: it can
};

/// Feeds both sides the same random prompt and then the tokens that side A makes, and compares the
/// logits of every row. A gate that does not declare that it affects numerics must give the same
/// bits, any other one must stay within the tolerance.
Result<OutputCheck> compare_outputs(Sides& sides, const Options& options);

}  // namespace minfer::ab
