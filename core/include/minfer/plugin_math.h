/*
 * Formulas of docs/operators.md that are easily got wrong, for authors of plugins (C11, also valid
 * C++; header-only and optional). Stateless, hence thread-safe.
 */
#ifndef MINFER_PLUGIN_MATH_H
#define MINFER_PLUGIN_MATH_H

#include <math.h>

#include "minfer/plugin_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Angle in radians by which ROPE turns a pair at a position, scaling and YaRN's blend included.
 * `factor`: the pair's frequency factor, 1 where there is none. Su et al. 2021; Peng et al. 2023.
 */
static inline double minfer_rope_angle(const minfer_rope_params* p, int64_t pair, double pos,
                                       double factor) {
  const double kTwoPi = 6.283185307179586;
  const double theta = pos * pow(p->freq_base, -2.0 * (double)pair / p->n_rot) / factor;
  if (p->ext_factor == 0.0f) return theta * p->freq_scale;
  /* Dimensions that turn beta_fast and beta_slow times within the original context. */
  const double per_turn = 2.0 * log(p->freq_base);
  const double most = p->n_rot - 1.0;
  const double low = floor(p->n_rot * log(p->n_ctx_orig / (p->beta_fast * kTwoPi)) / per_turn);
  const double high = ceil(p->n_rot * log(p->n_ctx_orig / (p->beta_slow * kTwoPi)) / per_turn);
  const double first = fmin(fmax(low, 0.0), most), last = fmin(fmax(high, 0.0), most);
  const double ramp = fmin(fmax(((double)pair - first) / fmax(0.001, last - first), 0.0), 1.0);
  const double mix = (1.0 - ramp) * p->ext_factor;
  return theta * p->freq_scale * (1.0 - mix) + theta * mix;
}

/* What ROPE multiplies sin and cos by. */
static inline double minfer_rope_magnitude(const minfer_rope_params* p) {
  return p->attn_factor * (p->ext_factor != 0.0f ? 1.0 + 0.1 * log(1.0 / p->freq_scale) : 1.0);
}

#ifdef __cplusplus
}
#endif

#endif /* MINFER_PLUGIN_MATH_H */
