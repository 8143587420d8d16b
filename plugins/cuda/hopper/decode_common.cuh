// What the decode kernels of one and of several tokens share: parameters, the line of steps and its
// cut among blocks and warps, and the work on finished results (see decode.h, decode.cu).
#pragma once

#include "../kernels/gate_fn.cuh"
#include "decode.h"
#include "decode_dot.cuh"

namespace minfer_cuda::hopper {

inline constexpr int kWarps = 14;  // of one token's kernel
/// Most warps of the others, by tokens of 8: what their registers allow.
constexpr int max_batch_warps(int tiles) {
  return tiles == 1 ? 14 : 12;
}
inline constexpr int kMaxSlots = 4;
inline constexpr uint32_t kMiscBytes = 704;  // barriers, then the warps' sums of squares
inline constexpr uint32_t kSharedLimit = kSharedBytes;

struct Segment {
  const uint8_t* weight;
  const float* bias;
  const float* residual;
  float* out;
  int64_t residual_stride, out_stride;
  int32_t od;
  uint32_t first_group;
};

struct Params {
  Segment segments[kMaxDecodeSegments];
  uint32_t n_segments;
  uint32_t publisher;  ///< the segment whose result is quantised
  uint32_t id;
  uint32_t tokens;
  uint32_t steps;        ///< of a group
  uint32_t groups;       ///< of all segments
  uint32_t split_group;  ///< first group of the second type
  uint32_t unit_groups;  ///< 1, or 2 where gated
  uint32_t ring_bytes;   ///< of a warp
  uint32_t max_parts;    ///< one token: groups that a warp can touch
  uint32_t act_slots;    ///< several tokens: steps of activations that a warp holds, 1 or 2
  const int8_t* quants;
  const ActMeta* meta;
  const float* squares;
  float eps;
  GateFn gate_fn;
  int8_t* out_quants;
  ActMeta* out_meta;
  const float* out_scale;
  float out_scale_offset;
  float* out_squares;
  const int32_t* valid;
  uint32_t overlap;
};

#ifdef MINFER_SM90A

/// Steps of all groups in a line; the second type's steps follow the first's. Costs are bytes / 16.
template <uint32_t First, uint32_t Second>
struct Line {
  static constexpr uint32_t kFirst = kStepBytes<First> / 16, kSecond = kStepBytes<Second> / 16;
  uint32_t split;  ///< first step of the second type

  __device__ __forceinline__ uint32_t cost(uint32_t step) const {
    return step < split ? step * kFirst : split * kFirst + (step - split) * kSecond;
  }
  __device__ __forceinline__ uint32_t step_at(uint32_t cost) const {
    const uint32_t at = split * kFirst;
    return cost < at ? cost / kFirst : split + (cost - at) / kSecond;
  }
  /// First step of share i of n of the steps [begin, end).
  __device__ __forceinline__ uint32_t share(uint32_t begin, uint32_t end, uint32_t i,
                                            uint32_t n) const {
    const uint32_t from = cost(begin);
    return step_at(from + (cost(end) - from) * i / n);
  }
};

/// Where a group of the line lies.
struct Place {
  const Segment* segment;
  uint32_t group;
};
__device__ __forceinline__ Place locate(const Params& p, uint32_t group) {
  if (p.unit_groups == 2) return {&p.segments[group & 1], group >> 1};
  uint32_t s = 0;
  while (s + 1 < p.n_segments && group >= p.segments[s + 1].first_group) ++s;
  return {&p.segments[s], group - p.segments[s].first_group};
}

/// Walks the steps of a warp for the copies.
template <uint32_t First, uint32_t Second>
struct Cursor {
  const uint8_t* at;
  uint32_t step, k, bytes;

  __device__ __forceinline__ void seek(const Params& p, const Line<First, Second>& line,
                                       uint32_t to) {
    const uint32_t group = to / p.steps;
    step = to;
    k = to - group * p.steps;
    bytes = to < line.split ? kStepBytes<First> : kStepBytes<Second>;
    const Place place = locate(p, group);
    at = place.segment->weight + (size_t{place.group} * p.steps + k) * bytes;
  }
  __device__ __forceinline__ void advance(const Params& p, const Line<First, Second>& line) {
    ++step;
    if (++k < p.steps) {
      at += bytes;
    } else if (step < p.groups * p.steps) {
      seek(p, line, step);
    }
  }
};

/// Lane r holds value r of a block of 32: int8, scale, sums and the sum of squares; `scale` is what
/// the next norm multiplies it by.
__device__ __forceinline__ void publish(const Params& p, uint32_t block, float v, float scale,
                                        int lane, uint32_t token) {
  const uint32_t blocks = static_cast<uint32_t>(p.segments[p.publisher].od) / 32;
  const uint32_t at = token * blocks + block;
  if (p.out_squares) {
    const float squares = warp_sum(v * v);
    if (lane == 0) p.out_squares[at] = squares;
  }
  v *= scale;
  const float largest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(fabsf(v))));
  const float inverse = largest > 0.f ? __fdividef(127.f, largest) : 0.f;
  const int q = min(max(__float2int_rn(v * inverse), -127), 127);
  uint32_t word = static_cast<uint32_t>(q & 255) << (8 * (lane & 3));
  word |= __shfl_xor_sync(~0u, word, 1);
  word |= __shfl_xor_sync(~0u, word, 2);
  if ((lane & 3) == 0)
    reinterpret_cast<uint32_t*>(p.out_quants + size_t{at} * 32)[lane >> 2] = word;
  const int lo = __reduce_add_sync(~0u, lane < 16 ? q : 0), all = __reduce_add_sync(~0u, q);
  if (lane == 0) {
    p.out_meta[at] = {largest * (1.f / 127.f), static_cast<int16_t>(lo),
                      static_cast<int16_t>(all - lo)};
  }
}

/// Writes a finished value of a row, and gives back what it was.
__device__ __forceinline__ float put(const Segment& s, uint32_t row, float v, float residual,
                                     bool padding, uint32_t token) {
  const bool real = row < static_cast<uint32_t>(s.od) && !padding;
  v = real ? v + residual : 0.f;
  if (s.out && row < static_cast<uint32_t>(s.od)) s.out[token * s.out_stride + row] = v;
  return v;
}

__device__ __forceinline__ float bias_of(const Segment& s, uint32_t row) {
  return s.bias && row < static_cast<uint32_t>(s.od) ? s.bias[row] : 0.f;
}

/// What finishing a unit needs beside its sums. Small matrices take no longer than one load, so
/// these are asked for before the sums are made.
struct Tail {
  float bias = 0.f, up_bias = 0.f, scale = 1.f, residual = 0.f;
};

/// The part that no kernel of the step writes.
__device__ __forceinline__ Tail constant_tail(const Params& p, uint32_t unit, int lane) {
  const Place place = locate(p, unit * p.unit_groups);
  const uint32_t row = place.group * 32 + lane;
  Tail tail;
  tail.bias = bias_of(*place.segment, row);
  if (p.unit_groups == 2) tail.up_bias = bias_of(p.segments[1], row);
  if (p.out_scale && place.segment == &p.segments[p.publisher]) {
    tail.scale = p.out_scale[row] + p.out_scale_offset;
  }
  return tail;
}

__device__ __forceinline__ float residual_of(const Params& p, uint32_t unit, int lane,
                                             uint32_t token) {
  const Place place = locate(p, unit * p.unit_groups);
  const Segment& s = *place.segment;
  const uint32_t row = place.group * 32 + lane;
  if (!s.residual || row >= static_cast<uint32_t>(s.od)) return 0.f;
  return __ldcg(s.residual + token * s.residual_stride + row);
}

/// Finishes a unit for one token from its sums `v` and, where gated, `up`: norm factor, bias, gate,
/// residual, stores. Lane = row.
__device__ __forceinline__ void finish(const Params& p, uint32_t unit, float v, float up,
                                       const Tail& tail, int lane, uint32_t token, float factor,
                                       bool padding) {
  const Place place = locate(p, unit * p.unit_groups);
  const uint32_t row = place.group * 32 + lane;
  v = v * factor + tail.bias;
  if (p.unit_groups == 2) v = gate_value(p.gate_fn, v) * (up * factor + tail.up_bias);
  v = put(*place.segment, row, v, tail.residual, padding, token);
  if (p.out_quants && place.segment == &p.segments[p.publisher]) {
    publish(p, place.group, v, tail.scale, lane, token);
  }
}

#endif  // MINFER_SM90A

using DecodeKernel = void (*)(Params);
/// Types that may share a launch.
struct DecodePair {
  uint32_t first, second;
  DecodeKernel kernel;
};
/// The kernel of 2 to kMaxDecodeTokens tokens whose pair holds all types; its kernel is null where
/// there is none.
DecodePair find_batch_pair(const uint32_t* types, int n, int64_t tokens);

/// How a launch divides a block; warps is 0 where nothing fits.
struct BlockShape {
  uint32_t warps = 0, act_slots = 0;
  uint32_t ring_bytes = 0;    ///< of a warp
  uint32_t shared_bytes = 0;  ///< of the block
};
/// `steps` of a group; `second`: matrices of the pair's second type take part; `most_warps`: 0 for
/// as many as are best.
BlockShape batch_shape(const DecodePair& pair, uint32_t steps, int64_t tokens, bool second,
                       uint32_t most_warps);

}  // namespace minfer_cuda::hopper
