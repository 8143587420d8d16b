// Greedy placement: large blocks first, each at the lowest offset where it fits.
#include "workspace.h"

#include <algorithm>
#include <numeric>

#include "memory.h"

namespace minfer_cpu {

uint32_t Workspace::reserve(uint64_t bytes, uint32_t first, uint32_t last) {
  blocks_.push_back({align_up(bytes), first, last, 0});
  return static_cast<uint32_t>(blocks_.size() - 1);
}

void Workspace::extend(uint32_t id, uint32_t last) {
  blocks_[id].last = std::max(blocks_[id].last, last);
}

uint64_t Workspace::place() {
  std::vector<uint32_t> by_size(blocks_.size());
  std::iota(by_size.begin(), by_size.end(), 0u);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](uint32_t a, uint32_t b) { return blocks_[a].bytes > blocks_[b].bytes; });
  std::vector<const Block*> placed;  // by offset
  uint64_t total = 0;
  for (uint32_t id : by_size) {
    Block& block = blocks_[id];
    uint64_t offset = 0;
    for (const Block* other : placed) {
      if (other->last < block.first || block.last < other->first) continue;
      if (offset + block.bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block.offset = offset;
    total = std::max(total, offset + block.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &block,
                         [](const Block* a, const Block* b) { return a->offset < b->offset; }),
        &block);
  }
  return total;
}

}  // namespace minfer_cpu
