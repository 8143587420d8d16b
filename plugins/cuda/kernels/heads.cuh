// What is done to one head between the projections and attention: RMS norm and rotation, in shared
// memory, by one warp (kv.h names the operands).
#pragma once

#include "kv.h"

namespace minfer_cuda {

/// sin and cos of pair p at a position, times the amplitude.
__device__ __forceinline__ float2 rotation(const Rope& rope, int p, int position) {
  uint64_t turn = rope.turns[p];
  if (rope.factors) {
    const double turns = static_cast<double>(turn) * 0x1p-64 / static_cast<double>(rope.factors[p]);
    turn = static_cast<uint64_t>((turns - floor(turns)) * 0x1p64);
  }
  // Wraps modulo one turn; the signed value is the nearest equivalent angle.
  const int64_t wrapped = static_cast<int64_t>(turn * static_cast<uint64_t>(position));
  const float half_turns = static_cast<float>(wrapped) * 0x1p-63f;
  float s, c;
  sincospif(half_turns, &s, &c);
  return make_float2(s * rope.amplitude, c * rope.amplitude);
}

/// Rotates pair p of the head in `v` by an angle's sin and cos.
__device__ __forceinline__ void rotate_pair(const Rope& rope, float* v, int p, float2 sc) {
  const int i = rope.interleaved ? 2 * p : p;
  const int j = rope.interleaved ? 2 * p + 1 : p + rope.n_rot / 2;
  const float a = v[i], b = v[j];
  v[i] = a * sc.y - b * sc.x;
  v[j] = a * sc.x + b * sc.y;
}

/// RMS norm of the head in `v`, in place.
__device__ __forceinline__ void norm_head(const HeadRows& r, float* v, int lane) {
  float sum = 0.f;
  for (int i = lane; i < r.dim; i += 32) sum = fmaf(v[i], v[i], sum);
  const float factor = rsqrtf(warp_sum(sum) / static_cast<float>(r.dim) + r.norm_eps);
  for (int i = lane; i < r.dim; i += 32) {
    v[i] *= r.norm ? factor * (r.norm[i] + r.norm_offset) : factor;
  }
  __syncwarp();
}

/// Loads a head of a token into `v`, or zeros.
__device__ __forceinline__ void load_head(const HeadRows& r, int head, int token, bool padding,
                                          float* v, int lane) {
  const auto* x = reinterpret_cast<const float*>(r.x + head * r.nb_head + token * r.nb_token);
  for (int i = lane; i < r.dim; i += 32) v[i] = padding ? 0.f : x[i];
  __syncwarp();
}

}  // namespace minfer_cuda
