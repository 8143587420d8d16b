// MATMUL_BY_ID in plans: tokens are grouped by expert, so that each expert's matrix is read once.
//
// Three steps share one list of pairs (token, place), sorted by expert: gather and convert the
// activations, multiply, scatter the results. The steps are used by one run at a time.
#pragma once

#include <memory>
#include <vector>

#include "plan.h"
#include "row_ops.h"

namespace minfer_cpu {

/// What the steps of one node share. Buffers lie in the workspace, placed by the compiler.
struct ExpertWork {
  ExpertWork(const OpContext& ctx, const Node& node, const MatmulKernel* kernel);

  OpContext ctx;
  const MatmulKernel* kernel;
  uint32_t weight, x, ids, out;
  int64_t id, od, experts, places, max_tokens;
  Rows rows;  ///< tokens

  /// Bytes of one pair in a converted activation; n pairs take at most n times as much.
  uint64_t pair_bytes;
  uint64_t gathered_offset = 0, converted_offset = 0, result_offset = 0;
  uint64_t gathered_bytes() const;
  uint64_t converted_bytes() const;
  uint64_t result_bytes() const;

  // Of the run: pairs sorted by expert; the experts that have any.
  struct Pair {
    int32_t token, place;
  };
  struct Group {
    int64_t expert, first, count;
  };
  std::vector<Pair> pairs;
  std::vector<int64_t> starts;
  std::vector<Group> groups;

  /// Sorts the pairs of a run. Throws Failure(MINFER_INVALID) for an expert out of range.
  void sort(const Run& run);
};

/// The three steps, in the order they run.
std::vector<std::unique_ptr<Step>> make_matmul_by_id(std::shared_ptr<ExpertWork> work,
                                                     uint32_t node);

}  // namespace minfer_cpu
