// Rotation angles (see rope_table.h), in long double so that the fixed-point fraction is exact to
// its last few bits.
#include "rope_table.h"

#include <algorithm>
#include <cmath>

namespace minfer_cuda {
namespace {

constexpr long double kPi = 3.14159265358979323846264338327950288L;

/// The pair whose wavelength fits `rotations` times into the original context (YaRN).
long double yarn_dim(const minfer_rope_params& p, long double rotations) {
  return p.n_rot * std::log(p.n_ctx_orig / (2 * kPi * rotations)) /
         (2 * std::log(static_cast<long double>(p.freq_base)));
}

/// Factor on the angle of pair i.
long double blend(const minfer_rope_params& p, uint32_t i) {
  const long double interpolated = p.freq_scale;
  if (p.ext_factor == 0.f) return interpolated;
  const long double limit = p.n_rot - 1.0L;
  const long double low = std::clamp(std::floor(yarn_dim(p, p.beta_fast)), 0.0L, limit);
  const long double high = std::clamp(std::ceil(yarn_dim(p, p.beta_slow)), 0.0L, limit);
  const long double ramp = std::clamp((i - low) / std::max(0.001L, high - low), 0.0L, 1.0L);
  const long double mix = (1 - ramp) * p.ext_factor;
  return interpolated * (1 - mix) + mix;
}

}  // namespace

std::vector<uint64_t> rope_turns(const minfer_rope_params& p) {
  std::vector<uint64_t> turns(p.n_rot / 2);
  for (uint32_t i = 0; i < turns.size(); ++i) {
    const long double angle =
        std::pow(static_cast<long double>(p.freq_base), -2.0L * i / p.n_rot) * blend(p, i);
    const long double turn = angle / (2 * kPi);
    turns[i] = static_cast<uint64_t>((turn - std::floor(turn)) * 0x1p64L);
  }
  return turns;
}

float rope_amplitude(const minfer_rope_params& p) {
  if (p.ext_factor == 0.f) return p.attn_factor;
  return p.attn_factor * (1.f + 0.1f * std::log(1.f / p.freq_scale));
}

}  // namespace minfer_cuda
