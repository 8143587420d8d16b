// The operator matrix: what every backend must compute, over types, shapes, views and valid counts,
// judged against float64. Sees the C headers only, so that it can be pointed at any plugin.
//
// Two drivers run it: tests/ops on each instruction level of the CPU plugin, minfer-conformance on
// any plugin. Cases are stateless; one runs at a time.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "findings.h"
#include "harness.h"
#include "minfer/quant_blocks.h"

namespace conformance {

/// What a case gets to run on.
struct Bench {
  Device& device;
  std::mt19937_64 rng;
  /// The device keeps f32 activations and exact weights: the tightest tolerances hold.
  bool exact = false;
};

struct Case {
  const char* name;  ///< "matmul.EveryTypeOverShapes": the part before the dot is a group
  void (*run)(Bench& bench);
};

std::span<const Case> elementwise_cases();
std::span<const Case> row_cases();
std::span<const Case> matmul_cases();
std::span<const Case> rope_cases();
std::span<const Case> attention_cases();
std::span<const Case> plan_cases();
/// All of them, in this order.
std::vector<Case> all_cases();

inline constexpr uint32_t kWeightTypes[] = {
    MINFER_TYPE_F32,  MINFER_TYPE_F16,    MINFER_TYPE_BF16,   MINFER_TYPE_Q4_0,
    MINFER_TYPE_Q4_1, MINFER_TYPE_Q5_0,   MINFER_TYPE_Q5_1,   MINFER_TYPE_Q8_0,
    MINFER_TYPE_Q2_K, MINFER_TYPE_Q3_K,   MINFER_TYPE_Q4_K,   MINFER_TYPE_Q5_K,
    MINFER_TYPE_Q6_K, MINFER_TYPE_IQ4_NL, MINFER_TYPE_IQ4_XS, MINFER_TYPE_MXFP4};

}  // namespace conformance
