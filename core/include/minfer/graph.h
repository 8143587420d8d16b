// The compute graph: what models build and the scheduler splits.
//
// A Graph is plain data: tensors, nodes (sources before consumers), KV layers and placement units.
// GraphBuilder makes one for a bucket; building is pure, so the same GraphParams and model give the
// same graph. Operators and conventions: docs/operators.md. Not thread-safe; a finished Graph is
// immutable by convention.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "minfer/plugin_abi.h"
#include "minfer/result.h"

namespace minfer {

/// How many tokens, sequences and output rows a graph is built for; steps fill part of it.
struct Bucket {
  uint32_t tokens = 1;
  uint32_t seqs = 1;
  uint32_t outs = 1;
  uint32_t max_pages = 1;  ///< logical pages of one sequence
  auto operator<=>(const Bucket&) const = default;
};

/// What placement moves as one.
enum class UnitKind { kEmbedding, kAttention, kFfn, kHead };
struct Unit {
  UnitKind kind = UnitKind::kEmbedding;
  uint32_t layer = 0;        ///< of kAttention and kFfn
  std::string name() const;  ///< "embedding", "layer 3 attention", "layer 3 ffn", "head"
};

using OpParams = std::variant<std::monostate, minfer_scale_params, minfer_norm_params,
                              minfer_rope_params, minfer_kv_params, minfer_attention_params,
                              minfer_gelu_params, minfer_soft_cap_params, minfer_softmax_params,
                              minfer_concat_params, minfer_top_k_params>;

struct GraphTensor {
  std::string name;
  uint32_t type = MINFER_TYPE_F32;
  uint32_t kind = MINFER_TENSOR_ACTIVATION;
  int64_t ne[4] = {1, 1, 1, 1};
  int64_t nb[4] = {4, 4, 4, 4};
  uint32_t dyn_axis = MINFER_NONE;
  uint32_t dyn_count = MINFER_DYN_NONE;
  uint32_t view_of = MINFER_NONE;
  int64_t view_offset = 0;
  uint32_t input = 0;               ///< MINFER_INPUT_* of an input
  uint32_t group = 0;               ///< KV group of an input that has one
  uint64_t weight_id = 0;           ///< index of a weight in the model's weight table
  uint32_t producer = MINFER_NONE;  ///< node that writes it
};

struct GraphNode {
  uint32_t op = 0;
  uint32_t revision = 1;
  std::vector<uint32_t> src;  ///< MINFER_NONE for an absent optional operand
  uint32_t dst = MINFER_NONE;
  uint32_t unit = 0;  ///< index into Graph::units
  OpParams params;
  std::string name;
};

struct Graph {
  Bucket bucket;
  std::vector<GraphTensor> tensors;
  std::vector<GraphNode> nodes;
  std::vector<minfer_kv_desc> kv;  ///< n_pages is 0 until the engine knows it
  std::vector<Unit> units;
  uint32_t logits = MINFER_NONE;   ///< f32 [vocab, outs]
  uint32_t arg_max = MINFER_NONE;  ///< i32 [outs]

  /// Graphviz text; `device_of_unit` (may be empty) colours the units.
  std::string to_dot(std::span<const std::string> device_of_unit = {}) const;
};

/// Bytes of a row of `n` elements of a tensor type.
uint64_t type_row_bytes(uint32_t type, int64_t n);

/// A weight of a model as graphs see it.
struct ModelWeight {
  std::string name;
  uint32_t type = MINFER_TYPE_F32;
  int64_t ne[4] = {1, 1, 1, 1};
  uint32_t tensor = 0;  ///< index into GgufFile::tensors()
};

/// What a KV group is: layers that share one page table.
struct KvGroup {
  uint32_t window = 0;  ///< sliding window in positions; 0: full attention
};

/// What one layer keeps per token.
struct KvLayer {
  uint32_t layer = 0;
  uint32_t group = 0;
  uint32_t n_head_kv = 0;
  uint32_t head_dim_k = 0;
  uint32_t head_dim_v = 0;
};

/// Everything a graph depends on.
struct GraphParams {
  Bucket bucket;
  uint32_t kv_type = MINFER_TYPE_F16;
  uint32_t page_tokens = 64;
  bool with_arg_max = true;  ///< adds an ARG_MAX over the logits
};

/// Handle of a tensor in a graph under construction.
struct TensorRef {
  uint32_t index = MINFER_NONE;
  explicit operator bool() const { return index != MINFER_NONE; }
};

/// Builds a graph operator by operator, with shapes checked. The first error is kept and returned
/// by finish(); calls after it do nothing.
class GraphBuilder {
 public:
  GraphBuilder(const GraphParams& params, std::span<const ModelWeight> weights,
               std::span<const KvLayer> kv_layers);

  /// Nodes from here on belong to this unit.
  void begin_unit(UnitKind kind, uint32_t layer = 0);

  TensorRef tokens();     ///< i32 [tokens]
  TensorRef positions();  ///< i32 [tokens]
  TensorRef out_rows();   ///< i32 [outs]

  bool has_weight(std::string_view name) const;
  /// The weight of that name; an error when it is absent or its shape differs.
  TensorRef weight(std::string_view name, std::initializer_list<int64_t> ne);
  /// The weight, or an empty handle when the model has none of that name.
  TensorRef optional_weight(std::string_view name, std::initializer_list<int64_t> ne);

  TensorRef get_rows(TensorRef table, TensorRef rows, std::string name);
  TensorRef add(TensorRef a, TensorRef b, std::string name);
  TensorRef mul(TensorRef a, TensorRef b, std::string name);
  TensorRef scale(TensorRef x, float factor, float offset, std::string name);
  TensorRef rms_norm(TensorRef x, TensorRef weight, float eps, float weight_offset,
                     std::string name);
  TensorRef matmul(TensorRef weight, TensorRef x, TensorRef bias, std::string name);
  TensorRef rope(TensorRef x, TensorRef factors, const minfer_rope_params& params,
                 std::string name);
  void kv_store(uint32_t layer, TensorRef k, TensorRef v, std::string name);
  /// q: [head_dim, n_head, tokens] -> [head_dim_v * n_head, tokens].
  TensorRef attention(uint32_t layer, TensorRef q, uint32_t window, float scale, float soft_cap,
                      TensorRef sinks, std::string name);
  TensorRef silu(TensorRef x, std::string name);
  TensorRef gelu(TensorRef x, uint32_t kind, std::string name);
  TensorRef soft_cap(TensorRef x, float cap, std::string name);
  TensorRef softmax(TensorRef x, float scale, std::string name);
  TensorRef concat(TensorRef a, TensorRef b, uint32_t axis, std::string name);
  TensorRef top_k(TensorRef x, uint32_t k, std::string name);
  TensorRef matmul_by_id(TensorRef weight, TensorRef x, TensorRef ids, std::string name);
  TensorRef arg_max(TensorRef x, std::string name);

  /// A view of contiguous x with other dimensions (same element count; the last one stays dynamic).
  TensorRef reshape(TensorRef x, std::initializer_list<int64_t> ne, std::string name);
  /// Rows [start, start + count) of axis 0 as a strided view.
  TensorRef slice_rows(TensorRef x, int64_t start, int64_t count, std::string name);

  void set_logits(TensorRef logits);
  const Bucket& bucket() const { return graph_.bucket; }

  Result<Graph> finish();

 private:
  TensorRef input(uint32_t kind, uint32_t type, std::initializer_list<int64_t> ne,
                  uint32_t dyn_axis, uint32_t dyn_count, uint32_t group, std::string name);
  TensorRef activation(uint32_t type, std::span<const int64_t> ne, TensorRef like,
                       std::string name);
  TensorRef node(uint32_t op, std::vector<uint32_t> src, TensorRef dst, OpParams params,
                 std::string name);
  TensorRef elementwise(uint32_t op, TensorRef x, OpParams params, std::string name);
  void error(std::string what, std::string_view name);
  const GraphTensor& at(TensorRef ref) const { return graph_.tensors[ref.index]; }
  uint32_t kv_index(uint32_t layer, std::string_view name);

  GraphParams params_;
  std::span<const ModelWeight> weights_;
  std::unordered_map<std::string_view, uint32_t> weight_index_;  // name -> id
  std::span<const KvLayer> kv_layers_;
  Graph graph_;
  std::unordered_map<uint64_t, uint32_t> weight_tensors_;  // id -> tensor
  Error error_;
  bool failed_ = false;
};

}  // namespace minfer
