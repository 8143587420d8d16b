// Buckets: the capacities that graphs are built for, and which one a step uses.
//
// Token counts go up in powers of two to max_step_tokens. For each there are few variants, so that
// all of them can be compiled before the engine is ready: one sequence or as many as fit, the
// output rows of those sequences or (where the engine allows it) one per token. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "minfer/graph.h"

namespace minfer {

struct BucketLimits {
  uint32_t tokens = 1;     ///< max_step_tokens
  uint32_t seqs = 1;       ///< max_sequences
  uint32_t outs = 1;       ///< max_step_outputs
  uint32_t max_pages = 1;  ///< logical pages of a sequence
};

/// Every bucket, cheapest first; the last one holds any step within the limits.
std::vector<Bucket> make_buckets(const BucketLimits& limits);

/// Index of the cheapest bucket that holds a step, or buckets.size() when none does.
size_t pick_bucket(std::span<const Bucket> buckets, uint32_t tokens, uint32_t seqs, uint32_t outs);

}  // namespace minfer
