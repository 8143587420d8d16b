// The scalar part of turning 32 activations into an ActBlock, shared by the instruction levels.
// Always inlined and in an anonymous namespace (see unroll.h).
#pragma once

#include "kernels/panel.h"
#include "kernels/unroll.h"

namespace minfer_cpu {
namespace {

struct ActScale {
  float scale;
  float inverse;
};

/// The scale of a block whose largest magnitude is `largest`. A block with a NaN gets a NaN scale
/// and one with an infinity an infinite one, both with zero values, so that every output they touch
/// is NaN; a block too small for a normal reciprocal is zero.
MINFER_INLINE ActScale act_scale(float largest, bool has_nan) {
  if (has_nan) return {__builtin_nanf(""), 0.0f};
  float scale = largest / 127.0f;
  uint32_t bits;
  __builtin_memcpy(&bits, &scale, 4);
  bits &= kScaleMask;
  __builtin_memcpy(&scale, &bits, 4);
  if (scale < 1e-36f) return {0.0f, 0.0f};
  return {scale, scale < 1e31f ? 1.0f / scale : 0.0f};
}

/// Everything but the values, whose sums over columns 0..15 and 16..31 are given.
MINFER_INLINE void fill_act_block(float scale, int32_t sum_low, int32_t sum_high, ActBlock* out) {
  out->scale = scale;
  out->minus_magic = -kMagic * scale;
  out->start = kMagicBits - 128 * (sum_low + sum_high);
  out->start_half[0] = kMagicBits - 128 * sum_low;
  out->start_half[1] = kMagicBits - 128 * sum_high;
  out->sum = scale * static_cast<float>(sum_low + sum_high);
  out->sum_half[0] = scale * static_cast<float>(sum_low);
  out->sum_half[1] = scale * static_cast<float>(sum_high);
}

}  // namespace
}  // namespace minfer_cpu
