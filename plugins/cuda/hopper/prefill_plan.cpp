// The choice of tile shapes and schedules (see prefill_plan.h).
#include "prefill_plan.h"

#include <algorithm>

#include "minfer/plugin_abi.h"
#include "prefill.h"

namespace minfer_cuda::hopper {
namespace {

/// Tile shapes with the relative time of a unit of 256 along k: bounded by multiplying at 128
/// tokens and more, by activations from the L2 and dequantising below.
constexpr struct {
  PrefillTile tile;
  double cost;
} kTileShapes[] = {{{16, 128}, 0.20}, {{16, 256}, 0.34}, {{32, 128}, 0.22},  {{32, 256}, 0.36},
                   {{64, 128}, 0.30}, {{64, 256}, 0.62}, {{128, 128}, 0.54}, {{256, 128}, 1.0}};

constexpr int kNarrowTokens = 64;
/// Activations larger than this do not stay in the L2 beside the weights.
constexpr int64_t kWideBytes = 30'000'000;

int count_row_tiles(const PrefillShape& s, int rows) {
  const int per_tile = s.gated ? rows / 2 : rows;
  if (s.gated) return (s.od[0] + per_tile - 1) / per_tile;
  int tiles = 0;
  for (int32_t od : s.od) tiles += (od + per_tile - 1) / per_tile;
  return tiles;
}

/// Whether a tile shape is worth a look: the narrowest that holds few tokens, any for many.
bool suits(const PrefillTile& tile, const PrefillShape& s) {
  if (s.tile.rows != 0 && tile.rows != s.tile.rows && tile.tokens <= kNarrowTokens) return false;
  if (s.tile.tokens != 0) return tile.tokens == s.tile.tokens;
  if (s.tokens > kNarrowTokens) return tile.tokens > kNarrowTokens;
  return tile.tokens >= s.tokens && tile.tokens <= kNarrowTokens &&
         (tile.tokens == 16 || tile.tokens < 2 * s.tokens);
}

/// Fills in the schedules and the memory that their parts need.
void schedule(PrefillPlan& plan, int sms) {
  const PrefillShape& s = plan.shape;
  const bool wide_x = int64_t{s.tokens} * s.id * 2 > kWideBytes;
  const int most = (s.tokens + plan.tile.tokens - 1) / plan.tile.tokens;
  int slots = 0;
  for (int i = 1; i <= std::min(most, kWideSchedules); ++i) {
    plan.wide.push_back(make_schedule(plan.row_tiles * i, plan.units, sms, wide_x));
    slots = std::max(slots, plan.wide.back().slots());
  }
  plan.tail_slot = slots;
  if (plan.tile.tokens > kNarrowTokens) {
    plan.tail = make_schedule(plan.row_tiles, plan.units, sms, false);
    slots += plan.tail.slots();
  }
  plan.workspace_bytes = uint64_t{4} * slots * plan.tile.tokens * plan.tile.rows;
}

}  // namespace

int prefill_unit_k(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_Q4_K:
    case MINFER_TYPE_Q5_K:
    case MINFER_TYPE_Q6_K:
      return 256;
    case MINFER_TYPE_Q8_0:
    case MINFER_TYPE_Q4_0:
    case MINFER_TYPE_Q5_0:
      return 128;
    default:
      return 0;
  }
}

bool prefill_fits(uint32_t type, int64_t id, int64_t od) {
  const int unit_k = prefill_unit_k(type);
  return unit_k != 0 && id > 0 && id <= kMaxFragmentRow && od > 0 && id % unit_k == 0;
}

PrefillPlan plan_prefill(const PrefillShape& shape, int sms) {
  PrefillPlan best;
  double best_cost = 0;
  for (const auto& candidate : kTileShapes) {
    const PrefillTile& t = candidate.tile;
    if (!suits(t, shape)) continue;
    PrefillPlan plan;
    plan.shape = shape;
    plan.tile = t;
    plan.units = shape.id / prefill_unit_k(shape.type);
    plan.row_tiles = count_row_tiles(shape, t.rows);
    const int token_tiles = (shape.tokens + t.tokens - 1) / t.tokens;
    double cost = 0;
    make_schedule(plan.row_tiles * token_tiles, plan.units, sms, false, &cost);
    cost *= candidate.cost;
    if (best_cost != 0 && cost >= best_cost) continue;
    best = std::move(plan);
    best_cost = cost;
  }
  if (best.tile.tokens != 0) schedule(best, sms);
  return best;
}

}  // namespace minfer_cuda::hopper
