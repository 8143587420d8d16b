// A split as the CPU plugin keeps it: copied out of the ABI's structs and checked to be well formed
// (indices, dimensions, strides, views), so that later passes need not ask again. Immutable once
// read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "minfer/plugin_abi.h"

namespace minfer_cpu {

/// Which of a run's counts a dimension follows, or none.
enum class Dyn : uint32_t { kNone = 0, kTokens = 1, kSeqs = 2, kOuts = 3 };

struct Tensor {
  uint32_t type = 0;
  uint32_t kind = 0;
  uint32_t flags = 0;
  int64_t ne[4] = {};
  int64_t nb[4] = {};
  uint32_t dyn_axis = MINFER_NONE;
  Dyn dyn = Dyn::kNone;
  uint32_t owner = 0;  ///< tensor that owns the memory; itself when it is no view
  int64_t view_offset = 0;
  uint64_t weight_id = 0;
  int64_t span_bytes =
      0;  ///< from the first byte to the last, at capacity; 0 when a dimension is 0
  std::string name;

  bool is_weight() const { return kind == MINFER_TENSOR_WEIGHT; }
  int64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  /// True when the elements lie in order without gaps.
  bool contiguous() const;
  /// The axis that rows are counted along: the dynamic one, else the last longer than 1.
  uint32_t row_axis() const;
};

union NodeParams {
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
  uint32_t op = 0;
  uint32_t revision = 0;
  std::vector<uint32_t> src;  ///< MINFER_NONE for an absent operand
  uint32_t dst = MINFER_NONE;
  NodeParams params = {};
  std::string name;

  /// Source i, or MINFER_NONE when it is absent.
  uint32_t source(size_t i) const { return i < src.size() ? src[i] : MINFER_NONE; }
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<minfer_kv_desc> kv;
  minfer_capacity capacity = {};
  uint64_t model = 0;
};

/// Copies and checks a split. Throws Failure(MINFER_INVALID) naming what is malformed.
Graph read_split(const minfer_split* split);

/// "RMS_NORM" and so on; "operator" for a number without a name.
const char* op_name(uint32_t op);

/// "[2048, 16, 1, 1]"
std::string shape_text(const Tensor& tensor);

}  // namespace minfer_cpu
