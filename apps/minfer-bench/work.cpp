#include "work.h"

#include <algorithm>
#include <map>

namespace minfer::bench {
namespace {

/// Sum of min(p + 1, window) over positions p in [start, start + n): what n causal queries look at.
double seen(uint32_t start, uint32_t n, uint32_t window) {
  const double first = start + 1.0;
  const double last = static_cast<double>(start) + n;
  const double w = window == 0 ? last : window;
  if (first > w) return n * w;
  const double growing = std::min(last, w) - first + 1;
  return growing * (first + std::min(last, w)) / 2 + (n - growing) * w;
}

}  // namespace

Result<ModelCost> ModelCost::create(const Model& model, uint32_t kv_type) {
  MINFER_ASSIGN(const Graph graph,
                model.build({.bucket = {1, 1, 1, 1}, .kv_type = kv_type, .page_tokens = 1}));
  ModelCost out;
  std::map<uint32_t, double> bytes_of_type;
  for (const GraphNode& node : graph.nodes) {
    if (node.op == MINFER_OP_ATTENTION) {
      const auto& p = std::get<minfer_attention_params>(node.params);
      const minfer_kv_desc& kv = graph.kv[p.kv];
      const auto dims = static_cast<double>(kv.head_dim_k + kv.head_dim_v);
      const auto bytes = static_cast<double>(type_row_bytes(kv_type, kv.head_dim_k) +
                                             type_row_bytes(kv_type, kv.head_dim_v));
      out.attentions_.push_back({p.window, 2 * dims * p.n_head, bytes * kv.n_head_kv});
    }
    const bool experts = node.op == MINFER_OP_MATMUL_BY_ID;
    if (node.op != MINFER_OP_MATMUL && !experts) continue;
    const GraphTensor& w = graph.tensors[node.src[0]];
    const GraphTensor& y = graph.tensors[node.dst];
    Matrix m;
    m.bytes = static_cast<double>(type_row_bytes(w.type, w.ne[0])) *
              static_cast<double>(w.ne[1] * w.ne[2]);
    m.flops = 2.0 * static_cast<double>(w.ne[0] * w.ne[1]);
    m.per_output = y.dyn_count == MINFER_DYN_OUTS;
    if (experts) {
      const auto chosen = static_cast<double>(graph.tensors[node.src[2]].ne[0]);
      m.flops *= chosen;
      m.part = chosen / static_cast<double>(w.ne[2]);
    }
    bytes_of_type[w.type] += m.bytes;
    out.matrices_.push_back(m);
  }
  const auto main =
      std::max_element(bytes_of_type.begin(), bytes_of_type.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (main != bytes_of_type.end()) out.main_type_ = main->first;
  return out;
}

void ModelCost::add_step(std::vector<Span> spans, uint32_t outputs, Work& sum) const {
  double tokens = 0;
  for (const Span& s : spans) tokens += s.tokens;
  for (const Matrix& m : matrices_) {
    const double rows = m.per_output ? outputs : tokens;
    sum.flops += m.flops * rows;
    sum.bytes += m.bytes * std::min(1.0, m.part * rows);
  }
  for (const Attention& a : attentions_) {
    for (const Span& s : spans) {
      sum.flops += a.flops * seen(s.start, s.tokens, a.window);
      const uint32_t held = s.start + s.tokens;
      const uint32_t kept = a.window == 0 ? held : std::min(held, a.window + s.tokens - 1);
      sum.bytes += a.bytes * kept;
    }
  }
}

Work ModelCost::of(const app::Workload& w, uint32_t step_tokens) const {
  Work sum;
  if (w.beside > 0) {
    const uint32_t chunk = step_tokens - w.beside;
    for (uint32_t at = 0, step = 0; at < w.prompt; at += chunk, ++step) {
      const uint32_t n = std::min(chunk, w.prompt - at);
      std::vector<Span> spans(w.beside, Span{w.depth + step, 1});
      spans.push_back({w.depth + at, n});
      add_step(std::move(spans), w.beside + (at + n == w.prompt ? 1 : 0), sum);
    }
    return sum;
  }
  Work prompts;
  for (uint32_t at = 0; at < w.prompt; at += step_tokens) {
    const uint32_t n = std::min(step_tokens, w.prompt - at);
    add_step({{w.depth + at, n}}, at + n == w.prompt ? 1 : 0, prompts);
  }
  sum.bytes += prompts.bytes * w.batch;
  sum.flops += prompts.flops * w.batch;
  for (uint32_t i = 0; i < w.generate; ++i)
    add_step(std::vector<Span>(w.batch, Span{w.depth + w.prompt + i, 1}), w.batch, sum);
  return sum;
}

}  // namespace minfer::bench
