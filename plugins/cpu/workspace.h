// Placement of a plan's own memory: what is alive at the same step does not overlap. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace minfer_cpu {

class Workspace {
 public:
  /// Asks for `bytes` during the steps [first, last]; the returned id names the block.
  uint32_t reserve(uint64_t bytes, uint32_t first, uint32_t last);
  /// Makes the block live until `last` at least.
  void extend(uint32_t id, uint32_t last);
  /// Places everything; offsets are valid from here on. Returns the bytes of the whole.
  uint64_t place();
  uint64_t offset(uint32_t id) const { return blocks_[id].offset; }

 private:
  struct Block {
    uint64_t bytes;
    uint32_t first, last;
    uint64_t offset;
  };
  std::vector<Block> blocks_;
};

}  // namespace minfer_cpu
