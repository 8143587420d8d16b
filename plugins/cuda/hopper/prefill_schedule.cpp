// Choosing how the last tiles are cut (see prefill_schedule.h).
#include "prefill_schedule.h"

#include <cmath>

namespace minfer_cuda::hopper {
namespace {

/// Of a part, in units: writing it, waiting for others', adding one of them.
constexpr double kWriteCost = 0.6, kWaitCost = 0.6, kAddCost = 0.3;

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

/// Estimated time of `slices` slices of `height` units for each of `r` tiles, or a negative number.
double sliced_cost(int r, int units, int sms, int slices, int height) {
  const int tail = units - slices * height, pool = sms - r * slices;
  double pool_cost = 0, parts = slices - 1;
  if (tail > 0) {
    if (pool <= 0) return -1;
    const int line = r * tail, used = std::min(pool, line);
    const double per_block = ceil_div(line, used);
    const double uneven = used % r == 0 || per_block <= tail ? 0 : 1;
    pool_cost = per_block + kWriteCost * std::max(1.0, std::ceil(per_block / tail) + uneven);
    parts += std::min<double>(tail, std::max(1.0, std::ceil(tail / per_block) + 0.3));
  }
  const double slice_cost = height + (slices > 1 ? kWriteCost : 0);
  return std::max(slice_cost, pool_cost) + (parts > 0 ? kWaitCost + kAddCost * parts : 0);
}

/// Slots that one cut tile needs.
int count_parts(const Schedule& s) {
  int parts = s.slices - 1;
  if (const int tail = s.tail(); tail > 0) {
    int most = 0;
    for (int t = 0; t < s.cut; ++t) {
      most = std::max(most, s.holder((t + 1) * tail - 1) - s.holder(t * tail) + 1);
    }
    parts += most;
  }
  return std::max(parts, 1);
}

}  // namespace

Schedule make_schedule(int32_t tiles, int32_t units, int32_t sms, bool wide_x, double* cost) {
  Schedule s;
  s.units = units;
  s.slice_units = units;
  s.blocks = std::min(tiles, sms);
  const int whole = tiles / sms, r = tiles % sms;
  double best = r == 0 ? 0 : units;
  for (int slices = 1; r != 0 && slices <= sms / r && slices <= units; ++slices) {
    for (int height = 1; height * slices <= units; ++height) {
      const double sliced = sliced_cost(r, units, sms, slices, height);
      if (sliced < 0 || sliced >= best) continue;
      best = sliced;
      const int line = r * (units - slices * height);
      s.cut = r;
      s.slices = slices;
      s.slice_units = height;
      s.pool = line > 0 ? std::min(sms - r * slices, line) : 0;
    }
  }
  if (r != 0 && tiles > sms) {
    double line = static_cast<double>(r + sms) * units / sms - units + kWriteCost + kWaitCost +
                  1.3 * kAddCost;
    if (wide_x) line += 0.4 * units;
    if (line < best) {
      best = line;
      s.cut = r + sms;
      s.slices = 0;
      s.slice_units = 0;
      s.pool = sms;
    }
  }
  if (cost) *cost = static_cast<double>(whole) * units + best;
  if (s.cut > 0) {
    s.blocks = sms;
    s.max_parts = count_parts(s);
  }
  return s;
}

}  // namespace minfer_cuda::hopper
