// How minfer-ab prints what it found: text or JSON.
#pragma once

#include <optional>
#include <string>

#include "experiment.h"
#include "kernels.h"
#include "outputs.h"
#include "sides.h"

namespace minfer::ab {

/// A comparison as far as it came: a refusal ends it.
struct Comparison {
  KernelCheck kernels;
  std::optional<OutputCheck> outputs;
  std::optional<Measurement> measured;
  std::optional<Judgement> judgement;
  std::string refusal;
};

std::string text(const Comparison& comparison, const Sides& sides, const Options& options);
/// One object, as docs/schema/minfer-ab.schema.json describes it.
std::string json_text(const Comparison& comparison, const Sides& sides, const Options& options);

}  // namespace minfer::ab
