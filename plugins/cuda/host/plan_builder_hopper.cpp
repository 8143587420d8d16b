// Emission of the Hopper matmul steps (see plan_builder.h and ../hopper/).
#include <algorithm>

#include "../hopper/decode.h"
#include "../hopper/prefill.h"
#include "plan_builder.h"

namespace minfer_cuda {
namespace {

/// One matrix of a launch, in tensor numbers; `out` is kNone where no f32 is written.
struct Part {
  uint32_t weight = kNone, bias = kNone, residual = kNone, out = kNone;
  uint32_t type = 0;
  int32_t od = 0;
};

/// Bytes of f16 rows in fragment order and a scale per row.
uint64_t fragment_bytes(int64_t id, int64_t tokens) {
  return static_cast<uint64_t>(tokens * id * 2 + tokens * 4);
}

hopper::DecodeSegment bind_decode(const Bound& b, const Part& p) {
  hopper::DecodeSegment s;
  s.weight = b.at<const uint8_t>(p.weight);
  s.type = p.type;
  s.od = p.od;
  s.bias = b.at(p.bias);
  s.residual = b.at(p.residual);
  s.out = b.at(p.out);
  if (p.residual != kNone) s.residual_stride = b.view(p.residual).nb[1] / 4;
  if (p.out != kNone) s.out_stride = b.view(p.out).nb[1] / 4;
  return s;
}

hopper::PrefillSegment bind_prefill(const Bound& b, const Part& p) {
  hopper::PrefillSegment s;
  s.weight = b.at<const uint8_t>(p.weight);
  s.od = p.od;
  s.bias = b.at(p.bias);
  if (p.residual != kNone) {
    s.residual = b.at(p.residual);
    s.residual_stride = b.view(p.residual).nb[1] / 4;
  }
  if (p.out != kNone) {
    s.out = b.at(p.out);
    s.out_stride = b.view(p.out).nb[1] / 4;
  }
  return s;
}

bool fit_together(const std::vector<Part>& parts, int32_t id, int32_t tokens) {
  std::vector<uint32_t> types;
  for (const Part& p : parts) types.push_back(p.type);
  return hopper::decode_fits(types.data(), static_cast<int>(types.size()), id, tokens);
}

GateFn gate_fn_of(const Node& node) {
  if (node.op == MINFER_OP_SILU) return GateFn::kSilu;
  return node.params.gelu.kind == MINFER_GELU_ERF     ? GateFn::kGeluErf
         : node.params.gelu.kind == MINFER_GELU_QUICK ? GateFn::kGeluQuick
                                                      : GateFn::kGeluTanh;
}

/// What a decode launch quantises for the next matrix.
struct Publication {
  uint32_t int8 = kNone, squares = kNone;  ///< items
  uint32_t scale = kNone;                  ///< tensor
  float scale_offset = 0.f;
};

}  // namespace

std::vector<uint32_t> PlanBuilder::hopper_members(uint32_t n) const {
  const uint32_t mul = fusion_.gated_unit(n);
  if (mul == kNone) return fusion_.group(n);
  const auto pair = fusion_.gated_pair(mul);
  return {pair[0], pair[1]};
}

void PlanBuilder::label_hopper(uint32_t n, const std::vector<uint32_t>& members, bool residual,
                               bool folds) {
  std::string name = fusion_.choice(n).label;
  const uint32_t mul = fusion_.gated_unit(n);
  if (members.size() > 1) name = text("fused x", members.size(), " ", name);
  if (mul != kNone) name += "+gated";
  if (residual) name += "+residual";
  if (folds) name += "+norm";
  label(n, name, fusion_.choice(n).why);
  for (uint32_t m : members) {
    if (m != n) {
      fused(m, n, name);
      program_.reports[m].why = fusion_.choice(m).why;
    }
    fused(fusion_.residual(m).add, n, name);
  }
  if (mul == kNone) return;
  fused(mul, n, name);
  fused(fusion_.gate_of(mul), n, name);
}

void PlanBuilder::emit_hopper_decode(uint32_t n) {
  const std::vector<uint32_t> members = hopper_members(n);
  const uint32_t mul = fusion_.gated_unit(n), norm = fusion_.norm_after(n);
  const uint32_t x = node(n).src[1];
  const auto id = static_cast<int32_t>(tensor(x).ne[0]);
  const auto tokens = static_cast<int32_t>(tensor(x).ne[1]);
  const uint32_t input = int8_item(n, x);
  const auto squares = squares_items_.find(x);
  const uint32_t squares_in = squares == squares_items_.end() ? kNone : squares->second.item;
  const float eps = squares_in == kNone ? 0.f : squares->second.eps;

  std::vector<Part> parts;
  for (uint32_t m : members) {
    const Residual residual = fusion_.residual(m);
    const uint32_t w = node(m).src[0];
    Part p;
    p.weight = w;
    p.bias = node(m).source(2);
    p.residual = residual.other;
    p.type = tensor(w).type;
    p.od = static_cast<int32_t>(tensor(w).ne[1]);
    if (mul == kNone) p.out = residual.add == kNone ? node(m).dst : node(residual.add).dst;
    parts.push_back(p);
  }
  Publication pub;
  GateFn fn = GateFn::kSilu;
  if (mul != kNone) {
    fn = gate_fn_of(node(fusion_.gate_of(mul)));
    pub.int8 = produced_int8(node(mul).dst);
    if (pub.int8 == kNone || fusion_.wants_f32(node(mul).dst)) parts[0].out = node(mul).dst;
  }
  if (norm != kNone) {
    const minfer_norm_params& params = node(norm).params.norm;
    pub.int8 = new_item(int8_rows_bytes(parts[0].od, tokens));
    pub.squares = new_item(static_cast<uint64_t>(parts[0].od / 32) * tokens * 4);
    pub.scale = node(norm).source(1);
    pub.scale_offset = params.weight_offset;
    int8_items_[node(norm).dst] = pub.int8;
    squares_items_[node(norm).dst] = {pub.squares, params.eps};
  }
  const auto step = static_cast<uint32_t>(program_.steps.size());
  for (const Part& p : parts) {
    touch_tensor(p.residual, step);
    touch_tensor(p.out, step);
  }
  const uint32_t counted = mul != kNone ? node(mul).dst : parts[0].out;
  const bool overlap = !gates_.on(Gate::kNoHopperOverlap),
             together = fit_together(parts, id, tokens);
  const int sms = caps_.sms;
  const auto most_warps = static_cast<int32_t>(gates_[Gate::kHopperDecodeWarps]);
  const auto row_tokens = static_cast<int32_t>(gates_[Gate::kHopperRowTokens]);
  const uint32_t launches = together ? 1 : static_cast<uint32_t>(parts.size());
  add_step(n, {}, {input, squares_in, pub.int8, pub.squares}, launches,
           [=](const Bound& b, cudaStream_t stream) {
             hopper::DecodeCall call;
             call.id = id;
             call.tokens = tokens;
             call.most_warps = most_warps;
             call.row_tokens = row_tokens;
             call.x = int8_rows_at(b.item[input], id, tokens);
             if (squares_in != kNone) {
               call.squares = reinterpret_cast<const float*>(b.item[squares_in]);
             }
             call.eps = eps;
             call.gated = mul != kNone;
             call.gate_fn = fn;
             call.valid = b.valid(counted);
             call.overlap = overlap;
             if (pub.int8 != kNone) {
               call.out_int8 = int8_rows_at(b.item[pub.int8], parts[0].od, tokens);
             }
             call.out_scale = b.at(pub.scale);
             call.out_scale_offset = pub.scale_offset;
             if (pub.squares != kNone) {
               call.out_squares = reinterpret_cast<float*>(b.item[pub.squares]);
             }
             for (const Part& p : parts) {
               call.segments[call.n_segments++] = bind_decode(b, p);
               if (together && call.n_segments < static_cast<int>(parts.size())) continue;
               const cudaError_t error = hopper::launch_decode(call, sms, stream);
               if (error != cudaSuccess) return error;
               call.n_segments = 0;
             }
             return cudaSuccess;
           });
  label_hopper(n, members, parts[0].residual != kNone, norm != kNone);
  fused(norm, n, program_.reports[n].kernel);
}

PlanBuilder::Fragments PlanBuilder::fragment_item(uint32_t n, uint32_t t) {
  if (const auto it = fragment_items_.find(t); it != fragment_items_.end()) return it->second;
  const int64_t id = tensor(t).ne[0], tokens = tensor(t).ne[1];
  const uint32_t item = new_item(fragment_bytes(id, tokens));
  add_step(n, {t}, {item}, 1, [=](const Bound& b, cudaStream_t stream) {
    const View x = b.view(t);
    auto* rows = reinterpret_cast<uint16_t*>(b.item[item]);
    return hopper::launch_to_fragments(b.at(t), x.nb[1] / 4, x.ne[0], x.ne[1], b.valid(t), rows,
                                       reinterpret_cast<float*>(rows + tokens * id), stream);
  });
  return fragment_items_[t] = {item};
}

uint32_t PlanBuilder::produced_fragments(uint32_t t, float factor) {
  const uint32_t item = new_item(fragment_bytes(tensor(t).ne[0], tensor(t).ne[1]));
  fragment_items_[t] = {item, factor};
  return item;
}

void PlanBuilder::emit_norm_to_fragments(uint32_t n) {
  const uint32_t x = node(n).src[0], w = node(n).source(1), out = node(n).dst;
  const minfer_norm_params p = node(n).params.norm;
  const int64_t id = tensor(out).ne[0], tokens = tensor(out).ne[1];
  const uint32_t item = produced_fragments(out, 0.f);
  add_step(n, {x}, {item}, 1, [=](const Bound& b, cudaStream_t stream) {
    auto* rows = reinterpret_cast<uint16_t*>(b.item[item]);
    return hopper::launch_norm_to_fragments(b.at(x), b.view(x).nb[1] / 4, b.at(w), p.weight_offset,
                                            p.eps, static_cast<int>(id), static_cast<int>(tokens),
                                            b.valid(out), rows,
                                            reinterpret_cast<float*>(rows + tokens * id), stream);
  });
  label(n, "rms_norm+f16 fragments, no f32");
}

uint64_t PlanBuilder::hopper_flags_at() {
  if (hopper_flags_ == kNoFlags) {
    hopper_flags_ = program_.constants.size();
    program_.constants.resize(hopper_flags_ + hopper::kPrefillFlagBytes, 0);
  }
  return hopper_flags_;
}

void PlanBuilder::emit_hopper_gemm(uint32_t n) {
  const std::vector<uint32_t> members = hopper_members(n);
  const uint32_t mul = fusion_.gated_unit(n), x = node(n).src[1];
  const auto id = static_cast<int32_t>(tensor(x).ne[0]);
  const auto tokens = static_cast<int32_t>(tensor(x).ne[1]);
  const Fragments input = fragment_item(n, x);

  // A launch has matrices of one type.
  std::map<uint32_t, std::vector<Part>> by_type;
  for (uint32_t m : members) {
    const Residual residual = fusion_.residual(m);
    const uint32_t w = node(m).src[0];
    Part p;
    p.weight = w;
    p.bias = node(m).source(2);
    p.residual = residual.other;
    p.type = tensor(w).type;
    p.od = static_cast<int32_t>(tensor(w).ne[1]);
    if (mul == kNone) p.out = residual.add == kNone ? node(m).dst : node(residual.add).dst;
    by_type[p.type].push_back(p);
  }
  uint64_t workspace_bytes = 0;
  bool residual = false;
  const auto step = static_cast<uint32_t>(program_.steps.size());
  for (const auto& [type, parts] : by_type) {
    std::vector<int32_t> od;
    for (const Part& p : parts) {
      od.push_back(p.od);
      touch_tensor(p.residual, step);
      touch_tensor(p.out, step);
      residual |= p.residual != kNone;
    }
    workspace_bytes =
        std::max(workspace_bytes, hopper::prefill_workspace_bytes(type, id, tokens, od.data(),
                                                                  static_cast<int>(od.size()),
                                                                  mul != kNone, caps_.sms));
  }
  const uint32_t workspace = workspace_bytes ? new_item(workspace_bytes) : kNone;
  uint32_t gated_out = kNone;
  GateFn fn = GateFn::kSilu;
  if (mul != kNone) {
    fn = gate_fn_of(node(fusion_.gate_of(mul)));
    gated_out = produced_fragments(node(mul).dst, hopper::kGatedScale);
  }
  const uint64_t flags = hopper_flags_at();
  const uint32_t counted = mul != kNone ? node(mul).dst : by_type.begin()->second[0].out;
  const bool overlap = !gates_.on(Gate::kNoHopperOverlap);
  const int sms = caps_.sms;
  add_step(n, {}, {input.item, workspace, gated_out}, static_cast<uint32_t>(by_type.size()),
           [=](const Bound& b, cudaStream_t stream) {
             for (const auto& [type, parts] : by_type) {
               hopper::PrefillCall call;
               call.type = type;
               call.id = id;
               call.tokens = tokens;
               call.x = reinterpret_cast<const uint16_t*>(b.item[input.item]);
               if (input.factor != 0.f) {
                 call.x_factor = input.factor;
               } else {
                 call.x_scale = reinterpret_cast<const float*>(call.x + int64_t{tokens} * id);
               }
               for (const Part& p : parts) call.segments[call.n_segments++] = bind_prefill(b, p);
               call.gated = mul != kNone;
               call.gate_fn = fn;
               if (call.gated) call.half_out = reinterpret_cast<uint16_t*>(b.item[gated_out]);
               call.valid = b.valid(counted);
               if (workspace != kNone) {
                 call.workspace = reinterpret_cast<float*>(b.item[workspace]);
               }
               call.flags = reinterpret_cast<uint32_t*>(const_cast<char*>(b.constants) + flags);
               call.overlap = overlap;
               const cudaError_t error = hopper::launch_prefill(call, sms, stream);
               if (error != cudaSuccess) return error;
             }
             return cudaSuccess;
           });
  label_hopper(n, members, residual, false);
}

}  // namespace minfer_cuda
