// How a prefill launch is cut: the tile shape, and a schedule for every count of valid token tiles.
//
// A launch is planned once, for its capacity of tokens, and serves any valid count up to it. Pure,
// host only.
#pragma once

#include <cstdint>
#include <vector>

#include "prefill_schedule.h"

namespace minfer_cuda::hopper {

/// Tokens and weight rows of a block's tile; 0: any.
struct PrefillTile {
  int32_t tokens = 0, rows = 0;
};

/// A launch's shape. One or several matrices of one type side by side.
struct PrefillShape {
  uint32_t type = 0;
  int32_t id = 0, tokens = 0;
  std::vector<int32_t> od = {};  ///< rows of each matrix
  bool gated = false;            ///< two matrices of one length: gate, up
  PrefillTile tile = {};         ///< to be taken where it fits, for comparisons
};

struct PrefillPlan {
  PrefillShape shape;
  PrefillTile tile;
  int32_t units = 0;  ///< along k
  int32_t row_tiles = 0;
  std::vector<Schedule> wide;  ///< of 1, 2, ... token tiles; the rest is not cut along k
  Schedule tail;               ///< of one token tile narrower than `tile`
  int32_t tail_slot = 0;       ///< first slot of the tail's parts
  uint64_t workspace_bytes = 0;

  /// A flag for 64 rows of each slot of the workspace.
  uint64_t flag_bytes() const {
    return tile.tokens == 0 ? 0 : workspace_bytes / (uint64_t{64} * tile.tokens);
  }
};

/// Elements of a unit along k, or 0 where the type has no kernel.
int prefill_unit_k(uint32_t type);

bool prefill_fits(uint32_t type, int64_t id, int64_t od);

/// The plan with the least estimated time when all tokens are valid. Every matrix fits.
PrefillPlan plan_prefill(const PrefillShape& shape, int sms);

}  // namespace minfer_cuda::hopper
