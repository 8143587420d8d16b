// How minfer-bench prints its measurements: a table, or JSON.
#pragma once

#include <span>
#include <string>

#include "bench.h"

namespace minfer::bench {

/// What was measured, beside the figures.
struct Subject {
  std::string model;  ///< file
  std::string name;   ///< general.name
  std::string architecture;
  uint64_t weight_bytes = 0;  ///< as held on the devices
  double load_seconds = 0;
  uint32_t repetitions = 0;
};

std::string table_text(const Subject& subject, std::span<const Measurement> measurements);
/// One object: the subject's fields and "tests", an array with samples, median, min, max, kernels.
std::string json_text(const Subject& subject, std::span<const Measurement> measurements);

}  // namespace minfer::bench
