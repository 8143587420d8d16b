// ATTENTION in plans: a streaming softmax over the pages of a sequence.
//
// A task is a KV head and a block of a sequence's tokens; all query heads of the group go together,
// so that K and V are read once. Where a step has too few such tasks for the threads (decode), the
// keys are cut into chunks as well, and a row operator merges the parts.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "plan.h"
#include "row_ops.h"

namespace minfer_cpu {

class AttentionStep final : public Step {
 public:
  AttentionStep(const OpContext& ctx, const Node& node, uint32_t index, const KvLayout& layout,
                unsigned threads);

  int64_t prepare(const Run& run) override;
  void task(const Run& run, int64_t index, unsigned thread) override;
  uint64_t scratch_bytes() const override;
  uint64_t bytes_read() const override { return bytes_; }
  uint32_t node_of(uint32_t) const override { return index_; }

  /// Workspace for the parts of cut key ranges, and the place where its offset is to be written.
  uint64_t parts_bytes() const;
  uint64_t* parts_offset() { return &parts_offset_; }

 private:
  struct Block;    // what a task works on
  struct Softmax;  // running maximum, sum and weighted values of a block

  Block block_of(const Run& run, int64_t index) const;
  int64_t lower(const Run& run, int64_t token) const;
  int64_t upper(const Run& run, int64_t token, int64_t kv_len) const;
  void load_queries(const Run& run, const Block& block, float* q) const;
  void add_tile(const Run& run, const Block& block, int64_t begin, int64_t end, const float* q,
                Softmax& state) const;
  void weigh_row(float* scores, int64_t width, int64_t from, int64_t to, int64_t row,
                 Softmax& state) const;
  void write_out(const Run& run, const Block& block, const Softmax& state) const;
  void write_part(const Run& run, const Block& block, const Softmax& state) const;
  void merge(const Run& run, const Block& block, unsigned thread) const;
  Softmax state_in(uint8_t* scratch) const;
  float* part(const Run& run, int64_t unit, int64_t chunk) const;
  const int32_t* ints(const Run& run, uint32_t tensor, int64_t index) const;

  OpContext ctx_;
  uint32_t index_;
  uint32_t q_, pos_, q_start_, kv_len_, table_, sinks_, out_;
  minfer_attention_params params_;
  KvLayout layout_;
  const KvOps* ops_;
  int64_t group_;                       // query heads per KV head
  int64_t tokens_per_block_;            // tokens of a sequence that a task takes
  int64_t head_stride_, token_stride_;  // of the destination, bytes

  // Of the run.
  std::vector<int64_t> first_block_;  // per sequence, and the total
  int64_t chunks_ = 1;
  uint64_t bytes_ = 0;

  uint64_t parts_offset_ = 0;
  int64_t max_units_ = 0;                         // (block, head) pairs that may be cut
  std::unique_ptr<std::atomic<int32_t>[]> left_;  // chunks not done, per unit
};

}  // namespace minfer_cpu
