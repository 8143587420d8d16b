// The producers of the prefill kernel: one thread copies activations, another one weights.
//
// Copies are as large as they can be (a stage of activations, a unit of 32 rows), because each
// costs the copy engine about as much as 3 KB do. The rings' full barriers collect their bytes, the
// empty barriers the warps that are done with them.
#pragma once

#include "prefill_common.cuh"

namespace minfer_cuda::hopper {

#ifdef MINFER_SM90A

template <class T>
class ActivationProducer {
 public:
  __device__ __forceinline__ ActivationProducer(const Params& p, uint32_t base, int block)
      : p_(p), base_(base), block_(block), ring_(base + T::kBarrierAt, 1) {}

  __device__ __forceinline__ void run(const CUtensorMap* whole, const CUtensorMap* tail) {
    const Work work = Work::of<T>(p_);
    if (work.wide > 0) phase(whole, T::kTokens, work.wide_schedule(p_), work.wide, 0, T::kTokens);
    if (work.tail_tokens > 0) {
      phase(tail, T::kTailTokens, p_.tail, 1, work.wide, work.tail_tokens);
    }
  }

 private:
  /// Tiles of `tokens`, of which a copy brings `box`.
  __device__ __forceinline__ void phase(const CUtensorMap* map, int box, const Schedule& schedule,
                                        int token_tiles, int first_tile, int tokens) {
    constexpr int kUnitStages = T::kUnitSteps / T::kStageSteps;
    Walk walk(schedule, token_tiles * p_.row_tiles, block_);
    Piece piece;
    while (walk.next(piece)) {
      int row_tile, token_tile;
      split_tile(p_.row_tiles, token_tiles, piece.tile, row_tile, token_tile);
      const int first = (first_tile + token_tile) * T::kTokens;
      int step = piece.begin * T::kUnitSteps;
      for (int n = (piece.end - piece.begin) * kUnitStages; n > 0; --n) {
        const uint32_t to = base_ + ring_.at * T::kStageBytes;
        barrier_wait(ring_.empty(), ring_.parity);
        barrier_expect(ring_.full(), tokens * 128 * T::kStageSteps);
        for (int i = 0; i < tokens; i += box) {
          tensor_copy_3d(to + i * 128, map, ring_.full(), 0, first + i, step);
        }
        step += T::kStageSteps;
        ring_.advance();
      }
    }
  }

  const Params& p_;
  uint32_t base_;
  int block_;
  StageRing<T> ring_;
};

template <class T, bool Gated>
class WeightProducer {
 public:
  __device__ __forceinline__ WeightProducer(const Params& p, uint32_t base, int block)
      : p_(p), base_(base), block_(block), ring_(unit_barriers<T>(base), 1) {}

  __device__ __forceinline__ void run() {
    const Work work = Work::of<T>(p_);
    if (work.wide > 0) phase(work.wide_schedule(p_), work.wide);
    if (work.tail_tokens > 0) phase(p_.tail, 1);
  }

 private:
  __device__ __forceinline__ void phase(const Schedule& schedule, int token_tiles) {
    constexpr int kGroups = 2 * T::kRowGroups;  // of 32 rows
    constexpr uint32_t kBytes = T::Weight::kUnitBytes;
    const size_t row_bytes = static_cast<size_t>(schedule.units) * kBytes;
    Walk walk(schedule, token_tiles * p_.row_tiles, block_);
    Piece piece;
    while (walk.next(piece)) {
      int row_tile, token_tile;
      split_tile(p_.row_tiles, token_tiles, piece.tile, row_tile, token_tile);
      const uint8_t* from[kGroups];
      if constexpr (Gated) {
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          from[i] = group_at(p_.segments[i & 1], row_tile * T::kRowGroups + i / 2, row_bytes);
        }
      } else {
        const Segment& s = find_segment(p_, row_tile);
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          from[i] = group_at(s, row_tile * kGroups + i, row_bytes);
        }
      }
      for (int unit = piece.begin; unit < piece.end; ++unit) {
        uint32_t to = base_ + T::kUnitAt + ring_.at * T::kUnitBytes;
        barrier_wait(ring_.empty(), ring_.parity);
        barrier_expect(ring_.full(), T::kUnitBytes);
#pragma unroll
        for (int i = 0; i < kGroups; ++i, to += kBytes) {
          bulk_copy(to, from[i] + static_cast<size_t>(unit) * kBytes, kBytes, ring_.full());
        }
        ring_.advance();
      }
    }
  }

  const Params& p_;
  uint32_t base_;
  int block_;
  UnitRing<T> ring_;
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
