// Layout of the generated tables behind unicode.h. Constant data, safe from any thread.
#pragma once

#include <cstdint>
#include <span>

namespace minfer::jinja {

/// Characters first, first + stride, ... last map to themselves plus delta.
struct CaseRange {
  uint32_t first, last, stride;
  int32_t delta;
};

/// A character whose mapping is two or three characters (zero-padded).
struct CaseExpansion {
  uint32_t code;
  uint32_t mapped[3];
};

/// Start of a run in the upper 21 bits, its CharClass bits in the lower 11; sorted.
extern const std::span<const uint32_t> kClassRanges;

extern const std::span<const CaseRange> kUpperRanges, kLowerRanges, kTitleRanges;
extern const std::span<const CaseExpansion> kUpperExpansions, kLowerExpansions, kTitleExpansions;

}  // namespace minfer::jinja
