// Emission of matrix steps (see plan_builder.h).
#include <algorithm>

#include "../kernels/layout.h"
#include "../kernels/matmul.h"
#include "plan_builder.h"

namespace minfer_cuda {
namespace {

/// One matrix of a launch, in tensor numbers.
struct Part {
  uint32_t weight, bias, residual, out;
  uint32_t type;
  int32_t od;
};

MatmulCall bind_call(const Bound& b, const std::vector<Part>& parts, int32_t id, int32_t tokens,
                     int32_t shared_limit) {
  MatmulCall call;
  call.id = id;
  call.tokens = tokens;
  call.shared_limit = shared_limit;
  call.valid = b.valid(parts[0].out);
  for (const Part& part : parts) {
    MatmulSegment& s = call.segments[call.n_segments++];
    s.weight = b.at<const uint8_t>(part.weight);
    s.type = part.type;
    s.od = part.od;
    s.bias = b.at(part.bias);
    if (part.residual != kNone) {
      s.residual = b.at(part.residual);
      s.residual_stride = b.view(part.residual).nb[1] / 4;
    }
    s.out = b.at(part.out);
    s.out_stride = b.view(part.out).nb[1] / 4;
  }
  return call;
}

uint32_t distinct_types(const std::vector<Part>& parts) {
  uint32_t runs = 1;
  for (size_t i = 1; i < parts.size(); ++i) runs += parts[i].type != parts[i - 1].type;
  return runs;
}

}  // namespace

void PlanBuilder::emit_matmul(uint32_t n) {
  const MatmulChoice& choice = fusion_.choice(n);
  if (choice.kernel == MatmulKernel::kHopperDecode) return emit_hopper_decode(n);
  if (choice.kernel == MatmulKernel::kHopperGemm) return emit_hopper_gemm(n);
  const std::vector<uint32_t> members = fusion_.group(n);
  const uint32_t x = node(n).src[1];
  const auto id = static_cast<int32_t>(tensor(x).ne[0]);
  const auto tokens = static_cast<int32_t>(tensor(x).ne[1]);

  uint32_t form = kNone;
  if (takes_int8(choice.kernel)) form = int8_item(n, x);
  if (choice.kernel == MatmulKernel::kGemmHalf) form = half_item(n, x);

  std::vector<Part> parts;
  int32_t total_od = 0, total_groups = 0;
  for (uint32_t m : members) {
    const Residual residual = fusion_.residual(m);
    const uint32_t w = node(m).src[0];
    const uint32_t out = residual.add == kNone ? node(m).dst : node(residual.add).dst;
    const auto od = static_cast<int32_t>(tensor(w).ne[1]);
    parts.push_back({w, node(m).source(2), residual.other, out, tensor(w).type, od});
    total_od += od;
    total_groups += (od + kTileRows - 1) / kTileRows;
  }

  int splits = 1;
  uint32_t partial = kNone;
  if (choice.kernel == MatmulKernel::kMmq) {
    const int64_t wanted = gates_[Gate::kMmqSplits];
    splits =
        wanted > 0 ? static_cast<int>(wanted) : mmq_splits(id, total_groups, tokens, caps_.sms);
    if (splits > 1) partial = new_item(mmq_workspace_bytes(total_od, tokens, splits));
  }

  const auto step = static_cast<uint32_t>(program_.steps.size());
  for (const Part& part : parts) {
    touch_tensor(part.residual, step);
    touch_tensor(part.out, step);
  }
  const MatmulKernel kernel = choice.kernel;
  const auto shared_limit = static_cast<int32_t>(caps_.shared_bytes);
  const uint32_t launches = distinct_types(parts) * (splits > 1 ? 2 : 1);
  add_step(
      n, {form == kNone ? x : kNone}, {form, partial}, launches,
      [=](const Bound& b, cudaStream_t stream) {
        const MatmulCall call = bind_call(b, parts, id, tokens, shared_limit);
        switch (kernel) {
          case MatmulKernel::kMmvq:
            return launch_mmvq(call, int8_rows_at(b.item[form], id, tokens), b.overlap, stream);
          case MatmulKernel::kMmq:
            return launch_mmq(
                call, int8_rows_at(b.item[form], id, tokens), splits,
                partial == kNone ? nullptr : reinterpret_cast<float*>(b.item[partial]), stream);
          case MatmulKernel::kGemmHalf:
            return launch_gemm_half(call, half_rows_at(b.item[form], id, tokens), stream);
          default:
            break;
        }
        return launch_matmul_generic(call, b.at(x), b.view(x).nb[1] / 4, stream);
      });

  std::string name = choice.label;
  if (members.size() > 1) name = text("fused x", members.size(), " ", name);
  if (parts[0].residual != kNone) name += "+residual";
  if (splits > 1) name += text(", k in ", splits);
  label(n, name, choice.why);
  for (uint32_t m : members) {
    if (m != n) {
      fused(m, n, name);
      program_.reports[m].why = fusion_.choice(m).why;
    }
    fused(fusion_.residual(m).add, n, name);
  }
}

void PlanBuilder::emit_experts(uint32_t n) {
  const uint32_t w = node(n).src[0], x = node(n).src[1], ids = node(n).src[2], out = node(n).dst;
  ExpertCall shape;
  shape.type = tensor(w).type;
  shape.id = static_cast<int32_t>(tensor(w).ne[0]);
  shape.od = static_cast<int32_t>(tensor(w).ne[1]);
  shape.experts = static_cast<int32_t>(tensor(w).ne[2]);
  shape.k = static_cast<int32_t>(tensor(ids).ne[0]);
  shape.tokens = static_cast<int32_t>(tensor(ids).ne[1]);
  add_step(n, {x, ids, out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
    ExpertCall call = shape;
    call.weight = b.at<const uint8_t>(w);
    call.x = b.at(x);
    call.x_slot_stride = b.view(x).ne[1] == 1 ? 0 : b.view(x).nb[1] / 4;
    call.x_token_stride = b.view(x).nb[2] / 4;
    call.ids = b.at<const int32_t>(ids);
    call.ids_token_stride = b.view(ids).nb[1] / 4;
    call.out = b.at(out);
    call.out_slot_stride = b.view(out).nb[1] / 4;
    call.out_token_stride = b.view(out).nb[2] / 4;
    call.valid = b.valid(out);
    return launch_matmul_experts(call, stream);
  });
  label(n, "matmul_by_id/f32 activations");
}

}  // namespace minfer_cuda
