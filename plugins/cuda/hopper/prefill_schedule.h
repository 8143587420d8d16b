// Which tiles, and which pieces of tiles along k, each block of a prefill launch computes.
//
// Whole tiles are dealt out in rounds. The tiles that would fill the last round only partly are cut
// along k: each gets `slices` blocks of `slice_units` units in step, and the rest of its k is
// spread over a pool of the blocks left; or (slices == 0) all their units form one line cut evenly
// among the blocks. A block that does not finish a tile leaves its part in a slot; the block that
// holds the tile's beginning adds the parts in order. Host and device use the same arithmetic.
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef __CUDACC__
#define MINFER_BOTH __host__ __device__ __forceinline__
#else
#define MINFER_BOTH inline
#endif

namespace minfer_cuda::hopper {

/// Most counts of token tiles that have a schedule of their own.
inline constexpr int kWideSchedules = 64;

struct Schedule {
  int32_t units = 0;  ///< along k, of a tile
  int32_t blocks = 0;
  int32_t cut = 0;  ///< tiles cut along k: 0 .. cut - 1
  int32_t slices = 1;
  int32_t slice_units = 0;
  int32_t pool = 0;       ///< blocks that share the cut tiles' tails
  int32_t max_parts = 1;  ///< slots of a cut tile

  /// Slots of all cut tiles.
  MINFER_BOTH int32_t slots() const { return cut * max_parts; }

  MINFER_BOTH int32_t tail() const { return units - slices * slice_units; }
  MINFER_BOTH int32_t tail_units() const { return cut * tail(); }
  /// Pool block that holds unit u of the tails' line.
  MINFER_BOTH int32_t holder(int32_t u) const {
    return static_cast<int32_t>((static_cast<int64_t>(u + 1) * pool - 1) / tail_units());
  }
};

/// Units [begin, end) of a tile. slot < 0: the block finishes the tile, adding `parts` slots.
struct Piece {
  int32_t tile, begin, end, slot, parts;
};

/// The pieces of block c in order. Parts come before whole tiles, so that nobody waits long; and a
/// tile's finisher has a lower c than the makers of its parts.
class Walk {
 public:
  MINFER_BOTH Walk(const Schedule& s, int32_t tiles, int32_t c)
      : s_(s), tiles_(tiles), c_(c), tile_(s.cut + c) {
    if (s.cut == 0) return;
    const int32_t in_step = s.cut * s.slices;
    if (c < in_step) {
      stage_ = Stage::kSlice;
    } else if (c - in_step < s.pool) {
      const int32_t p = c - in_step;
      unit_ = p * s.tail_units() / s.pool;
      end_unit_ = (p + 1) * s.tail_units() / s.pool;
    }
  }

  MINFER_BOTH bool next(Piece& piece) {
    if (stage_ == Stage::kSlice) {
      stage_ = Stage::kRest;
      slice(piece);
      return true;
    }
    if (unit_ < end_unit_) {
      tail_piece(piece);
      return true;
    }
    if (tile_ >= tiles_) return false;
    piece = {tile_, 0, s_.units, -1, 0};
    tile_ += s_.blocks;
    return true;
  }

 private:
  enum class Stage : uint8_t { kSlice, kRest };

  MINFER_BOTH void slice(Piece& piece) const {
    const int32_t i = c_ / s_.cut, tail = s_.tail();
    piece.tile = c_ - i * s_.cut;
    piece.begin = i * s_.slice_units;
    piece.end = piece.begin + s_.slice_units;
    piece.slot = i ? piece.tile * s_.max_parts + i - 1 : -1;
    piece.parts = s_.slices - 1;
    if (tail > 0) {
      piece.parts += s_.holder((piece.tile + 1) * tail - 1) - s_.holder(piece.tile * tail) + 1;
    }
  }

  MINFER_BOTH void tail_piece(Piece& piece) {
    const int32_t tail = s_.tail(), fixed = s_.slices * s_.slice_units;
    piece.tile = unit_ / tail;
    const int32_t at = unit_ - piece.tile * tail;
    piece.begin = fixed + at;
    const int32_t end = piece.begin + end_unit_ - unit_;
    piece.end = end < s_.units ? end : s_.units;
    unit_ += piece.end - piece.begin;
    const int32_t first = s_.holder(piece.tile * tail);
    const int32_t i = c_ - s_.cut * s_.slices - first;
    piece.slot = piece.tile * s_.max_parts + s_.slices - 1 + i;
    piece.parts = 0;
    if (s_.slices == 0 && i == 0) {
      piece.slot = -1;
      piece.parts = s_.holder((piece.tile + 1) * tail - 1) - first;
    }
  }

  const Schedule& s_;
  int32_t tiles_, c_, tile_;
  int32_t unit_ = 0, end_unit_ = 0;
  Stage stage_ = Stage::kRest;
};

/// The cheapest schedule by a small cost model: a unit of a tile costs 1, writing a part and adding
/// one a fraction. `wide_x`: activations too large to be shared through the L2 by unlike pieces.
/// `cost`, if given, gets the estimate.
Schedule make_schedule(int32_t tiles, int32_t units, int32_t sms, bool wide_x,
                       double* cost = nullptr);

}  // namespace minfer_cuda::hopper
