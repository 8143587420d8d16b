// A step's inputs: one contiguous block that holds every input of a graph, filled on the host and
// sent to a device in one copy.
//
// Pure functions over the caller's memory; no allocation in fill_inputs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_cache.h"
#include "minfer/engine.h"

namespace minfer {

/// Where each input of a graph lies in the block.
struct InputLayout {
  struct Entry {
    uint32_t tensor;  ///< index in the graph
    uint32_t kind;    ///< MINFER_INPUT_*
    uint32_t group;
    uint64_t offset;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t bytes = 0;

  const Entry* find(uint32_t tensor) const;
};

InputLayout plan_inputs(const Graph& graph, uint64_t alignment);

/// Valid counts of a step.
struct StepCounts {
  uint32_t tokens = 0;
  uint32_t seqs = 0;
  uint32_t outs = 0;
  uint32_t max_kv_len = 0;
};

StepCounts count_step(std::span<const StepEntry> entries, const KvCache& kv);

/// Writes every input of the step at the bucket's capacity; rows past the valid counts hold what
/// docs/operators.md asks for. Pages of the step must be reserved (KvCache::begin) and not yet
/// committed.
void fill_inputs(const InputLayout& layout, const Bucket& bucket,
                 std::span<const StepEntry> entries, const KvCache& kv, uint8_t* block);

}  // namespace minfer
