// The prefill launch (see prefill.h).
#include <algorithm>

#include "prefill_kernel.cuh"
#include "tensor_map.h"

namespace minfer_cuda::hopper {
namespace {

PrefillVariant find_variant(uint32_t type, const PrefillTile& tile, bool gated) {
  switch (type) {
    case MINFER_TYPE_Q4_K:
      return find_prefill_q4_k(tile.tokens, tile.rows, gated);
    case MINFER_TYPE_Q5_K:
      return find_prefill_q5_k(tile.tokens, tile.rows, gated);
    case MINFER_TYPE_Q6_K:
      return find_prefill_q6_k(tile.tokens, tile.rows, gated);
    case MINFER_TYPE_Q4_0:
      return find_prefill_q4_0(tile.tokens, tile.rows, gated);
    case MINFER_TYPE_Q5_0:
      return find_prefill_q5_0(tile.tokens, tile.rows, gated);
    default:
      return find_prefill_q8_0(tile.tokens, tile.rows, gated);
  }
}

/// Activations as a tensor [id / 64][tokens][64], in copies of so many steps and tokens.
cudaError_t encode_x(const uint16_t* x, const PrefillShape& s, int copy_tokens, int copy_steps,
                     CUtensorMap& map) {
  const uint64_t dims[3] = {64, static_cast<uint64_t>(s.tokens), static_cast<uint64_t>(s.id) / 64};
  const uint64_t strides[2] = {static_cast<uint64_t>(s.id) * 2, 128};
  const uint32_t box[3] = {64, static_cast<uint32_t>(copy_tokens),
                           static_cast<uint32_t>(copy_steps)};
  return encode_half_map(map, x, 3, dims, strides, box);
}

Params make_params(const PrefillCall& call, const PrefillPlan& plan, int sms) {
  Params p{};
  std::copy(plan.wide.begin(), plan.wide.end(), p.wide);
  p.uncut.units = p.uncut.slice_units = plan.units;
  p.uncut.blocks = sms;
  p.tail = plan.tail;
  p.tail_slot = plan.tail_slot;
  p.n_segments = static_cast<int32_t>(plan.shape.od.size());
  p.row_tiles = plan.row_tiles;
  p.tokens = plan.shape.tokens;
  p.id = plan.shape.id;
  p.x_scale = call.x_scale;
  p.x_factor = call.x_factor;
  p.x_squares = call.x_squares;
  p.eps = call.eps;
  p.out_squares = call.out_squares;
  p.out_weight = call.out_weight;
  p.out_weight_offset = call.out_weight_offset;
  p.gate_fn = call.gate_fn;
  p.half_out = reinterpret_cast<__half*>(call.half_out);
  p.valid = call.valid;
  p.workspace = call.workspace;
  p.flags = call.flags;
  p.overlap = call.overlap;
  int32_t tiles = 0;
  for (int i = 0; i < p.n_segments; ++i) {
    const PrefillSegment& s = call.segments[i];
    p.segments[i] = {s.weight,          s.bias,       s.residual,       s.out,
                     s.residual_stride, s.out_stride, plan.shape.od[i], tiles};
    tiles += (plan.shape.od[i] + plan.tile.rows - 1) / plan.tile.rows;
  }
  return p;
}

/// What a plan and the kernels cannot do.
bool is_possible(const PrefillCall& call, const PrefillPlan& plan) {
  const PrefillShape& s = plan.shape;
  if (plan.tile.tokens == 0 || s.od.empty() || s.od.size() > kMaxPrefillSegments) return false;
  for (int32_t od : s.od) {
    if (!prefill_fits(s.type, s.id, od)) return false;
  }
  if (s.gated && (s.od.size() != 2 || s.od[0] != s.od[1] || s.od[0] % 32 != 0)) return false;
  if (plan.flag_bytes() > kPrefillFlagBytes) return false;
  const bool publishes = call.out_squares != nullptr;
  if (publishes && (s.gated || s.od.size() != 1 || s.od[0] % 64 != 0)) return false;
  return !(publishes || call.x_squares) || plan.tile.tokens <= kMaxPublishedTokens;
}

}  // namespace

cudaError_t launch_prefill(const PrefillCall& call, const PrefillPlan& plan, int sms,
                           cudaStream_t stream) {
  if (!is_possible(call, plan)) return cudaErrorInvalidValue;
  const Params p = make_params(call, plan, sms);
  const PrefillVariant v = find_variant(plan.shape.type, plan.tile, plan.shape.gated);
  const int tail_copy = std::min(plan.tile.tokens, 64);
  CUtensorMap whole, tail;
  cudaError_t error = encode_x(call.x, plan.shape, plan.tile.tokens, v.stage_steps, whole);
  if (error != cudaSuccess) return error;
  error = encode_x(call.x, plan.shape, tail_copy, v.stage_steps, tail);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(v.shared));
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(sms));
  config.blockDim = dim3(static_cast<unsigned>(v.threads));
  config.dynamicSmemBytes = v.shared;
  config.stream = stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = call.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, v.kernel, whole, tail, p);
}

}  // namespace minfer_cuda::hopper
