// From nodes to sections: which nodes are fused, what order they run in, and which share a section.
//
// The graph's order is kept except that a node may be drawn forward into a section that it fits:
// matrices that read one activation are multiplied together, and operators that need only their own
// rows are strung together. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "graph.h"
#include "matmul.h"
#include "plan.h"

namespace minfer_cpu {

/// What an item does.
enum class Work {
  kNode,       ///< the node alone, row by row
  kGated,      ///< node is a MUL, partner the SILU or GELU of one factor
  kAddNorm,    ///< node is an ADD, partner the RMS_NORM of the sum
  kConvert,    ///< makes `scratch` from the activation of a MATMUL (node: the first that reads it)
  kRopeTable,  ///< makes `scratch` from the positions of a ROPE
  kMatmul,
  kMatmulById,
  kAttention
};

/// Memory that an item reads or writes: an owning tensor or a scratch object, row by row or as a
/// whole.
struct Access {
  uint32_t object = MINFER_NONE;  ///< tensor, or n_tensors + scratch
  bool whole = true;
  int64_t stride = 0;  ///< bytes from row to row
  int64_t end = 0;     ///< end of what a row covers, from the row's start
};

/// A gate's MATMUL does the work of `up` too, and of act (SILU or GELU) and mul: mul = act(gate) *
/// up.
struct GatedPair {
  uint32_t up = MINFER_NONE, act = MINFER_NONE, mul = MINFER_NONE;
  bool is_pair() const { return up != MINFER_NONE; }
};

struct Item {
  Work work = Work::kNode;
  uint32_t node = 0;
  uint32_t partner = MINFER_NONE;
  GatedPair gated;                 ///< of a kMatmul that is two matrices and their gated product
  uint32_t scratch = MINFER_NONE;  ///< index into Schedule::scratch that it makes or reads
  Rows rows;
  const MatmulKernel* kernel = nullptr;
  std::vector<Access> reads, writes;
  bool by_rows() const { return work <= Work::kRopeTable; }
};

/// An object that exists inside the plan only.
struct Scratch {
  uint64_t bytes = 0;
  uint32_t tensor = MINFER_NONE;         ///< source of a conversion
  const MatmulKernel* kernel = nullptr;  ///< format of a conversion; NULL: a rope table
};

struct Schedule {
  std::vector<Scratch> scratch;
  std::vector<std::vector<Item>> sections;  ///< items of one section have the same kind and rows
  std::vector<uint32_t> fused_into;  ///< per node: the node that does its work, or MINFER_NONE
};

/// Schedules a graph that check_graph accepted. Without `fuse` every node is a section of its own,
/// in the graph's order. Throws Failure(MINFER_INVALID) for an activation read before it is
/// written.
Schedule make_schedule(const Graph& graph, Isa isa, bool fuse);

}  // namespace minfer_cpu
