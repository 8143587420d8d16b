// What the parts of the prefill kernel share: its parameters, the plan of its shared memory, and
// which rows and tokens a tile has.
//
// 64-row warpgroups are the unit of everything. A block's tile has `Tile::kRows` rows by up to
// `Tile::kTokens` tokens; where it has fewer rows than the consumer warpgroups could cover, several
// warpgroups take turns along k on the same rows (`kTurns`).
#pragma once

#include "../kernels/gate_fn.cuh"
#include "prefill.h"
#include "prefill_schedule.h"
#include "prefill_weights.cuh"

namespace minfer_cuda::hopper {

inline constexpr int kTokenTileGroup = 4;  ///< token tiles that share a weight tile, for the L2
inline constexpr int kWarpgroup = 128;

struct Segment {
  const uint8_t* weight;
  const float* bias;
  const float* residual;
  float* out;
  int64_t residual_stride, out_stride;
  int32_t od;
  int32_t first_tile;  ///< of row tiles
};

/// Tokens are computed in two phases: whole tiles of them first, then what is left by narrower
/// tiles. Both follow the valid count, which is read on the device.
struct Params {
  Segment segments[kMaxPrefillSegments];
  Schedule wide[kWideSchedules];  ///< of i + 1 token tiles
  Schedule uncut;                 ///< of more than that
  Schedule tail;                  ///< of one token tile
  int32_t tail_slot;              ///< first slot of the tail's parts
  int32_t n_segments;
  int32_t row_tiles, tokens, id;
  const float* x_scale;
  float x_factor;
  const float* x_squares;
  float eps;
  float* out_squares;
  const float* out_weight;
  float out_weight_offset;
  GateFn gate_fn;
  __half* half_out;
  const int32_t* valid;
  float* workspace;
  uint32_t* flags;
  uint32_t overlap;
  Patterns patterns;
};

/// Shape of a kernel variant. Turns: how many warpgroups share 64 rows, a unit of k each in turn.
template <uint32_t Type, int Tokens, int Rows, int Turns>
struct Tile {
  using Weight = WeightShape<Type>;
  static constexpr uint32_t kType = Type;
  static constexpr int kTokens = Tokens, kRows = Rows, kTurns = Turns;
  static constexpr bool kNarrow = Tokens <= 64;  ///< one token tile holds the launch
  static constexpr int kRowGroups = Rows / 64;   ///< warpgroups with different rows
  static constexpr int kConsumers = kRowGroups * Turns;
  static constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
  static constexpr int kTailTokens = 64;  ///< steps of a wide tile's narrower ones
  // The register file over the threads, in steps of 8: few for producers, the rest for consumers.
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static constexpr int kProducerRegisters = kConsumers == 2 ? 40 : 56;
  static constexpr int kConsumerRegisters =
      (kLaunchRegisters * (1 + kConsumers) - kProducerRegisters) / kConsumers / 8 * 8;

  // Weights go round a ring of units along k; activations a ring of stages, of a unit where that
  // is small, else of a step of 64 elements.
  static constexpr int kUnitSteps = static_cast<int>(Weight::kUnitSteps);
  static constexpr int kStageSteps = kNarrow ? kUnitSteps : 1;
  static constexpr int kStages = Tokens == 256 ? 5 : Tokens == 128 ? 8 : kUnitSteps == 4 ? 3 : 5;
  static constexpr uint32_t kStepBytes = Tokens * 128, kStageBytes = kStepBytes * kStageSteps;
  static constexpr uint32_t kUnitBytes = Weight::kUnitBytes * 2 * kRowGroups;

  // Places in dynamic shared memory, from a 1024-byte boundary.
  static constexpr uint32_t kExchangeAt = kStages * kStageBytes;
  static constexpr uint32_t kExchangeBytes = (Turns - 1) * kRowGroups * Tokens / 8 * 128 * 16;
  // Narrow: the tokens' scales; sums of squares, a row of tokens per consumer warp or more.
  static constexpr uint32_t kScaleAt = kExchangeAt + kExchangeBytes;
  static constexpr uint32_t kSquaresAt = kScaleAt + (kNarrow ? Tokens * 4 : 0);
  static constexpr int kSquareRows = kConsumers * kWarpgroup / Tokens;
  static constexpr uint32_t kSquaresBytes =
      kNarrow ? (kSquareRows > 4 * kConsumers ? kSquareRows : 4 * kConsumers) * Tokens * 4 : 0;
  static constexpr uint32_t kBarrierAt = kSquaresAt + kSquaresBytes;
  static constexpr int kMostUnits = 6;
  static constexpr uint32_t kUnitAt = (kBarrierAt + (kStages + kMostUnits) * 16 + 127) / 128 * 128;
  static constexpr int kUnitsThatFit = (227 * 1024 - 1024 - kUnitAt) / kUnitBytes;
  static constexpr int kUnits = kUnitsThatFit < kMostUnits ? kUnitsThatFit : kMostUnits;
  static constexpr uint32_t kTotal = kUnitAt + kUnits * kUnitBytes + 1024;
  static_assert(kUnits >= 2);
};

#ifdef MINFER_SM90A

/// A position in a ring, with the parity of its barriers: `full`, and behind all of those, `empty`.
template <int Slots>
struct BarrierRing {
  uint32_t barriers;  ///< in shared memory
  uint32_t parity;    ///< that waits look for: 0 for consumers, 1 for producers
  int at = 0;
  __device__ __forceinline__ BarrierRing(uint32_t first_barrier, uint32_t first_parity)
      : barriers(first_barrier), parity(first_parity) {}
  __device__ __forceinline__ uint32_t full() const { return barriers + 8 * at; }
  __device__ __forceinline__ uint32_t empty() const { return barriers + 8 * (Slots + at); }
  __device__ __forceinline__ void advance(int n = 1) {
    at += n;
    if (at >= Slots) at -= Slots, parity ^= 1;
  }
};
template <class T>
using StageRing = BarrierRing<T::kStages>;
template <class T>
using UnitRing = BarrierRing<T::kUnits>;
template <class T>
__device__ __forceinline__ uint32_t unit_barriers(uint32_t base) {
  return base + T::kBarrierAt + T::kStages * 16;
}

/// The work of a launch given the valid count: whole token tiles, then a narrower one.
struct Work {
  int wide;         ///< whole tiles along tokens
  int tail_tokens;  ///< of the last tile, a multiple of kTailTokens; 0: none

  template <class T>
  static __device__ __forceinline__ Work of(const Params& p) {
    if constexpr (T::kNarrow) return {1, 0};
    const int valid = valid_of(p.valid, p.tokens);
    Work w{valid / T::kTokens, valid % T::kTokens};
    w.tail_tokens = (w.tail_tokens + T::kTailTokens - 1) / T::kTailTokens * T::kTailTokens;
    if (w.tail_tokens == T::kTokens) ++w.wide, w.tail_tokens = 0;
    return w;
  }
  __device__ __forceinline__ const Schedule& wide_schedule(const Params& p) const {
    return wide > kWideSchedules ? p.uncut : p.wide[max(wide, 1) - 1];
  }
};

/// Row and token tile of a tile: token tiles in groups, so that a weight tile is read once per
/// group.
__device__ __forceinline__ void split_tile(int row_tiles, int token_tiles, int tile, int& row_tile,
                                           int& token_tile) {
  const int per_group = kTokenTileGroup * row_tiles, group = tile / per_group;
  const int rest = tile - group * per_group;
  const int width = min(kTokenTileGroup, token_tiles - group * kTokenTileGroup);
  row_tile = rest / width;
  token_tile = group * kTokenTileGroup + rest - row_tile * width;
}

__device__ __forceinline__ const Segment& find_segment(const Params& p, int& row_tile) {
  int s = 0;
  while (s + 1 < p.n_segments && row_tile >= p.segments[s + 1].first_tile) ++s;
  row_tile -= p.segments[s].first_tile;
  return p.segments[s];
}

/// Start of a row group; groups past the end are read as the last one, their results are not
/// written.
__device__ __forceinline__ const uint8_t* group_at(const Segment& s, int group, size_t row_bytes) {
  const int last = (s.od + 31) / 32 - 1;
  return s.weight + static_cast<size_t>(min(group, last)) * row_bytes;
}

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
