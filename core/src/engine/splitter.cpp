#include "engine/splitter.h"

#include <algorithm>
#include <map>
#include <utility>

namespace minfer {
namespace {

const void* params_pointer(const OpParams& params) {
  return std::visit(
      [](const auto& p) -> const void* {
        if constexpr (std::is_same_v<std::decay_t<decltype(p)>, std::monostate>) return nullptr;
        return &p;
      },
      params);
}

uint32_t* kv_field(OpParams& params) {
  if (auto* store = std::get_if<minfer_kv_params>(&params)) return &store->kv;
  if (auto* attention = std::get_if<minfer_attention_params>(&params)) return &attention->kv;
  return nullptr;
}

minfer_tensor describe(const GraphTensor& t) {
  minfer_tensor out{};
  out.struct_size = sizeof out;
  out.type = t.type;
  out.kind = t.kind;
  std::copy(t.ne, t.ne + 4, out.ne);
  std::copy(t.nb, t.nb + 4, out.nb);
  out.dyn_axis = t.dyn_axis;
  out.dyn_count = t.dyn_count;
  out.view_of = MINFER_NONE;
  out.input = t.input;
  out.view_offset = t.view_offset;
  out.weight_id = t.weight_id;
  out.group = t.group;
  out.name = t.name.c_str();
  return out;
}

/// Which tensors the graph's nodes outside `inside` (or the host) read, by owner.
std::vector<bool> read_outside(const Graph& graph, const std::vector<bool>& inside) {
  std::vector<bool> read(graph.tensors.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (inside[n]) continue;
    for (const uint32_t src : graph.nodes[n].src)
      if (src != MINFER_NONE) read[owner_of(graph, src)] = true;
  }
  for (const uint32_t out : {graph.logits, graph.arg_max})
    if (out != MINFER_NONE) read[owner_of(graph, out)] = true;
  return read;
}

}  // namespace

minfer_split Split::table() const {
  minfer_split out{};
  out.struct_size = sizeof out;
  out.n_tensors = static_cast<uint32_t>(tensors.size());
  out.tensor_stride = sizeof(minfer_tensor);
  out.n_nodes = static_cast<uint32_t>(nodes.size());
  out.node_stride = sizeof(minfer_node);
  out.n_kv = static_cast<uint32_t>(kv.size());
  out.kv_stride = sizeof(minfer_kv_desc);
  out.tensors = tensors.data();
  out.nodes = nodes.data();
  out.kv = kv.data();
  out.capacity = &capacity;
  out.model = model;
  return out;
}

uint32_t Split::local(uint32_t graph_tensor_index) const {
  const auto it = std::find(graph_tensor.begin(), graph_tensor.end(), graph_tensor_index);
  return it == graph_tensor.end() ? MINFER_NONE : static_cast<uint32_t>(it - graph_tensor.begin());
}

Split make_split(const Graph& graph, std::span<const uint32_t> nodes, const SplitContext& context) {
  Split split;
  split.model = context.model;
  split.capacity = {.struct_size = sizeof(minfer_capacity),
                    .tokens = graph.bucket.tokens,
                    .seqs = graph.bucket.seqs,
                    .outs = graph.bucket.outs,
                    .max_pages = graph.bucket.max_pages,
                    .n_pos = 1};
  split.graph_nodes.assign(nodes.begin(), nodes.end());

  std::vector<bool> inside(graph.nodes.size(), false);
  size_t n_sources = 0;
  for (const uint32_t n : nodes) {
    inside[n] = true;
    n_sources += graph.nodes[n].src.size();
  }
  const std::vector<bool> escapes = read_outside(graph, inside);

  // Local numbers in order of first use, a view's owner before the view.
  std::vector<uint32_t> local_of(graph.tensors.size(), MINFER_NONE);
  const auto local = [&](uint32_t t) {
    if (t == MINFER_NONE || local_of[t] != MINFER_NONE) return t == MINFER_NONE ? t : local_of[t];
    const uint32_t owner = owner_of(graph, t);
    for (const uint32_t index : {owner, t}) {
      if (local_of[index] != MINFER_NONE) continue;
      minfer_tensor table = describe(graph.tensors[index]);
      const uint32_t producer = graph.tensors[index].producer;
      if (index != owner) {
        table.view_of = local_of[owner];
      } else if (table.kind == MINFER_TENSOR_ACTIVATION) {
        if (producer == MINFER_NONE || !inside[producer]) {
          table.kind = MINFER_TENSOR_INPUT;
          table.input = MINFER_INPUT_HIDDEN;
        } else if (escapes[index]) {
          table.flags |= MINFER_FLAG_ESCAPES;
        }
      }
      local_of[index] = static_cast<uint32_t>(split.tensors.size());
      split.tensors.push_back(table);
      split.graph_tensor.push_back(index);
    }
    return local_of[t];
  };

  std::vector<uint32_t> kv_of(graph.kv.size(), MINFER_NONE);
  const auto local_kv = [&](uint32_t k) {
    if (kv_of[k] == MINFER_NONE) {
      kv_of[k] = static_cast<uint32_t>(split.kv.size());
      minfer_kv_desc desc = graph.kv[k];
      desc.n_pages =
          desc.group < context.pages_of_group.size() ? context.pages_of_group[desc.group] : 0;
      split.kv.push_back(desc);
      split.graph_kv.push_back(k);
    }
    return kv_of[k];
  };

  split.sources_.reserve(n_sources);
  split.params_.reserve(nodes.size());
  split.nodes.reserve(nodes.size());
  for (const uint32_t n : nodes) {
    const GraphNode& node = graph.nodes[n];
    split.params_.push_back(node.params);
    if (uint32_t* kv = kv_field(split.params_.back())) *kv = local_kv(*kv);
    const size_t first = split.sources_.size();
    for (const uint32_t src : node.src) split.sources_.push_back(local(src));
    minfer_node table{};
    table.struct_size = sizeof table;
    table.op = node.op;
    table.revision = node.revision;
    table.n_src = static_cast<uint32_t>(node.src.size());
    table.src = split.sources_.data() + first;
    table.dst = local(node.dst);
    table.unit = node.unit;
    table.params = params_pointer(split.params_.back());
    table.name = node.name.c_str();
    split.nodes.push_back(table);
  }
  return split;
}

SplitPlan split_graph(const Graph& graph, std::span<const size_t> device_of_unit,
                      const SplitContext& context) {
  SplitPlan plan;
  std::vector<uint32_t> split_of_node(graph.nodes.size(), 0);
  std::vector<uint32_t> run;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const size_t device = device_of_unit[graph.nodes[n].unit];
    run.push_back(n);
    split_of_node[n] = static_cast<uint32_t>(plan.splits.size());
    const bool last =
        n + 1 == graph.nodes.size() || device_of_unit[graph.nodes[n + 1].unit] != device;
    if (!last) continue;
    plan.splits.push_back(make_split(graph, run, context));
    plan.splits.back().device = device;
    run.clear();
  }

  // One copy per tensor and device that lacks it: to the first split there that reads it.
  std::map<std::pair<uint32_t, size_t>, bool> resident;
  for (uint32_t s = 0; s < plan.splits.size(); ++s) {
    const Split& split = plan.splits[s];
    for (size_t i = 0; i < split.tensors.size(); ++i) {
      if (split.tensors[i].kind != MINFER_TENSOR_INPUT ||
          split.tensors[i].input != MINFER_INPUT_HIDDEN)
        continue;
      const uint32_t tensor = split.graph_tensor[i];
      const uint32_t from = split_of_node[graph.tensors[tensor].producer];
      if (plan.splits[from].device == split.device) continue;
      if (!std::exchange(resident[{tensor, split.device}], true))
        plan.crossings.push_back({tensor, from, s});
    }
  }
  std::sort(plan.crossings.begin(), plan.crossings.end(), [](const Crossing& a, const Crossing& b) {
    return std::tie(a.from, a.to, a.tensor) < std::tie(b.from, b.to, b.tensor);
  });
  return plan;
}

}  // namespace minfer
