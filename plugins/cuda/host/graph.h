// A split as a plan keeps it: copied out of the ABI's structs, with types checked and views
// resolved.
//
// Immutable after read_graph(); shared by every thread that compiles or runs.
#pragma once

#include <string>
#include <vector>

#include "../kernels/kv.h"
#include "error.h"

namespace minfer_cuda {

inline constexpr uint32_t kNone = MINFER_NONE;
inline constexpr uint32_t kDropped = 0;  ///< the operator of a node that has nothing to do

struct Tensor {
  uint32_t type = 0, kind = 0, flags = 0;
  int64_t ne[4] = {1, 1, 1, 1};
  int64_t nb[4] = {0, 0, 0, 0};
  uint32_t dyn_axis = kNone, dyn_count = 0;
  uint32_t view_of = kNone;
  uint32_t input = 0;
  int64_t view_offset = 0;
  uint64_t weight_id = 0;
  std::string name;

  bool is_weight() const { return kind == MINFER_TENSOR_WEIGHT; }
  bool is_input() const { return kind == MINFER_TENSOR_INPUT; }
  int64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  /// Bytes from the start of a view to its end.
  int64_t extent() const;
};

/// Parameters of any operator, zero where the split has none.
union OpParams {
  minfer_scale_params scale;
  minfer_norm_params norm;
  minfer_rope_params rope;
  minfer_kv_params kv;
  minfer_attention_params attention;
  minfer_gelu_params gelu;
  minfer_soft_cap_params soft_cap;
  minfer_softmax_params softmax;
  minfer_concat_params concat;
  minfer_top_k_params top_k;
};

struct Node {
  uint32_t op = 0, revision = 0;
  std::vector<uint32_t> src;
  uint32_t dst = kNone;
  OpParams params{};
  std::string name;

  uint32_t source(size_t i) const { return i < src.size() ? src[i] : kNone; }
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<KvPages> kv;  ///< layouts; base is null
  minfer_capacity capacity{};
  uint64_t model = 0;

  /// The tensor that owns the memory of t.
  uint32_t base(uint32_t t) const { return tensors[t].view_of == kNone ? t : tensors[t].view_of; }
};

/// A split the plugin will not take: which node and tensor, and why, with the numbers.
class Refusal : public PluginError {
 public:
  Refusal(uint32_t at_node, uint32_t at_tensor, std::string reason)
      : PluginError(MINFER_UNSUPPORTED, std::move(reason)), node(at_node), tensor(at_tensor) {}
  uint32_t node;
  uint32_t tensor;
};

/// Copies a split; throws MINFER_INVALID where an index or a view leaves its bounds, Refusal where
/// an operator, type or shape has no kernel here.
Graph read_graph(const minfer_split& split);

/// Drops every gather of the one row of an activation: its readers read that row.
void drop_single_row_gathers(Graph& graph);

}  // namespace minfer_cuda
