// GraphBuilder: one function per operator, each checking shapes before it adds a node.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "minfer/gguf.h"
#include "minfer/graph.h"

namespace minfer {
namespace {

std::string shape_text(const int64_t* ne, int n) {
  return fmt::format("[{}]", fmt::join(ne, ne + n, ", "));
}

/// Dimensions without trailing ones, for messages.
std::string shape_of(const GraphTensor& t) {
  int n = 4;
  while (n > 1 && t.ne[n - 1] == 1) --n;
  return shape_text(t.ne, n);
}

void set_contiguous(GraphTensor& t) {
  const TypeInfo* info = find_type(t.type);
  t.nb[0] = info ? info->block_bytes : 4;
  t.nb[1] = static_cast<int64_t>(type_row_bytes(t.type, t.ne[0]));
  t.nb[2] = t.nb[1] * t.ne[1];
  t.nb[3] = t.nb[2] * t.ne[2];
}

bool is_contiguous(const GraphTensor& t) {
  GraphTensor packed = t;
  set_contiguous(packed);
  return std::equal(t.nb, t.nb + 4, packed.nb);
}

bool broadcasts(const GraphTensor& a, const GraphTensor& b) {
  for (int i = 0; i < 4; ++i)
    if (b.ne[i] != a.ne[i] && b.ne[i] != 1) return false;
  return true;
}

template <class P>
P sized(P params) {
  params.struct_size = sizeof(P);
  return params;
}

}  // namespace

GraphBuilder::GraphBuilder(const GraphParams& params, std::span<const ModelWeight> weights,
                           std::span<const KvLayer> kv_layers)
    : params_(params), weights_(weights), kv_layers_(kv_layers) {
  graph_.bucket = params.bucket;
  weight_index_.reserve(weights.size());
  for (uint32_t i = 0; i < weights.size(); ++i) weight_index_.emplace(weights[i].name, i);
  for (const KvLayer& kv : kv_layers) {
    graph_.kv.push_back({.struct_size = sizeof(minfer_kv_desc),
                         .layer = kv.layer,
                         .group = kv.group,
                         .type = params.kv_type,
                         .n_head_kv = kv.n_head_kv,
                         .head_dim_k = kv.head_dim_k,
                         .head_dim_v = kv.head_dim_v,
                         .page_tokens = params.page_tokens,
                         .n_pages = 0,
                         .reserved = 0});
  }
}

void GraphBuilder::error(std::string what, std::string_view name) {
  if (failed_) return;
  failed_ = true;
  error_ = Error{ErrorCode::kBadModel, std::move(what), std::string(name), {}};
}

void GraphBuilder::begin_unit(UnitKind kind, uint32_t layer) {
  graph_.units.push_back({kind, layer});
}

TensorRef GraphBuilder::input(uint32_t kind, uint32_t type, std::initializer_list<int64_t> ne,
                              uint32_t dyn_axis, uint32_t dyn_count, uint32_t group,
                              std::string name) {
  for (uint32_t i = 0; i < graph_.tensors.size(); ++i) {
    const GraphTensor& t = graph_.tensors[i];
    if (t.kind == MINFER_TENSOR_INPUT && t.input == kind && t.group == group) return {i};
  }
  GraphTensor t;
  t.name = std::move(name);
  t.type = type;
  t.kind = MINFER_TENSOR_INPUT;
  t.input = kind;
  t.group = group;
  t.dyn_axis = dyn_axis;
  t.dyn_count = dyn_count;
  std::copy(ne.begin(), ne.end(), t.ne);
  set_contiguous(t);
  graph_.tensors.push_back(std::move(t));
  return {static_cast<uint32_t>(graph_.tensors.size() - 1)};
}

TensorRef GraphBuilder::tokens() {
  return input(MINFER_INPUT_TOKENS, MINFER_TYPE_I32, {params_.bucket.tokens}, 0, MINFER_DYN_TOKENS,
               0, "tokens");
}
TensorRef GraphBuilder::positions() {
  return input(MINFER_INPUT_POS, MINFER_TYPE_I32, {params_.bucket.tokens}, 0, MINFER_DYN_TOKENS, 0,
               "pos");
}
TensorRef GraphBuilder::out_rows() {
  return input(MINFER_INPUT_OUT_ROWS, MINFER_TYPE_I32, {params_.bucket.outs}, 0, MINFER_DYN_OUTS, 0,
               "out_rows");
}

bool GraphBuilder::has_weight(std::string_view name) const {
  return weight_index_.contains(name);
}

TensorRef GraphBuilder::weight(std::string_view name, std::initializer_list<int64_t> ne) {
  if (failed_) return {};
  const auto it = weight_index_.find(name);
  if (it == weight_index_.end()) {
    error(fmt::format("the model has no tensor of this name (expected shape [{}])",
                      fmt::join(ne, ", ")),
          name);
    return {};
  }
  const ModelWeight& w = weights_[it->second];
  int64_t expected[4] = {1, 1, 1, 1};
  std::copy(ne.begin(), ne.end(), expected);
  if (!std::equal(expected, expected + 4, w.ne)) {
    error(fmt::format("tensor has shape {}, the hyper-parameters need [{}]", shape_text(w.ne, 4),
                      fmt::join(ne, ", ")),
          name);
    return {};
  }
  if (const auto known = weight_tensors_.find(it->second); known != weight_tensors_.end())
    return {known->second};
  GraphTensor t;
  t.name = w.name;
  t.type = w.type;
  t.kind = MINFER_TENSOR_WEIGHT;
  t.weight_id = it->second;
  std::copy(w.ne, w.ne + 4, t.ne);
  set_contiguous(t);
  graph_.tensors.push_back(std::move(t));
  const auto index = static_cast<uint32_t>(graph_.tensors.size() - 1);
  weight_tensors_.emplace(it->second, index);
  return {index};
}

TensorRef GraphBuilder::optional_weight(std::string_view name, std::initializer_list<int64_t> ne) {
  return has_weight(name) ? weight(name, ne) : TensorRef{};
}

TensorRef GraphBuilder::activation(uint32_t type, std::span<const int64_t> ne, TensorRef like,
                                   std::string name) {
  GraphTensor t;
  t.name = std::move(name);
  t.type = type;
  std::copy(ne.begin(), ne.end(), t.ne);
  t.dyn_axis = at(like).dyn_axis;
  t.dyn_count = at(like).dyn_count;
  set_contiguous(t);
  graph_.tensors.push_back(std::move(t));
  return {static_cast<uint32_t>(graph_.tensors.size() - 1)};
}

TensorRef GraphBuilder::node(uint32_t op, std::vector<uint32_t> src, TensorRef dst, OpParams params,
                             std::string name) {
  if (graph_.units.empty()) {
    error("node outside any unit", name);
    return {};
  }
  GraphNode n;
  n.op = op;
  n.src = std::move(src);
  n.dst = dst.index;
  n.unit = static_cast<uint32_t>(graph_.units.size() - 1);
  n.params = params;
  n.name = std::move(name);
  if (dst) graph_.tensors[dst.index].producer = static_cast<uint32_t>(graph_.nodes.size());
  graph_.nodes.push_back(std::move(n));
  return dst;
}

TensorRef GraphBuilder::elementwise(uint32_t op, TensorRef x, OpParams params, std::string name) {
  if (failed_) return {};
  const TensorRef out = activation(MINFER_TYPE_F32, at(x).ne, x, name);
  return node(op, {x.index}, out, params, std::move(name));
}

TensorRef GraphBuilder::get_rows(TensorRef table, TensorRef rows, std::string name) {
  if (failed_) return {};
  const int64_t ne[2] = {at(table).ne[0], at(rows).ne[0]};
  const TensorRef out = activation(MINFER_TYPE_F32, ne, rows, name);
  graph_.tensors[out.index].dyn_axis = 1;
  return node(MINFER_OP_GET_ROWS, {table.index, rows.index}, out, {}, std::move(name));
}

TensorRef GraphBuilder::add(TensorRef a, TensorRef b, std::string name) {
  if (failed_) return {};
  if (!broadcasts(at(a), at(b))) {
    error(fmt::format("cannot add {} to {}", shape_of(at(b)), shape_of(at(a))), name);
    return {};
  }
  const TensorRef out = activation(MINFER_TYPE_F32, at(a).ne, a, name);
  return node(MINFER_OP_ADD, {a.index, b.index}, out, {}, std::move(name));
}

TensorRef GraphBuilder::mul(TensorRef a, TensorRef b, std::string name) {
  if (failed_) return {};
  if (!broadcasts(at(a), at(b))) {
    error(fmt::format("cannot multiply {} by {}", shape_of(at(a)), shape_of(at(b))), name);
    return {};
  }
  const TensorRef out = activation(MINFER_TYPE_F32, at(a).ne, a, name);
  return node(MINFER_OP_MUL, {a.index, b.index}, out, {}, std::move(name));
}

TensorRef GraphBuilder::scale(TensorRef x, float factor, float offset, std::string name) {
  return elementwise(MINFER_OP_SCALE, x,
                     sized(minfer_scale_params{
                         .struct_size = 0, .factor = factor, .offset = offset, .reserved = 0}),
                     std::move(name));
}

TensorRef GraphBuilder::rms_norm(TensorRef x, TensorRef weight, float eps, float weight_offset,
                                 std::string name) {
  if (failed_) return {};
  if (weight && at(weight).type != MINFER_TYPE_F32) {
    const TypeInfo* info = find_type(at(weight).type);
    error(fmt::format("norm weight has type {}, expected F32", info ? info->name : "?"),
          at(weight).name);
    return {};
  }
  const TensorRef out = activation(MINFER_TYPE_F32, at(x).ne, x, name);
  return node(MINFER_OP_RMS_NORM, {x.index, weight.index}, out,
              sized(minfer_norm_params{
                  .struct_size = 0, .eps = eps, .weight_offset = weight_offset, .reserved = 0}),
              std::move(name));
}

TensorRef GraphBuilder::matmul(TensorRef weight, TensorRef x, TensorRef bias, std::string name) {
  if (failed_) return {};
  const GraphTensor& w = at(weight);
  if (w.ne[0] != at(x).ne[0]) {
    error(fmt::format("weight {} of shape {} does not fit an input of {}", w.name, shape_of(w),
                      shape_of(at(x))),
          name);
    return {};
  }
  if (bias && at(bias).type != MINFER_TYPE_F32) {
    const TypeInfo* info = find_type(at(bias).type);
    error(fmt::format("bias has type {}, expected F32", info ? info->name : "?"), at(bias).name);
    return {};
  }
  const int64_t ne[2] = {w.ne[1], at(x).ne[1]};
  const TensorRef out = activation(MINFER_TYPE_F32, ne, x, name);
  std::vector<uint32_t> src = {weight.index, x.index};
  if (bias) src.push_back(bias.index);
  return node(MINFER_OP_MATMUL, std::move(src), out, {}, std::move(name));
}

TensorRef GraphBuilder::rope(TensorRef x, TensorRef factors, const minfer_rope_params& params,
                             std::string name) {
  if (failed_) return {};
  if (params.n_rot == 0 || params.n_rot % 2 != 0 || params.n_rot > at(x).ne[0]) {
    error(fmt::format(
              "RoPE rotates {} dimensions of heads of {}; expected an even number within the head",
              params.n_rot, at(x).ne[0]),
          name);
    return {};
  }
  const TensorRef pos = positions();
  const TensorRef out = activation(MINFER_TYPE_F32, at(x).ne, x, name);
  std::vector<uint32_t> src = {x.index, pos.index};
  if (factors) src.push_back(factors.index);
  return node(MINFER_OP_ROPE, std::move(src), out, sized(params), std::move(name));
}

uint32_t GraphBuilder::kv_index(uint32_t layer, std::string_view name) {
  for (uint32_t i = 0; i < kv_layers_.size(); ++i)
    if (kv_layers_[i].layer == layer) return i;
  error(fmt::format("layer {} has no KV cache", layer), name);
  return 0;
}

void GraphBuilder::kv_store(uint32_t layer, TensorRef k, TensorRef v, std::string name) {
  if (failed_) return;
  const uint32_t kv = kv_index(layer, name);
  if (failed_) return;
  const uint32_t group = kv_layers_[kv].group;
  const TensorRef slot = input(MINFER_INPUT_SLOT, MINFER_TYPE_I64, {params_.bucket.tokens}, 0,
                               MINFER_DYN_TOKENS, group, fmt::format("slot.{}", group));
  node(MINFER_OP_KV_STORE, {k.index, v.index, slot.index}, {},
       sized(minfer_kv_params{.struct_size = 0, .kv = kv}), std::move(name));
}

TensorRef GraphBuilder::attention(uint32_t layer, TensorRef q, uint32_t window, float scale,
                                  float soft_cap, TensorRef sinks, std::string name) {
  if (failed_) return {};
  const uint32_t kv = kv_index(layer, name);
  if (failed_) return {};
  const KvLayer& kl = kv_layers_[kv];
  const int64_t heads = at(q).ne[1];
  if (at(q).ne[0] != kl.head_dim_k || kl.n_head_kv == 0 || heads % kl.n_head_kv != 0) {
    error(fmt::format("queries {} do not fit {} KV heads of {}", shape_of(at(q)), kl.n_head_kv,
                      kl.head_dim_k),
          name);
    return {};
  }
  const Bucket& b = params_.bucket;
  const TensorRef pos = positions();
  const TensorRef q_start =
      input(MINFER_INPUT_Q_START, MINFER_TYPE_I32, {static_cast<int64_t>(b.seqs) + 1}, MINFER_NONE,
            MINFER_DYN_NONE, 0, "q_start");
  const TensorRef kv_len =
      input(MINFER_INPUT_KV_LEN, MINFER_TYPE_I32, {b.seqs}, 0, MINFER_DYN_SEQS, 0, "kv_len");
  const TensorRef table = input(MINFER_INPUT_BLOCK_TABLE, MINFER_TYPE_I32, {b.max_pages, b.seqs}, 1,
                                MINFER_DYN_SEQS, kl.group, fmt::format("block_table.{}", kl.group));
  const int64_t ne[2] = {heads * kl.head_dim_v, b.tokens};
  const TensorRef out = activation(MINFER_TYPE_F32, ne, q, name);
  graph_.tensors[out.index].dyn_axis = 1;
  std::vector<uint32_t> src = {q.index, pos.index, q_start.index, kv_len.index, table.index};
  if (sinks) src.push_back(sinks.index);
  return node(MINFER_OP_ATTENTION, std::move(src), out,
              sized(minfer_attention_params{.struct_size = 0,
                                            .kv = kv,
                                            .n_head = static_cast<uint32_t>(heads),
                                            .window = window,
                                            .scale = scale,
                                            .soft_cap = soft_cap,
                                            .causal = 1,
                                            .reserved = 0}),
              std::move(name));
}

TensorRef GraphBuilder::silu(TensorRef x, std::string name) {
  return elementwise(MINFER_OP_SILU, x, {}, std::move(name));
}

TensorRef GraphBuilder::gelu(TensorRef x, uint32_t kind, std::string name) {
  return elementwise(MINFER_OP_GELU, x, sized(minfer_gelu_params{.struct_size = 0, .kind = kind}),
                     std::move(name));
}

TensorRef GraphBuilder::soft_cap(TensorRef x, float cap, std::string name) {
  return elementwise(MINFER_OP_SOFT_CAP, x,
                     sized(minfer_soft_cap_params{.struct_size = 0, .cap = cap}), std::move(name));
}

TensorRef GraphBuilder::softmax(TensorRef x, float scale, std::string name) {
  return elementwise(MINFER_OP_SOFTMAX, x,
                     sized(minfer_softmax_params{.struct_size = 0, .scale = scale}),
                     std::move(name));
}

TensorRef GraphBuilder::concat(TensorRef a, TensorRef b, uint32_t axis, std::string name) {
  if (failed_) return {};
  int64_t ne[4];
  std::copy(at(a).ne, at(a).ne + 4, ne);
  for (uint32_t i = 0; i < 4; ++i) {
    if (i != axis && at(a).ne[i] != at(b).ne[i]) {
      error(fmt::format("cannot join {} and {} along axis {}", shape_of(at(a)), shape_of(at(b)),
                        axis),
            name);
      return {};
    }
  }
  ne[axis & 3] += at(b).ne[axis & 3];
  const TensorRef out = activation(MINFER_TYPE_F32, ne, a, name);
  return node(MINFER_OP_CONCAT, {a.index, b.index}, out,
              sized(minfer_concat_params{.struct_size = 0, .axis = axis}), std::move(name));
}

TensorRef GraphBuilder::top_k(TensorRef x, uint32_t k, std::string name) {
  if (failed_) return {};
  const int64_t ne[2] = {k, at(x).ne[1]};
  const TensorRef out = activation(MINFER_TYPE_I32, ne, x, name);
  return node(MINFER_OP_TOP_K, {x.index}, out, sized(minfer_top_k_params{.struct_size = 0, .k = k}),
              std::move(name));
}

TensorRef GraphBuilder::matmul_by_id(TensorRef weight, TensorRef x, TensorRef ids,
                                     std::string name) {
  if (failed_) return {};
  const int64_t ne[3] = {at(weight).ne[1], at(ids).ne[0], at(ids).ne[1]};
  const TensorRef out = activation(MINFER_TYPE_F32, ne, ids, name);
  graph_.tensors[out.index].dyn_axis = 2;
  return node(MINFER_OP_MATMUL_BY_ID, {weight.index, x.index, ids.index}, out, {}, std::move(name));
}

TensorRef GraphBuilder::arg_max(TensorRef x, std::string name) {
  if (failed_) return {};
  const int64_t ne[1] = {at(x).ne[1]};
  const TensorRef out = activation(MINFER_TYPE_I32, ne, x, name);
  graph_.tensors[out.index].dyn_axis = 0;
  return node(MINFER_OP_ARG_MAX, {x.index}, out, {}, std::move(name));
}

TensorRef GraphBuilder::reshape(TensorRef x, std::initializer_list<int64_t> ne, std::string name) {
  if (failed_) return {};
  GraphTensor view = at(x);
  int64_t count = 1;
  std::fill(view.ne, view.ne + 4, 1);
  std::copy(ne.begin(), ne.end(), view.ne);
  for (int64_t n : view.ne) count *= n;
  int64_t have = 1;
  for (int64_t n : at(x).ne) have *= n;
  if (count != have || !is_contiguous(at(x))) {
    error(fmt::format("cannot view {} as [{}]", shape_of(at(x)), fmt::join(ne, ", ")), name);
    return {};
  }
  set_contiguous(view);
  view.name = std::move(name);
  view.view_of = at(x).view_of == MINFER_NONE ? x.index : at(x).view_of;
  view.kind = MINFER_TENSOR_ACTIVATION;
  if (view.dyn_axis != MINFER_NONE) view.dyn_axis = static_cast<uint32_t>(ne.size() - 1);
  graph_.tensors.push_back(std::move(view));
  return {static_cast<uint32_t>(graph_.tensors.size() - 1)};
}

TensorRef GraphBuilder::slice_rows(TensorRef x, int64_t start, int64_t count, std::string name) {
  if (failed_) return {};
  GraphTensor view = at(x);
  if (start < 0 || count <= 0 || start + count > view.ne[0]) {
    error(fmt::format("cannot take {} from {} of {}", count, start, shape_of(view)), name);
    return {};
  }
  view.view_offset += start * view.nb[0];
  view.ne[0] = count;
  view.name = std::move(name);
  view.view_of = at(x).view_of == MINFER_NONE ? x.index : at(x).view_of;
  view.kind = MINFER_TENSOR_ACTIVATION;
  graph_.tensors.push_back(std::move(view));
  return {static_cast<uint32_t>(graph_.tensors.size() - 1)};
}

void GraphBuilder::set_logits(TensorRef logits) {
  if (failed_) return;
  graph_.logits = logits.index;
  if (params_.with_arg_max) graph_.arg_max = arg_max(logits, "arg_max").index;
}

Result<Graph> GraphBuilder::finish() {
  if (failed_) return tl::make_unexpected(std::move(error_));
  return std::move(graph_);
}

}  // namespace minfer
