// Throughput as a picture: SVG, for a browser or a document.
#pragma once

#include <span>
#include <string>

#include "bench.h"

namespace minfer::bench {

/// Lines of median tokens/s with whiskers from the slowest to the fastest repetition, against the
/// batch, depth, prompt or generation length: the first of these that differs between tests. Tests
/// that differ otherwise, models and devices are lines of their own.
std::string plot_svg(std::span<const Record> records);

}  // namespace minfer::bench
