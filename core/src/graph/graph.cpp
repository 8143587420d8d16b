// Graph's own helpers: names of units, row sizes, and the DOT picture.
#include "minfer/graph.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "graph/op_names.h"
#include "minfer/gguf.h"

namespace minfer {

std::string Unit::name() const {
  switch (kind) {
    case UnitKind::kEmbedding:
      return "embedding";
    case UnitKind::kAttention:
      return fmt::format("layer {} attention", layer);
    case UnitKind::kFfn:
      return fmt::format("layer {} ffn", layer);
    case UnitKind::kHead:
      return "head";
  }
  return "unit";
}

uint64_t type_row_bytes(uint32_t type, int64_t n) {
  const TypeInfo* info = find_type(type);
  if (!info || info->block_elements == 0) return 0;
  const auto blocks = (static_cast<uint64_t>(n) + info->block_elements - 1) / info->block_elements;
  return blocks * info->block_bytes;
}

std::string_view op_name(uint32_t op) {
  static constexpr std::array<std::string_view, 18> kNames = {
      "?",       "GetRows", "Add",     "Mul",       "Scale",      "RmsNorm",
      "MatMul",  "RoPE",    "KvStore", "Attention", "Silu",       "Gelu",
      "Softmax", "SoftCap", "Concat",  "TopK",      "MatMulById", "ArgMax"};
  return op < kNames.size() ? kNames[op] : kNames[0];
}

namespace {

std::string shape_text(const GraphTensor& t) {
  const TypeInfo* info = find_type(t.type);
  std::string text = fmt::format("{} [", info ? info->name : "?");
  int last = 3;
  while (last > 0 && t.ne[last] == 1) --last;
  for (int i = 0; i <= last; ++i) text += fmt::format("{}{}", i ? ", " : "", t.ne[i]);
  return text + "]";
}

std::string escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string_view colour(std::string_view device) {
  static constexpr std::array<std::string_view, 6> kColours = {"#dbe9f6", "#fde0c5", "#d9f0d3",
                                                               "#f1d9ee", "#fff3bf", "#e2e2e2"};
  size_t sum = 0;
  for (char c : device) sum = sum * 31 + static_cast<unsigned char>(c);
  return kColours[sum % kColours.size()];
}

}  // namespace

std::string Graph::to_dot(std::span<const std::string> device_of_unit) const {
  std::string out =
      "digraph minfer {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"monospace\", "
      "fontsize=10, fillcolor=\"#f4f4f4\"];\n";
  const auto root = [&](uint32_t t) {
    return tensors[t].view_of == MINFER_NONE ? t : tensors[t].view_of;
  };
  std::vector<bool> drawn(tensors.size(), false);
  for (size_t u = 0; u < units.size(); ++u) {
    const bool placed = u < device_of_unit.size();
    out += fmt::format("  subgraph cluster_{} {{\n    label=\"{}{}{}\"; color=\"#b0b0b0\";\n", u,
                       escape(units[u].name()), placed ? " on " : "",
                       placed ? escape(device_of_unit[u]) : "");
    for (size_t n = 0; n < nodes.size(); ++n) {
      const GraphNode& node = nodes[n];
      if (node.unit != u) continue;
      const std::string result =
          node.dst == MINFER_NONE ? std::string("KV pages") : shape_text(tensors[node.dst]);
      out += fmt::format(
          "    n{} [label=\"{}\\n{}\\n{}\"{}];\n", n, op_name(node.op), escape(node.name), result,
          placed ? fmt::format(", fillcolor=\"{}\"", colour(device_of_unit[u])) : "");
    }
    out += "  }\n";
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (uint32_t src : nodes[n].src) {
      if (src == MINFER_NONE) continue;
      const uint32_t r = root(src);
      const GraphTensor& t = tensors[r];
      if (t.producer != MINFER_NONE) {
        out += fmt::format("  n{} -> n{};\n", t.producer, n);
        continue;
      }
      if (!drawn[r]) {
        drawn[r] = true;
        out += fmt::format("  t{} [shape={}, label=\"{}\\n{}\"];\n", r,
                           t.kind == MINFER_TENSOR_WEIGHT ? "note" : "ellipse", escape(t.name),
                           shape_text(t));
      }
      out += fmt::format("  t{} -> n{};\n", r, n);
    }
  }
  return out + "}\n";
}

}  // namespace minfer
