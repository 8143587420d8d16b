// Makers of row operators, one per operator or fused pair. All take checked nodes; the graph must
// outlive the operator at the same address. Pure.
#pragma once

#include <memory>

#include "kv_pages.h"
#include "plan.h"

namespace minfer_cpu {

/// What makers share: the graph and the vector functions to use.
struct OpContext {
  const Graph* graph;
  const VecOps* vec;

  const Tensor& tensor(uint32_t index) const { return graph->tensors[index]; }
};

std::unique_ptr<RowOp> make_binary(const OpContext& ctx, uint32_t op, uint32_t a, uint32_t b,
                                   uint32_t dst);
/// SCALE, SILU, GELU, SOFT_CAP.
std::unique_ptr<RowOp> make_unary(const OpContext& ctx, const Node& node);
/// dst = act(gate) * up, `act` being a SILU or GELU node.
std::unique_ptr<RowOp> make_gated(const OpContext& ctx, const Node& act, uint32_t gate, uint32_t up,
                                  uint32_t dst);
std::unique_ptr<RowOp> make_rms_norm(const OpContext& ctx, const Node& node);
/// sum = a + b and out = norm(sum), for contiguous rows of matrices.
std::unique_ptr<RowOp> make_add_rms_norm(const OpContext& ctx, const Node& add, const Node& norm);
std::unique_ptr<RowOp> make_softmax(const OpContext& ctx, const Node& node);
std::unique_ptr<RowOp> make_top_k(const OpContext& ctx, const Node& node);
std::unique_ptr<RowOp> make_arg_max(const OpContext& ctx, const Node& node);
std::unique_ptr<RowOp> make_concat(const OpContext& ctx, const Node& node);
std::unique_ptr<RowOp> make_get_rows(const OpContext& ctx, const Node& node);
std::unique_ptr<RowOp> make_kv_store(const OpContext& ctx, const Node& node,
                                     const KvLayout& layout);

/// cos and sin of a ROPE node's angles, one row per token, for all nodes with the same parameters.
/// `table` tells where it lies in the workspace; the plan places it after the operators are made.
struct RopeTable {
  uint64_t offset = 0;
  int64_t half = 0;  ///< a row is cos[half], sin[half]
};
std::unique_ptr<RowOp> make_rope_table(const OpContext& ctx, const Node& node,
                                       const RopeTable* table);
std::unique_ptr<RowOp> make_rope(const OpContext& ctx, const Node& node, const RopeTable* table);

}  // namespace minfer_cpu
