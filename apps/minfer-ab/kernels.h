// Which kernels each side ran, and whether they prove that the gate did something.
#pragma once

#include <string>
#include <vector>

#include "minfer/result.h"
#include "sides.h"

namespace minfer::ab {

struct KernelCheck {
  std::vector<std::string> devices;  ///< of side B
  std::vector<std::string> only_a;   ///< "MatMul mmvq_q4_k/avx2", sorted
  std::vector<std::string> only_b;
  std::string refusal;  ///< why no verdict can be given; empty: it can
};

/// Runs the metric once on each side, measured node by node.
Result<KernelCheck> compare_kernels(Sides& sides, const Options& options);

}  // namespace minfer::ab
