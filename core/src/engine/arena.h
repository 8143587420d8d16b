// The arena: where escaping tensors live on each device during a step.
//
// A tensor occupies its place from the split that writes (or receives) it to the last split that
// reads it; tensors whose lives do not meet share memory. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/splitter.h"

namespace minfer {

/// One tensor that wants memory for the steps [first, last] of a schedule.
struct ArenaRequest {
  uint64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

struct ArenaPlacement {
  std::vector<uint64_t> offsets;  ///< per request
  uint64_t bytes = 0;             ///< high-water mark
};

/// First-fit placement, largest first, so that requests alive together never overlap.
ArenaPlacement place_requests(std::span<const ArenaRequest> requests, uint64_t alignment);

/// Offsets of the escaping tensors and received copies of one device.
struct ArenaLayout {
  struct Entry {
    uint32_t tensor;  ///< index in the graph; never a view
    uint64_t offset;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t bytes = 0;

  const Entry* find(uint32_t tensor) const;
};

/// Bytes from a tensor's first to its last element.
uint64_t tensor_span_bytes(const GraphTensor& tensor);

/// One layout per device. Tensors that the host reads stay to the end of the step.
std::vector<ArenaLayout> plan_arenas(const Graph& graph, const SplitPlan& plan,
                                     std::span<const uint64_t> alignment_of_device);

}  // namespace minfer
