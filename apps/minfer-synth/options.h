// Command line of minfer-synth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "metadata.h"
#include "minfer/result.h"
#include "presets.h"
#include "tensor_plan.h"

namespace minfer::synth {

struct Options {
  Shape shape;
  Quant quant;
  Vocabulary vocabulary = Vocabulary::kNone;
  uint64_t seed = 0;
  std::string output;
  std::optional<std::string> text;  ///< help or list to print instead of doing anything
};

/// Parses the command line; fails with kUsage in words.
Result<Options> parse_options(int argc, const char* const* argv);

}  // namespace minfer::synth
