// Emission of steps: the frame, elementwise operators, norms and gathers (see plan_builder.h).
// Matrix and attention steps are in plan_builder_matmul.cpp and plan_builder_attention.cpp.
#include "plan_builder.h"

#include <algorithm>

#include "../kernels/basic.h"

namespace minfer_cuda {

PlanBuilder::PlanBuilder(const Caps& caps, const Gates& gates, Program& program)
    : caps_(caps), gates_(gates), program_(program), fusion_(program.graph, caps, gates) {}

void PlanBuilder::build() {
  const Graph& graph = program_.graph;
  program_.reports.resize(graph.nodes.size());
  program_.item_of_tensor.assign(graph.tensors.size(), kNone);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (fusion_.absorbed_into(n) == kNone) emit_node(n);
  }
  // Kept tensors must hold their value to the end of the run.
  const auto last = static_cast<uint32_t>(program_.steps.size());
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const uint32_t item = program_.item_of_tensor[graph.base(t)];
    if ((graph.tensors[t].flags & MINFER_FLAG_KEEP) && item != kNone) touch_item(item, last);
  }
  program_.workspace_bytes = place_items(program_.items);
}

void PlanBuilder::emit_node(uint32_t n) {
  switch (node(n).op) {
    case kDropped:
      return label(n, "none: the only row");
    case MINFER_OP_GET_ROWS:
      return emit_gather(n);
    case MINFER_OP_RMS_NORM:
      return emit_norm(n);
    case MINFER_OP_MATMUL:
      return emit_matmul(n);
    case MINFER_OP_MATMUL_BY_ID:
      return emit_experts(n);
    case MINFER_OP_ROPE:
      return emit_rope(n);
    case MINFER_OP_KV_STORE:
      return emit_store(n);
    case MINFER_OP_ATTENTION:
      return emit_attention(n);
    case MINFER_OP_CONCAT:
      return emit_concat(n);
    case MINFER_OP_SOFTMAX:
    case MINFER_OP_TOP_K:
    case MINFER_OP_ARG_MAX:
      return emit_selection(n);
    default:
      if (fusion_.gate_of(n) != kNone) return emit_gated(n);
      return emit_elementwise(n);
  }
}

void PlanBuilder::add_step(uint32_t n, std::initializer_list<uint32_t> tensors,
                           std::initializer_list<uint32_t> items, uint32_t launches,
                           Launch launch) {
  const auto step = static_cast<uint32_t>(program_.steps.size());
  for (uint32_t t : tensors) touch_tensor(t, step);
  for (uint32_t i : items) touch_item(i, step);
  program_.steps.push_back({n, launches, std::move(launch)});
}

void PlanBuilder::touch_tensor(uint32_t t, uint32_t step) {
  if (t == kNone) return;
  const uint32_t base = program_.graph.base(t);
  const Tensor& owner = tensor(base);
  if (owner.kind != MINFER_TENSOR_ACTIVATION || (owner.flags & MINFER_FLAG_ESCAPES)) return;
  uint32_t& item = program_.item_of_tensor[base];
  if (item == kNone) item = new_item(static_cast<uint64_t>(owner.extent()));
  touch_item(item, step);
}

void PlanBuilder::touch_item(uint32_t item, uint32_t step) {
  if (item == kNone) return;
  WorkItem& w = program_.items[item];
  w.first = w.first == kNone ? step : std::min(w.first, step);
  w.last = std::max(w.last, step);
}

uint32_t PlanBuilder::new_item(uint64_t bytes) {
  WorkItem item;
  item.bytes = bytes;
  program_.items.push_back(item);
  return static_cast<uint32_t>(program_.items.size() - 1);
}

void PlanBuilder::label(uint32_t n, std::string kernel, std::string why) {
  program_.reports[n].kernel = std::move(kernel);
  program_.reports[n].why = std::move(why);
}

void PlanBuilder::fused(uint32_t n, uint32_t anchor, std::string kernel) {
  if (n == kNone) return;
  program_.reports[n].fused_into = anchor;
  program_.reports[n].kernel = std::move(kernel);
}

uint32_t PlanBuilder::produced_int8(uint32_t t) {
  if (gates_.on(Gate::kNoDecodeActFuse) || gates_.on(Gate::kReference)) return kNone;
  if (!fusion_.wants_int8(t) || tensor(t).ne[0] % 32 != 0) return kNone;
  const uint32_t item = new_item(int8_rows_bytes(tensor(t).ne[0], tensor(t).ne[1]));
  int8_items_[t] = item;
  return item;
}

uint32_t PlanBuilder::int8_item(uint32_t n, uint32_t t) {
  if (const auto it = int8_items_.find(t); it != int8_items_.end()) return it->second;
  const int64_t id = tensor(t).ne[0], tokens = tensor(t).ne[1];
  const uint32_t item = new_item(int8_rows_bytes(id, tokens));
  int8_items_[t] = item;
  add_step(n, {t}, {item}, 1, [=](const Bound& b, cudaStream_t stream) {
    const View x = b.view(t);
    return launch_quantize(b.at(t), x.nb[1] / 4, x.ne[0], x.ne[1], b.valid(t),
                           int8_rows_at(b.item[item], id, tokens), b.overlap, stream);
  });
  return item;
}

uint32_t PlanBuilder::half_item(uint32_t n, uint32_t t) {
  if (const auto it = half_items_.find(t); it != half_items_.end()) return it->second;
  const int64_t id = tensor(t).ne[0], tokens = tensor(t).ne[1];
  const uint32_t item = new_item(half_rows_bytes(id, tokens));
  half_items_[t] = item;
  add_step(n, {t}, {item}, 1, [=](const Bound& b, cudaStream_t stream) {
    const View x = b.view(t);
    return launch_to_half(b.at(t), x.nb[1] / 4, x.ne[0], x.ne[1], b.valid(t),
                          half_rows_at(b.item[item], id, tokens), stream);
  });
  return item;
}

void PlanBuilder::emit_gather(uint32_t n) {
  const uint32_t table = node(n).src[0], rows = node(n).src[1], out = node(n).dst;
  if (tensor(table).is_weight()) {
    const uint32_t type = tensor(table).type;
    const auto id = static_cast<int>(tensor(table).ne[0]);
    add_step(n, {out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
      return launch_gather(type, b.at<uint8_t>(table), id, b.at<int32_t>(rows), b.view(out),
                           b.limit(out), stream);
    });
    return label(n, "get_rows/tile32");
  }
  add_step(n, {table, out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
    return launch_gather_rows(b.view(table), b.at<int32_t>(rows), b.view(out), b.limit(out),
                              stream);
  });
  label(n, "get_rows/f32");
}

namespace {

struct UnaryCall {
  UnaryFn fn;
  float p0, p1;
  const char* name;
};

UnaryFn gelu_fn(uint32_t kind) {
  return kind == MINFER_GELU_ERF     ? UnaryFn::kGeluErf
         : kind == MINFER_GELU_QUICK ? UnaryFn::kGeluQuick
                                     : UnaryFn::kGeluTanh;
}

UnaryCall unary_call(const Node& node) {
  switch (node.op) {
    case MINFER_OP_SILU:
      return {UnaryFn::kSilu, 0.f, 0.f, "silu"};
    case MINFER_OP_GELU:
      return {gelu_fn(node.params.gelu.kind), 0.f, 0.f, "gelu"};
    case MINFER_OP_SOFT_CAP:
      return {UnaryFn::kSoftCap, node.params.soft_cap.cap, 0.f, "soft_cap"};
    default:
      return {UnaryFn::kScale, node.params.scale.factor, node.params.scale.offset, "scale"};
  }
}

}  // namespace

GateFn gate_fn(const Node& node) {
  if (node.op == MINFER_OP_SILU) return GateFn::kSilu;
  return node.params.gelu.kind == MINFER_GELU_ERF     ? GateFn::kGeluErf
         : node.params.gelu.kind == MINFER_GELU_QUICK ? GateFn::kGeluQuick
                                                      : GateFn::kGeluTanh;
}

void PlanBuilder::emit_elementwise(uint32_t n) {
  const uint32_t a = node(n).src[0], out = node(n).dst;
  if (node(n).op == MINFER_OP_ADD || node(n).op == MINFER_OP_MUL) {
    const uint32_t b_index = node(n).src[1];
    const BinaryFn fn = node(n).op == MINFER_OP_ADD ? BinaryFn::kAdd : BinaryFn::kMul;
    add_step(n, {a, b_index, out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
      return launch_binary(fn, b.view(out), b.view(a), b.view(b_index), b.limit(out), stream);
    });
    return label(n, fn == BinaryFn::kAdd ? "add" : "mul");
  }
  const UnaryCall call = unary_call(node(n));
  add_step(n, {a, out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
    return launch_unary(call.fn, call.p0, call.p1, b.view(out), b.view(a), b.limit(out), stream);
  });
  label(n, call.name);
}

void PlanBuilder::emit_norm(uint32_t n) {
  const uint32_t x = node(n).src[0], w = node(n).source(1), out = node(n).dst;
  const minfer_norm_params p = node(n).params.norm;
  const bool rows = is_rows(tensor(x)) && is_rows(tensor(out)) &&
                    (tensor(out).dyn_axis == kNone || tensor(out).dyn_axis == 1);
  if (!rows) {
    add_step(n, {x, out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
      return launch_norm_strided(b.view(out), b.view(x), b.at(w), p.weight_offset, p.eps,
                                 b.limit(out), stream);
    });
    return label(n, "rms_norm/strided");
  }
  if (fusion_.only_fragments(out)) return emit_norm_to_fragments(n);
  const uint32_t int8 = produced_int8(out);
  const bool f32 = int8 == kNone || fusion_.wants_f32(out);
  const int64_t id = tensor(out).ne[0], tokens = tensor(out).ne[1];
  add_step(n, {x, f32 ? out : kNone}, {int8}, 1, [=](const Bound& b, cudaStream_t stream) {
    ActivationOut to;
    if (f32) to.f32 = b.at(out), to.f32_stride = b.view(out).nb[1] / 4;
    if (int8 != kNone) to.int8 = int8_rows_at(b.item[int8], id, tokens);
    return launch_norm_rows(b.at(x), b.view(x).nb[1] / 4, b.at(w), p.weight_offset, p.eps,
                            static_cast<int>(id), static_cast<int>(tokens), b.valid(out), to,
                            b.overlap, stream);
  });
  label(n, int8 == kNone ? "rms_norm" : f32 ? "rms_norm+int8" : "rms_norm+int8, no f32");
}

void PlanBuilder::emit_gated(uint32_t n) {
  const uint32_t fn_node = fusion_.gate_of(n), out = node(n).dst;
  const uint32_t gate = node(fn_node).src[0];
  const uint32_t up = node(n).src[node(n).src[0] == node(fn_node).dst ? 1 : 0];
  const GateFn fn = gate_fn(node(fn_node));
  const bool fits = tensor(out).dyn_axis == kNone || tensor(out).dyn_axis == 1;
  const uint32_t int8 = fits ? produced_int8(out) : kNone;
  const bool f32 = int8 == kNone || fusion_.wants_f32(out);
  const int64_t id = tensor(out).ne[0], tokens = tensor(out).ne[1];
  add_step(n, {gate, up, f32 ? out : kNone}, {int8}, 1, [=](const Bound& b, cudaStream_t stream) {
    ActivationOut to;
    if (f32) to.f32 = b.at(out), to.f32_stride = b.view(out).nb[1] / 4;
    if (int8 != kNone) to.int8 = int8_rows_at(b.item[int8], id, tokens);
    return launch_gated_rows(fn, b.at(gate), b.view(gate).nb[1] / 4, b.at(up), b.view(up).nb[1] / 4,
                             static_cast<int>(id), static_cast<int>(tokens), b.valid(out), to,
                             b.overlap, stream);
  });
  const char* kernel = int8 == kNone ? "gated" : f32 ? "gated+int8" : "gated+int8, no f32";
  label(n, kernel);
  fused(fn_node, n, kernel);
}

void PlanBuilder::emit_selection(uint32_t n) {
  const uint32_t x = node(n).src[0], out = node(n).dst;
  if (node(n).op == MINFER_OP_SOFTMAX) {
    const float scale = node(n).params.softmax.scale;
    add_step(n, {x, out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
      return launch_softmax(scale, b.view(out), b.view(x), b.limit(x), stream);
    });
    return label(n, "softmax");
  }
  if (node(n).op == MINFER_OP_TOP_K) {
    const auto k = static_cast<int>(node(n).params.top_k.k);
    add_step(n, {x, out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
      return launch_top_k(b.view(out), b.view(x), k, b.limit(x), stream);
    });
    return label(n, "top_k");
  }
  const uint32_t parts = new_item(static_cast<uint64_t>(tensor(x).ne[1]) * kArgMaxParts * 8);
  add_step(n, {x, out}, {parts}, 2, [=](const Bound& b, cudaStream_t stream) {
    return launch_arg_max(b.view(out), b.view(x), b.limit(x), b.item[parts], b.overlap, stream);
  });
  label(n, "arg_max");
}

void PlanBuilder::emit_concat(uint32_t n) {
  const uint32_t a = node(n).src[0], c = node(n).src[1], out = node(n).dst;
  const auto axis = static_cast<int>(node(n).params.concat.axis);
  add_step(n, {a, c, out}, {}, 2, [=](const Bound& b, cudaStream_t stream) {
    const cudaError_t error =
        launch_concat_part(b.view(out), b.view(a), axis, 0, b.limit(out), stream);
    if (error != cudaSuccess) return error;
    return launch_concat_part(b.view(out), b.view(c), axis, b.view(a).ne[axis], b.limit(out),
                              stream);
  });
  label(n, "concat");
}

std::unique_ptr<Program> compile(const Caps& caps, const Gates& gates, const minfer_split& split) {
  auto program = std::make_unique<Program>();
  program->graph = read_graph(split);
  if (!gates.on(Gate::kReference) && !gates.on(Gate::kNoFuseGather)) {
    drop_single_row_gathers(program->graph);
  }
  PlanBuilder(caps, gates, *program).build();
  return program;
}

}  // namespace minfer_cuda
