// Reading a split: everything that later passes rely on is checked here.
#include "graph.h"

#include <cstdio>

#include "abi_read.h"
#include "minfer/quant_blocks.h"

namespace minfer_cpu {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 60;
constexpr uint32_t kMaxItems = 1u << 24;
constexpr uint32_t kMaxSources = 16;

long long show(int64_t value) {
  return static_cast<long long>(value);
}

// a * b + c within [0, kMaxBytes]; false otherwise.
bool multiply_add(int64_t a, int64_t b, int64_t c, int64_t& out) {
  return !__builtin_mul_overflow(a, b, &out) && !__builtin_add_overflow(out, c, &out) && out >= 0 &&
         out <= kMaxBytes;
}

void check_dims(const Tensor& t) {
  int64_t elements = 1;
  for (int64_t n : t.ne) {
    if (n < 0 || !multiply_add(elements, n, 0, elements)) {
      throw Failure(MINFER_INVALID, "tensor %s: dimensions %s are negative or too large",
                    t.name.c_str(), shape_text(t).c_str());
    }
  }
}

void check_strides(Tensor& t) {
  const int64_t size = minfer_type_bytes(t.type);
  if (minfer_type_values(t.type) != 1) {
    throw Failure(MINFER_INVALID, "tensor %s: type %s is for weights only", t.name.c_str(),
                  minfer_type_name(t.type));
  }
  if (t.nb[0] != size) {
    throw Failure(MINFER_INVALID, "tensor %s: nb[0] is %lld, its type %s has %lld bytes",
                  t.name.c_str(), show(t.nb[0]), minfer_type_name(t.type), show(size));
  }
  t.span_bytes = size;
  for (int i = 0; i < 4; ++i) {
    const int64_t steps = t.ne[i] > 0 ? t.ne[i] - 1 : 0;
    if (t.nb[i] < 0 || t.nb[i] % size != 0 ||
        !multiply_add(t.nb[i], steps, t.span_bytes, t.span_bytes)) {
      throw Failure(MINFER_INVALID,
                    "tensor %s: stride nb[%d] = %lld is not a multiple of %lld in range",
                    t.name.c_str(), i, show(t.nb[i]), show(size));
    }
  }
  if (t.elements() == 0) t.span_bytes = 0;
}

void check_dynamic(const Tensor& t, const minfer_tensor& raw) {
  if (raw.dyn_axis == MINFER_NONE || raw.dyn_count == MINFER_DYN_NONE) return;
  if (raw.dyn_axis > 3 || raw.dyn_count > MINFER_DYN_OUTS) {
    throw Failure(MINFER_INVALID, "tensor %s: dynamic axis %u, count %u; expected 0..3 and 1..3",
                  t.name.c_str(), raw.dyn_axis, raw.dyn_count);
  }
}

Tensor read_tensor(const uint8_t* from, uint32_t index, uint32_t n_tensors) {
  const auto raw = read_struct<minfer_tensor>(from, "minfer_tensor");
  Tensor t;
  t.name = raw.name != nullptr ? raw.name : "#" + std::to_string(index);
  t.type = raw.type;
  t.kind = raw.kind;
  t.flags = raw.flags;
  t.weight_id = raw.weight_id;
  t.view_offset = raw.view_offset;
  for (int i = 0; i < 4; ++i) {
    t.ne[i] = raw.ne[i];
    t.nb[i] = raw.nb[i];
  }
  if (raw.kind > MINFER_TENSOR_WEIGHT) {
    throw Failure(MINFER_INVALID, "tensor %s: kind %u is unknown", t.name.c_str(), raw.kind);
  }
  check_dims(t);
  check_dynamic(t, raw);
  if (raw.dyn_axis != MINFER_NONE && raw.dyn_count != MINFER_DYN_NONE) {
    t.dyn_axis = raw.dyn_axis;
    t.dyn = static_cast<Dyn>(raw.dyn_count);
  }
  t.owner = raw.view_of == MINFER_NONE ? index : raw.view_of;
  if (t.owner >= n_tensors) {
    throw Failure(MINFER_INVALID, "tensor %s: view_of is %u, there are %u tensors", t.name.c_str(),
                  raw.view_of, n_tensors);
  }
  if (t.is_weight()) {
    if (raw.view_of != MINFER_NONE) {
      throw Failure(MINFER_INVALID, "tensor %s: a weight cannot be a view", t.name.c_str());
    }
  } else if (minfer_type_values(t.type) != 0) {
    check_strides(t);
  } else {
    throw Failure(MINFER_INVALID, "tensor %s: type %u is unknown", t.name.c_str(), t.type);
  }
  return t;
}

void check_views(const Graph& graph) {
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    if (t.owner == i) continue;
    const Tensor& owner = graph.tensors[t.owner];
    if (owner.owner != t.owner || owner.is_weight()) {
      throw Failure(MINFER_INVALID, "tensor %s: it views %s, which is itself a view or a weight",
                    t.name.c_str(), owner.name.c_str());
    }
    if (t.view_offset < 0 || t.view_offset % minfer_type_bytes(t.type) != 0 ||
        t.view_offset > kMaxBytes || t.view_offset + t.span_bytes > owner.span_bytes) {
      throw Failure(MINFER_INVALID,
                    "tensor %s: bytes %lld to %lld lie outside its owner %s of %lld bytes",
                    t.name.c_str(), show(t.view_offset), show(t.view_offset + t.span_bytes),
                    owner.name.c_str(), show(owner.span_bytes));
    }
  }
}

template <class T>
void read_params(const minfer_node& raw, const Node& node, T& out) {
  if (raw.params == nullptr) {
    throw Failure(MINFER_INVALID, "node %s: %s has no parameters", node.name.c_str(),
                  op_name(node.op));
  }
  out = read_struct<T>(raw.params, "parameters of a node");
}

void read_params(const minfer_node& raw, Node& node) {
  switch (node.op) {
    case MINFER_OP_SCALE:
      return read_params(raw, node, node.params.scale);
    case MINFER_OP_RMS_NORM:
      return read_params(raw, node, node.params.norm);
    case MINFER_OP_ROPE:
      return read_params(raw, node, node.params.rope);
    case MINFER_OP_KV_STORE:
      return read_params(raw, node, node.params.kv);
    case MINFER_OP_ATTENTION:
      return read_params(raw, node, node.params.attention);
    case MINFER_OP_GELU:
      return read_params(raw, node, node.params.gelu);
    case MINFER_OP_SOFTMAX:
      return read_params(raw, node, node.params.softmax);
    case MINFER_OP_SOFT_CAP:
      return read_params(raw, node, node.params.soft_cap);
    case MINFER_OP_CONCAT:
      return read_params(raw, node, node.params.concat);
    case MINFER_OP_TOP_K:
      return read_params(raw, node, node.params.top_k);
    default:
      return;
  }
}

Node read_node(const uint8_t* from, uint32_t index, const Graph& graph) {
  const auto raw = read_struct<minfer_node>(from, "minfer_node");
  Node node;
  node.name = raw.name != nullptr ? raw.name : "#" + std::to_string(index);
  node.op = raw.op;
  node.revision = raw.revision;
  node.dst = raw.dst;
  if (raw.n_src > kMaxSources || (raw.n_src > 0 && raw.src == nullptr)) {
    throw Failure(MINFER_INVALID, "node %s: %u sources at %s", node.name.c_str(), raw.n_src,
                  raw.src == nullptr ? "NULL" : "an array; 16 is the most");
  }
  node.src.assign(raw.src, raw.src + raw.n_src);
  for (uint32_t source : node.src) {
    if (source != MINFER_NONE && source >= graph.tensors.size()) {
      throw Failure(MINFER_INVALID, "node %s: source %u, there are %zu tensors", node.name.c_str(),
                    source, graph.tensors.size());
    }
  }
  if (node.dst != MINFER_NONE &&
      (node.dst >= graph.tensors.size() ||
       graph.tensors[graph.tensors[node.dst].owner].kind != MINFER_TENSOR_ACTIVATION)) {
    throw Failure(MINFER_INVALID, "node %s: its destination %u is no activation", node.name.c_str(),
                  node.dst);
  }
  read_params(raw, node);
  return node;
}

void check_array(const void* array, uint32_t stride, uint32_t n, const char* what) {
  if (n > kMaxItems || (n > 0 && (array == nullptr || stride < sizeof(uint32_t)))) {
    throw Failure(MINFER_INVALID, "split: %u %s at %p with a stride of %u bytes", n, what, array,
                  stride);
  }
}

}  // namespace

bool Tensor::contiguous() const {
  int64_t expected = nb[0];
  for (int i = 0; i < 4; ++i) {
    if (ne[i] != 1 && nb[i] != expected) return false;
    expected *= ne[i];
  }
  return true;
}

uint32_t Tensor::row_axis() const {
  if (dyn_axis != MINFER_NONE) return dyn_axis;
  for (uint32_t axis = 3; axis > 0; --axis) {
    if (ne[axis] > 1) return axis;
  }
  return 1;
}

Graph read_split(const minfer_split* split) {
  const auto raw = read_struct<minfer_split>(split, "minfer_split");
  check_array(raw.tensors, raw.tensor_stride, raw.n_tensors, "tensors");
  check_array(raw.nodes, raw.node_stride, raw.n_nodes, "nodes");
  check_array(raw.kv, raw.kv_stride, raw.n_kv, "KV regions");
  Graph graph;
  graph.model = raw.model;
  graph.capacity = read_struct<minfer_capacity>(raw.capacity, "minfer_capacity");
  for (uint32_t i = 0; i < raw.n_kv; ++i) {
    graph.kv.push_back(
        read_struct<minfer_kv_desc>(element(raw.kv, raw.kv_stride, i), "minfer_kv_desc"));
  }
  for (uint32_t i = 0; i < raw.n_tensors; ++i) {
    graph.tensors.push_back(
        read_tensor(element(raw.tensors, raw.tensor_stride, i), i, raw.n_tensors));
  }
  check_views(graph);
  for (uint32_t i = 0; i < raw.n_nodes; ++i) {
    graph.nodes.push_back(read_node(element(raw.nodes, raw.node_stride, i), i, graph));
  }
  return graph;
}

const char* op_name(uint32_t op) {
  static constexpr const char* kNames[] = {
      "operator", "GET_ROWS", "ADD",      "MUL",       "SCALE",        "RMS_NORM",
      "MATMUL",   "ROPE",     "KV_STORE", "ATTENTION", "SILU",         "GELU",
      "SOFTMAX",  "SOFT_CAP", "CONCAT",   "TOP_K",     "MATMUL_BY_ID", "ARG_MAX"};
  return op < sizeof kNames / sizeof kNames[0] ? kNames[op] : kNames[0];
}

std::string shape_text(const Tensor& t) {
  char text[96];
  std::snprintf(text, sizeof text, "[%lld, %lld, %lld, %lld]", show(t.ne[0]), show(t.ne[1]),
                show(t.ne[2]), show(t.ne[3]));
  return text;
}

}  // namespace minfer_cpu
