// Placing the workspace: items whose lives overlap must not overlap in memory.
//
// Greedy by size: the largest item takes the lowest place that is free of every placed item it
// lives beside. Deterministic, so equal splits need equal workspaces.
#include <algorithm>
#include <numeric>

#include "plan.h"

namespace minfer_cuda {

uint64_t place_items(std::vector<WorkItem>& items) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return items[a].bytes > items[b].bytes; });
  std::vector<uint32_t> placed;
  uint64_t total = 0;
  for (uint32_t i : order) {
    WorkItem& item = items[i];
    if (item.first == kNone || item.bytes == 0) continue;
    std::vector<std::pair<uint64_t, uint64_t>> taken;
    for (uint32_t p : placed) {
      const WorkItem& other = items[p];
      if (other.last < item.first || item.last < other.first) continue;
      taken.emplace_back(other.offset, other.offset + other.bytes);
    }
    std::sort(taken.begin(), taken.end());
    uint64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= at + item.bytes) break;
      at = std::max(at, (end + kWorkspaceAlign - 1) / kWorkspaceAlign * kWorkspaceAlign);
    }
    item.offset = at;
    total = std::max(total, at + item.bytes);
    placed.push_back(i);
  }
  return total;
}

}  // namespace minfer_cuda
