// Emission of the Hopper matmul steps (see plan_builder.h and ../hopper/).
#include <algorithm>

#include "../hopper/decode.h"
#include "plan_builder.h"

namespace minfer_cuda {
namespace {

using MatrixPart = PlanBuilder::MatrixPart;

hopper::DecodeSegment bind_decode(const Bound& b, const MatrixPart& p) {
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

bool fit_together(const std::vector<MatrixPart>& parts, int32_t id, int32_t tokens) {
  std::vector<uint32_t> types;
  for (const MatrixPart& p : parts) types.push_back(p.type);
  return hopper::decode_fits(types.data(), static_cast<int>(types.size()), id, tokens);
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

PlanBuilder::MatrixPart PlanBuilder::matrix_part(uint32_t m, bool gated) const {
  const Residual residual = fusion_.residual(m);
  const uint32_t w = node(m).src[0];
  MatrixPart p;
  p.weight = w;
  p.bias = node(m).source(2);
  p.residual = residual.other;
  p.type = tensor(w).type;
  p.od = static_cast<int32_t>(tensor(w).ne[1]);
  if (!gated) p.out = residual.add == kNone ? node(m).dst : node(residual.add).dst;
  return p;
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

  std::vector<MatrixPart> parts;
  for (uint32_t m : members) parts.push_back(matrix_part(m, mul != kNone));
  Publication pub;
  GateFn fn = GateFn::kSilu;
  if (mul != kNone) {
    fn = gate_fn(node(fusion_.gate_of(mul)));
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
  for (const MatrixPart& p : parts) {
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
             for (const MatrixPart& p : parts) {
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

}  // namespace minfer_cuda
