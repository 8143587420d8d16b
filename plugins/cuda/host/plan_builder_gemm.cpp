// Emission of the wgmma matmuls and of their activations (see plan_builder.h and
// ../hopper/prefill.h).
#include <algorithm>

#include "../hopper/prefill.h"
#include "plan_builder.h"

namespace minfer_cuda {
namespace {

using MatrixPart = PlanBuilder::MatrixPart;

/// Bytes of f16 rows in fragment order and a scale per row.
uint64_t fragment_bytes(int64_t id, int64_t tokens) {
  return static_cast<uint64_t>(tokens * id * 2 + tokens * 4);
}

hopper::PrefillSegment bind_prefill(const Bound& b, const MatrixPart& p) {
  hopper::PrefillSegment s;
  s.weight = b.at<const uint8_t>(p.weight);
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

/// Matrices of one type: a launch.
struct GemmLaunch {
  hopper::PrefillPlan plan;
  std::vector<MatrixPart> parts;
};

/// What the launches of a step have in common; numbers of items unless said otherwise.
struct GemmStep {
  uint32_t x = kNone, x_squares = kNone;
  float x_factor = 0.f, x_eps = 0.f;
  uint32_t half_out = kNone, squares_out = kNone, workspace = kNone;
  uint32_t out_weight = kNone;  ///< tensor, of the norm that is folded
  float out_weight_offset = 0.f;
  uint32_t counted = kNone;  ///< tensor whose valid count the step follows
  uint64_t flags = 0;        ///< offset in the constants
  GateFn gate_fn = GateFn::kSilu;
  bool overlap = false;
};

template <class T>
T* item_at(const Bound& b, uint32_t item) {
  return item == kNone ? nullptr : reinterpret_cast<T*>(b.item[item]);
}

hopper::PrefillCall bind_gemm(const Bound& b, const GemmStep& s, const GemmLaunch& launch) {
  const hopper::PrefillShape& shape = launch.plan.shape;
  hopper::PrefillCall call;
  call.x = item_at<const uint16_t>(b, s.x);
  if (s.x_factor != 0.f) {
    call.x_factor = s.x_factor;
    call.x_squares = item_at<const float>(b, s.x_squares);
    call.eps = s.x_eps;
  } else {
    call.x_scale = reinterpret_cast<const float*>(call.x + int64_t{shape.tokens} * shape.id);
  }
  for (size_t i = 0; i < launch.parts.size(); ++i) {
    call.segments[i] = bind_prefill(b, launch.parts[i]);
  }
  call.gate_fn = s.gate_fn;
  call.half_out = item_at<uint16_t>(b, s.half_out);
  call.out_squares = item_at<float>(b, s.squares_out);
  call.out_weight = b.at(s.out_weight);
  call.out_weight_offset = s.out_weight_offset;
  call.valid = b.valid(s.counted);
  call.workspace = item_at<float>(b, s.workspace);
  call.flags = reinterpret_cast<uint32_t*>(const_cast<char*>(b.constants) + s.flags);
  call.overlap = s.overlap;
  return call;
}

}  // namespace

PlanBuilder::Fragments PlanBuilder::fragment_item(uint32_t n, uint32_t t) {
  if (const auto it = fragment_items_.find(t); it != fragment_items_.end()) return it->second;
  const int64_t id = tensor(t).ne[0], tokens = tensor(t).ne[1];
  const uint32_t item = new_item(fragment_bytes(id, tokens));
  add_step(n, {t}, {item}, 1, [=](const Bound& b, cudaStream_t stream) {
    const View x = b.view(t);
    auto* rows = reinterpret_cast<uint16_t*>(b.item[item]);
    return hopper::launch_to_fragments(b.at(t), x.nb[1] / 4, x.ne[0], x.ne[1], b.valid(t), rows,
                                       reinterpret_cast<float*>(rows + tokens * id), b.overlap,
                                       stream);
  });
  return fragment_items_[t] = {.item = item};
}

uint32_t PlanBuilder::produced_fragments(uint32_t t, float factor) {
  const uint32_t item = new_item(fragment_bytes(tensor(t).ne[0], tensor(t).ne[1]));
  fragment_items_[t] = {.item = item, .factor = factor};
  return item;
}

void PlanBuilder::emit_norm_to_fragments(uint32_t n) {
  const uint32_t x = node(n).src[0], w = node(n).source(1), out = node(n).dst;
  const minfer_norm_params p = node(n).params.norm;
  const int64_t id = tensor(out).ne[0], tokens = tensor(out).ne[1];
  const uint32_t item = produced_fragments(out, 0.f);
  add_step(n, {x}, {item}, 1, [=](const Bound& b, cudaStream_t stream) {
    auto* rows = reinterpret_cast<uint16_t*>(b.item[item]);
    return hopper::launch_norm_to_fragments(
        b.at(x), b.view(x).nb[1] / 4, b.at(w), p.weight_offset, p.eps, static_cast<int>(id),
        static_cast<int>(tokens), b.valid(out), rows, reinterpret_cast<float*>(rows + tokens * id),
        b.overlap, stream);
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
  const uint32_t mul = fusion_.gated_unit(n), norm = fusion_.norm_after(n), x = node(n).src[1];
  const auto id = static_cast<int32_t>(tensor(x).ne[0]);
  const auto tokens = static_cast<int32_t>(tensor(x).ne[1]);
  const Fragments input = fragment_item(n, x);
  GemmStep s{
      .x = input.item, .x_squares = input.squares, .x_factor = input.factor, .x_eps = input.eps};

  // A launch has matrices of one type.
  std::vector<GemmLaunch> launches;
  bool residual = false;
  const auto step = static_cast<uint32_t>(program_.steps.size());
  for (uint32_t m : members) {
    const MatrixPart p = matrix_part(m, mul != kNone);
    touch_tensor(p.residual, step);
    touch_tensor(p.out, step);
    residual |= p.residual != kNone;
    auto launch = std::find_if(launches.begin(), launches.end(),
                               [&](const GemmLaunch& l) { return l.plan.shape.type == p.type; });
    if (launch == launches.end()) {
      launch = launches.emplace(launches.end());
      launch->plan.shape = {.type = p.type, .id = id, .tokens = tokens, .gated = mul != kNone};
    }
    launch->plan.shape.od.push_back(p.od);
    launch->parts.push_back(p);
  }
  uint64_t workspace_bytes = 0;
  for (GemmLaunch& l : launches) {
    l.plan = hopper::plan_prefill(l.plan.shape, caps_.sms);
    workspace_bytes = std::max(workspace_bytes, l.plan.workspace_bytes);
  }
  if (workspace_bytes != 0) s.workspace = new_item(workspace_bytes);
  if (norm != kNone) {
    const Node& to = node(norm);
    s.half_out = produced_fragments(to.dst, hopper::kPublishedScale);
    s.squares_out = new_item(static_cast<uint64_t>(tensor(to.dst).ne[0] / 64) * tokens * 4);
    s.out_weight = to.source(1);
    s.out_weight_offset = to.params.norm.weight_offset;
    fragment_items_[to.dst].squares = s.squares_out;
    fragment_items_[to.dst].eps = to.params.norm.eps;
  }
  if (mul != kNone) {
    s.gate_fn = gate_fn(node(fusion_.gate_of(mul)));
    s.half_out = produced_fragments(node(mul).dst, hopper::kGatedScale);
  }
  s.flags = hopper_flags_at();
  s.counted = mul != kNone ? node(mul).dst : launches[0].parts[0].out;
  s.overlap = !gates_.on(Gate::kNoHopperOverlap);
  const int sms = caps_.sms;
  add_step(n, {}, {s.x, s.x_squares, s.workspace, s.half_out, s.squares_out},
           static_cast<uint32_t>(launches.size()), [=](const Bound& b, cudaStream_t stream) {
             for (const GemmLaunch& l : launches) {
               const cudaError_t error =
                   hopper::launch_prefill(bind_gemm(b, s, l), l.plan, sms, stream);
               if (error != cudaSuccess) return error;
             }
             return cudaSuccess;
           });
  label_hopper(n, members, residual, norm != kNone);
  fused(norm, n, program_.reports[n].kernel);
}

}  // namespace minfer_cuda
