// Ranges of the sampling parameters: one place for the sampler, the config and the flags.
#pragma once

#include <cmath>
#include <cstdint>

namespace minfer {

template <class T>
struct Range {
  T low;
  T high;
  /// False for NaN.
  constexpr bool contains(T value) const { return value >= low && value <= high; }
};

inline constexpr Range<float> kTemperatureRange{0.0f, 100.0f};
inline constexpr Range<int32_t> kTopKRange{0, 1'000'000};
inline constexpr Range<float> kFractionRange{0.0f, 1.0f};  // top_p, min_p, typical_p
inline constexpr Range<float> kRepeatPenaltyRange{0.01f, 100.0f};
inline constexpr Range<int32_t> kRepeatLastRange{-1, 1'000'000};
inline constexpr Range<float> kCountPenaltyRange{-100.0f, 100.0f};  // presence, frequency
inline constexpr Range<float> kLogitBiasRange{-1000.0f, 1000.0f};   // besides -infinity

/// A finite bias in its range, or -infinity, which forbids the token.
inline bool is_logit_bias(float bias) {
  return kLogitBiasRange.contains(bias) || (std::isinf(bias) && bias < 0);
}
inline constexpr size_t kMaxLogitBiases = 65536;

}  // namespace minfer
