// The measurement: blocks of two pairs, each side first in one of them, in random order.
//
// A block is A B B A or B A A B, by the toss of a seeded coin. If the gate has no effect,
// exchanging the two names changes nothing but the sign of a block's effect, so that signs are fair
// coins whatever the noise is like and however one block resembles the next: that is all the
// signed-rank test needs. Drift and the place within a pair cancel inside a block. The same samples
// also give a control: the second of each pair against the first, an effect that should not be
// there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "minfer/result.h"
#include "samples.h"
#include "sides.h"

namespace minfer::ab {

struct Measurement {
  std::array<std::vector<double>, 2> speeds;  ///< tokens/s of A and B, in order of time
  std::vector<double> effects;                ///< of each block: mean of ln(B) - mean of ln(A)
  std::vector<double> controls;  ///< of each block: the same of second places over first ones
  uint32_t runs_per_sample = 1;
  std::string refusal;  ///< why no verdict can be given; empty: it can
};

Result<Measurement> measure(Sides& sides, const Options& options);

/// What the measurement says.
struct Judgement {
  app::SignedRank effect;
  app::SignedRank control;
  app::Verdict verdict = app::Verdict::kNotMeasurable;
  bool separated = false;     ///< every sample of one side is faster than all of the other
  uint32_t pairs_wanted = 0;  ///< that would do at this noise; 0: the verdict is there
  bool control_failed = false;
};

Judgement judge(const Measurement& measured, const Options& options);

}  // namespace minfer::ab
