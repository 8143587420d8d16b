// Reading and checking a split (see graph.h).
#include "graph.h"

#include <algorithm>

#include "../kernels/layout.h"
#include "abi_read.h"
#include "ops.h"

namespace minfer_cuda {
namespace {

uint64_t params_size(uint32_t op) {
  switch (op) {
    case MINFER_OP_SCALE:
      return sizeof(minfer_scale_params);
    case MINFER_OP_RMS_NORM:
      return sizeof(minfer_norm_params);
    case MINFER_OP_ROPE:
      return sizeof(minfer_rope_params);
    case MINFER_OP_KV_STORE:
      return sizeof(minfer_kv_params);
    case MINFER_OP_ATTENTION:
      return sizeof(minfer_attention_params);
    case MINFER_OP_GELU:
      return sizeof(minfer_gelu_params);
    case MINFER_OP_SOFT_CAP:
      return sizeof(minfer_soft_cap_params);
    case MINFER_OP_SOFTMAX:
      return sizeof(minfer_softmax_params);
    case MINFER_OP_CONCAT:
      return sizeof(minfer_concat_params);
    case MINFER_OP_TOP_K:
      return sizeof(minfer_top_k_params);
    default:
      return 0;
  }
}

Tensor read_tensor(const minfer_tensor& from, uint32_t index, uint32_t n_tensors) {
  Tensor t;
  t.name = from.name ? from.name : text("tensor ", index);
  t.type = from.type;
  t.kind = from.kind;
  t.flags = from.flags;
  std::copy(std::begin(from.ne), std::end(from.ne), t.ne);
  std::copy(std::begin(from.nb), std::end(from.nb), t.nb);
  t.dyn_axis = from.dyn_axis;
  t.dyn_count = from.dyn_count;
  t.view_of = from.view_of;
  t.input = from.input;
  t.view_offset = from.view_offset;
  t.weight_id = from.weight_id;
  for (int64_t n : t.ne) {
    if (n < 0 || n > INT32_MAX) {
      throw PluginError(MINFER_INVALID, text(t.name, ": a dimension of ", n));
    }
  }
  if (t.view_of != kNone && t.view_of >= n_tensors) {
    throw PluginError(MINFER_INVALID,
                      text(t.name, ": view of tensor ", t.view_of, " of ", n_tensors));
  }
  if (t.dyn_axis != kNone && t.dyn_axis > 3) {
    throw PluginError(MINFER_INVALID, text(t.name, ": dynamic axis ", t.dyn_axis));
  }
  return t;
}

Node read_node(const minfer_node& from, uint32_t index, uint32_t n_tensors) {
  Node n;
  n.op = from.op;
  n.revision = from.revision;
  n.dst = from.dst;
  n.name = from.name ? from.name : text("node ", index);
  n.src.assign(from.src, from.src + from.n_src);
  for (uint32_t s : n.src) {
    if (s != kNone && s >= n_tensors) {
      throw PluginError(MINFER_INVALID, text(n.name, ": source tensor ", s, " of ", n_tensors));
    }
  }
  if (n.dst != kNone && n.dst >= n_tensors) {
    throw PluginError(MINFER_INVALID, text(n.name, ": destination tensor ", n.dst));
  }
  const uint64_t size = params_size(n.op);
  if (size > 0) {
    if (!from.params) throw PluginError(MINFER_INVALID, text(n.name, ": no parameters"));
    uint32_t given = 0;
    std::memcpy(&given, from.params, sizeof given);
    std::memcpy(&n.params, from.params, std::min<uint64_t>(given, size));
  }
  return n;
}

KvPages read_kv(const minfer_kv_desc& kv) {
  KvPages pages;
  pages.type = kv.type;
  pages.n_head = static_cast<int32_t>(kv.n_head_kv);
  pages.dim_k = static_cast<int32_t>(kv.head_dim_k);
  pages.dim_v = static_cast<int32_t>(kv.head_dim_v);
  pages.page_tokens = static_cast<int32_t>(kv.page_tokens);
  require_kv(pages);
  lay_out_page(pages);
  return pages;
}

void check_views(const Graph& g) {
  for (const Tensor& t : g.tensors) {
    if (t.view_of == kNone) continue;
    const Tensor& owner = g.tensors[t.view_of];
    if (owner.view_of != kNone) {
      throw PluginError(MINFER_INVALID, text(t.name, ": view of a view, ", owner.name));
    }
    if (t.view_offset < 0 || t.view_offset + t.extent() > owner.extent()) {
      throw PluginError(MINFER_INVALID,
                        text(t.name, ": bytes ", t.view_offset, " to ", t.view_offset + t.extent(),
                             " lie outside ", owner.name, " of ", owner.extent()));
    }
  }
}

}  // namespace

int64_t Tensor::extent() const {
  if (elements() == 0) return 0;
  const TypeLayout* layout = is_weight() ? find_layout(type) : nullptr;
  int64_t last = 0;
  for (int d = 0; d < 4; ++d) {
    const int64_t n = d == 0 && layout ? ne[0] / (layout->block_k == 256 ? 256 : 1) : ne[d];
    if (n > 0) last += (n - 1) * nb[d];
  }
  return last + nb[0];
}

Graph read_graph(const minfer_split& given) {
  const minfer_split split = read_struct(&given);
  Graph g;
  g.model = split.model;
  g.capacity = read_struct(split.capacity);
  for (uint32_t i = 0; i < split.n_tensors; ++i) {
    g.tensors.push_back(
        read_tensor(read_element(split.tensors, split.tensor_stride, i), i, split.n_tensors));
  }
  for (uint32_t i = 0; i < split.n_kv; ++i) {
    g.kv.push_back(read_kv(read_element(split.kv, split.kv_stride, i)));
  }
  check_views(g);
  for (uint32_t i = 0; i < split.n_nodes; ++i) {
    g.nodes.push_back(
        read_node(read_element(split.nodes, split.node_stride, i), i, split.n_tensors));
    require_node(g, i);
  }
  return g;
}

namespace {

bool is_single_row(const Tensor& t) {
  return t.type == MINFER_TYPE_F32 && t.nb[0] == 4 && t.ne[1] * t.ne[2] * t.ne[3] == 1;
}

bool gathers_single_row(const Graph& graph, const Node& node) {
  if (node.op != MINFER_OP_GET_ROWS) return false;
  const Tensor &table = graph.tensors[node.src[0]], &out = graph.tensors[node.dst];
  const bool observed = (out.flags & (MINFER_FLAG_ESCAPES | MINFER_FLAG_KEEP)) != 0;
  return !table.is_weight() && is_single_row(table) && is_single_row(out) && !observed &&
         out.view_of == kNone && table.ne[0] == out.ne[0];
}

}  // namespace

void drop_single_row_gathers(Graph& graph) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    Node& gather = graph.nodes[i];
    if (!gathers_single_row(graph, gather)) continue;
    const uint32_t table = gather.src[0], out = gather.dst;
    for (Node& node : graph.nodes) std::replace(node.src.begin(), node.src.end(), out, table);
    for (Tensor& view : graph.tensors) {
      if (view.view_of != out) continue;
      view.view_of = graph.base(table);
      view.view_offset += graph.tensors[table].view_offset;
    }
    gather.op = kDropped;
    gather.src.clear();
    gather.dst = kNone;
  }
}

}  // namespace minfer_cuda
