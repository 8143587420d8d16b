// Which operators, types and shapes the plugin takes: the checks behind `supports` and
// plan_compile.
#pragma once

#include "graph.h"

namespace minfer_cuda {

/// The operators and revisions declared to the core.
const minfer_op_support* op_table(uint32_t& n);

/// Throws Refusal unless the page can be held: type, head dims, page size.
void require_kv(const KvPages& pages);

/// Smallest and largest page in tokens; sizes between are powers of two.
inline constexpr uint32_t kMinPageTokens = 16;
inline constexpr uint32_t kMaxPageTokens = 256;

/// Throws Refusal unless node i has kernels for its operands.
void require_node(const Graph& graph, uint32_t i);

/// A tensor of heads seen as [dim, heads, tokens], whether it is written so or as [dim * heads,
/// tokens].
struct HeadShape {
  int64_t dim = 0, heads = 0, tokens = 0, nb_head = 0, nb_token = 0;
};
/// False when the tensor is neither for this many heads of this dim.
bool head_shape(const Tensor& t, int64_t dim, int64_t heads, HeadShape& out);

}  // namespace minfer_cuda
