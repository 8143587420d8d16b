// Decode: matrices in tile32 times one int8 row, or up to four (see decode.h).
//
// A launch is a list of row groups; a unit is one group, or a gate and an up group that are
// combined in the block that owns both. Units are dealt out in order, the steps of a block's units
// are cut among its warps by bytes. A warp leaves one partial sum per group and lane, and the
// groups' partials are added in the order of warps: results do not depend on timing.
#include <algorithm>

#include "decode_common.cuh"

namespace minfer_cuda::hopper {
namespace {

#ifdef MINFER_SM90A

/// A token's activation row to shared memory; returns this thread's part of the sum of squares. All
/// loads of a batch are in flight before the first store; they bypass the L1, which may hold older
/// data of a buffer that a kernel still running on this SM has read.
__device__ __forceinline__ float gather(const Params& p, uint32_t token, int8_t* quants,
                                        BlockMeta* meta) {
  constexpr int kBatch = 4, kThreads = kWarps * 32;
  const int n_quants = static_cast<int>(p.id / 16), n = n_quants + static_cast<int>(p.id / 32);
  const auto* from = reinterpret_cast<const uint4*>(p.quants + size_t{token} * p.id);
  const auto* metas = reinterpret_cast<const uint2*>(p.meta + size_t{token} * (p.id / 32));
  const float* sums = p.squares ? p.squares + size_t{token} * (p.id / 32) : nullptr;
  float squares = 0.f;
#pragma unroll 1
  for (int base = static_cast<int>(threadIdx.x); base < n; base += kBatch * kThreads) {
    uint4 v[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = base + j * kThreads;
      if (i < n_quants) {
        v[j] = __ldcg(from + i);
      } else if (i < n) {
        const uint2 m = __ldcg(metas + (i - n_quants));
        v[j].x = m.x;
        v[j].y = m.y;
        v[j].z = sums ? __float_as_uint(__ldcg(sums + (i - n_quants))) : 0u;
      }
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = base + j * kThreads;
      if (i < n_quants) {
        reinterpret_cast<uint4*>(quants)[i] = v[j];
      } else if (i < n) {
        const float d = __uint_as_float(v[j].x);
        const int lo = static_cast<int16_t>(v[j].y & 0xffffu), hi = static_cast<int>(v[j].y) >> 16;
        meta[i - n_quants] =
            make_float4(d, d * static_cast<float>(lo + hi), __int_as_float(kMagic - 32 * lo),
                        __int_as_float(kMagic - 32 * hi));
        squares += __uint_as_float(v[j].z);
      }
    }
  }
  return squares;
}

/// Adds the warps' partial sums of a group; `start` holds the warps' first steps, lane by lane.
/// Parts are [warp][group of the warp][token][row].
template <int T>
__device__ __forceinline__ float sum_parts(const Params& p, uint32_t group, const float* parts,
                                           uint32_t start, int lane) {
  const uint32_t end = __shfl_down_sync(~0u, start, 1);
  const uint32_t low = group * p.steps;
  const uint32_t mask =
      __ballot_sync(~0u, lane < kWarps && start < end && start < low + p.steps && end > low);
  const uint32_t first_group = start / p.steps;
  const int first = __ffs(mask) - 1, last = 31 - __clz(mask);
  const uint32_t part = first * p.max_parts + group - __shfl_sync(~0u, first_group, first);
  parts += lane;
  float v = parts[part * T * 32];
  // Only the first warp of a group can have begun in an earlier one.
  for (int w = first + 1; w <= last; ++w) {
    if ((mask >> w) & 1) v += parts[w * p.max_parts * T * 32];
  }
  return v;
}

#endif  // MINFER_SM90A

template <uint32_t First, uint32_t Second, int T>
__global__ void __launch_bounds__(kWarps * 32, 1) decode_kernel(const __grid_constant__ Params p) {
#ifdef MINFER_SM90A
  extern __shared__ __align__(128) uint8_t shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  uint8_t* ring = shared + warp * p.ring_bytes;
  auto* quants = reinterpret_cast<int8_t*>(shared + kWarps * p.ring_bytes);
  auto* meta = reinterpret_cast<BlockMeta*>(quants + T * p.id);
  auto* parts = reinterpret_cast<float*>(meta + T * (p.id / 32));
  auto* misc = reinterpret_cast<uint8_t*>(parts + kWarps * p.max_parts * T * 32);
  const uint32_t barriers = shared_address(misc) + warp * kMaxSlots * 8;
  auto* squares = reinterpret_cast<float*>(misc + kWarps * kMaxSlots * 8);

  const uint32_t units = p.groups / p.unit_groups;
  const uint32_t first_unit = units * blockIdx.x / gridDim.x;
  const uint32_t end_unit = units * (blockIdx.x + 1) / gridDim.x;
  const uint32_t unit_steps = p.unit_groups * p.steps;
  const Line<First, Second> line{p.split_group * p.steps};
  const uint32_t begin = first_unit * unit_steps, end = end_unit * unit_steps;
  // Lane i knows the first step of warp i; lane kWarps the end.
  const uint32_t start = line.share(begin, end, min(lane, kWarps), kWarps);
  const uint32_t first = __shfl_sync(~0u, start, warp), last = __shfl_sync(~0u, start, warp + 1);

  const uint32_t slot_bytes =
      last > line.split ? max(kStepBytes<First>, kStepBytes<Second>) : kStepBytes<First>;
  const uint32_t slots = min(p.ring_bytes / slot_bytes, static_cast<uint32_t>(kMaxSlots));
  const uint64_t policy = evict_first();
  Cursor<First, Second> next{};
  const auto request = [&](uint32_t slot) {
    const uint32_t barrier = barriers + slot * 8;
    barrier_expect(barrier, next.bytes);
    bulk_copy(shared_address(ring) + slot * slot_bytes, next.at, next.bytes, barrier, policy);
    next.advance(p, line);
  };
  if (lane == 0 && first < last) {
    for (uint32_t i = 0; i < slots; ++i) barrier_init(barriers + i * 8, 1);
    fence_async();
    next.seek(p, line, first);
    for (uint32_t i = 0; i < slots && next.step < last; ++i) request(i);
  }
  // What the warp's first unit needs at the end: most have no other.
  const bool finishes = first_unit + warp < end_unit;
  Tail tail;
  if (finishes) tail = constant_tail(p, first_unit + warp, lane);
  __syncwarp();
  if (p.overlap) {
    allow_dependents();
    wait_for_predecessors();
  }
  float residual[T] = {};
#pragma unroll
  for (int t = 0; t < T; ++t) {
    if (finishes && t < p.tokens) residual[t] = residual_of(p, first_unit + warp, lane, t);
  }
  const int valid = p.valid ? __ldcg(p.valid) : p.tokens;
#pragma unroll
  for (int t = 0; t < T; ++t) {
    if (t >= p.tokens) break;
    const float sum = warp_sum(gather(p, t, quants + t * p.id, meta + t * (p.id / 32)));
    if (lane == 0) squares[t * kWarps + warp] = sum;
  }
  __syncthreads();

  uint32_t k = first % p.steps, slot = 0, parity = 0;
  float acc[T] = {};
  float* part = parts + warp * p.max_parts * T * 32 + lane;
  const auto acts = [&](uint32_t at) {
    return StepActs{reinterpret_cast<const int4*>(quants + at), meta + at / 32, p.id / 16,
                    p.id / 32};
  };
#pragma unroll 1
  for (uint32_t step = first; step < last; ++step) {
    barrier_wait(barriers + slot * 8, parity);
    const uint8_t* at = ring + slot * slot_bytes;
    if (step < line.split) {
      StepDot<First>::template add<T>(at, lane, acts(k * kStepK<First>), acc);
    } else {
      StepDot<Second>::template add<T>(at, lane, acts(k * kStepK<Second>), acc);
    }
    __syncwarp();
    if (lane == 0 && step + slots < last) request(slot);
    if (++slot == slots) slot = 0, parity ^= 1;
    if (++k == p.steps || step + 1 == last) {
#pragma unroll
      for (int t = 0; t < T; ++t) part[t * 32] = acc[t], acc[t] = 0.f;
      part += T * 32;
      k = 0;
    }
  }
  float factor[T];
#pragma unroll
  for (int t = 0; t < T; ++t) {
    factor[t] = 1.f;
    if (!p.squares) continue;
    factor[t] = warp_sum(lane < kWarps ? squares[t * kWarps + lane] : 0.f);
    factor[t] = rsqrtf(factor[t] / static_cast<float>(p.id) + p.eps);
  }
  __syncthreads();

#pragma unroll 1
  for (uint32_t u = first_unit + warp; u < end_unit; u += kWarps) {
    const uint32_t group = u * p.unit_groups;
    const bool asked = u == first_unit + warp;
    if (!asked) tail = constant_tail(p, u, lane);
#pragma unroll
    for (int t = 0; t < T; ++t) {
      if (t >= p.tokens) break;
      const float v = sum_parts<T>(p, group, parts + t * 32, start, lane);
      const float up =
          p.unit_groups == 2 ? sum_parts<T>(p, group + 1, parts + t * 32, start, lane) : 0.f;
      tail.residual = asked ? residual[t] : residual_of(p, u, lane, t);
      finish(p, u, v, up, tail, lane, t, factor[t], t >= valid);
    }
  }
#endif
}

struct RowPair {
  uint32_t first, second;
  DecodeKernel kernels[3];  ///< of one, two and up to four tokens
};
#define MINFER_PAIR(a, b)                                                    \
  {                                                                          \
    a, b, {                                                                  \
      decode_kernel<a, b, 1>, decode_kernel<a, b, 2>, decode_kernel<a, b, 4> \
    }                                                                        \
  }
/// Types that may share a launch; every type alone is in one of them.
const RowPair kPairs[] = {MINFER_PAIR(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K),
                          MINFER_PAIR(MINFER_TYPE_Q5_K, MINFER_TYPE_Q6_K),
                          MINFER_PAIR(MINFER_TYPE_Q5_0, MINFER_TYPE_Q8_0),
                          MINFER_PAIR(MINFER_TYPE_Q4_0, MINFER_TYPE_Q8_0)};
#undef MINFER_PAIR

/// Tokens of the kernel that takes these; its rows in shared memory are that many.
uint32_t row_tokens(int64_t tokens) {
  return tokens > 2 ? 4 : static_cast<uint32_t>(tokens);
}

DecodePair find_row_pair(const uint32_t* types, int n, int64_t tokens) {
  for (const RowPair& pair : kPairs) {
    const auto known = [&](uint32_t t) { return t == pair.first || t == pair.second; };
    if (std::all_of(types, types + n, known)) {
      return {pair.first, pair.second, pair.kernels[row_tokens(tokens) / 2]};
    }
  }
  return {};
}

/// Shared memory of these kernels beside the rings.
uint32_t fixed_bytes(uint32_t id, uint32_t max_parts, uint32_t tokens) {
  return tokens * (id + id / 32 * 16 + kWarps * max_parts * 128) + kMiscBytes;
}

/// The segments in the line's order, first type first.
void add_segments(const DecodeCall& call, const DecodePair& pair, Params& p) {
  for (const uint32_t type : {pair.first, pair.second}) {
    if (type == pair.second) p.split_group = p.groups;
    if (p.n_segments == static_cast<uint32_t>(call.n_segments)) break;
    for (int i = 0; i < call.n_segments; ++i) {
      const DecodeSegment& s = call.segments[i];
      if (s.type != type) continue;
      if (i == 0) p.publisher = p.n_segments;
      p.segments[p.n_segments++] = {s.weight,          s.bias,       s.residual, s.out,
                                    s.residual_stride, s.out_stride, s.od,       p.groups};
      p.groups += static_cast<uint32_t>(s.od + 31) / 32;
    }
  }
}

/// A launch that gives a lane a row; sets p.max_parts for blocks of `block_groups` groups at most.
BlockShape row_shape(const DecodePair& pair, Params& p, uint32_t block_groups) {
  // A warp's share is bytes, and the types of a pair differ by less than a factor of two.
  const bool mixed = p.split_group > 0 && p.split_group < p.groups;
  p.max_parts = std::min(block_groups, (mixed ? 2 : 1) * block_groups / kWarps + 2);
  const uint32_t fixed = fixed_bytes(p.id, p.max_parts, row_tokens(p.tokens));
  if (fixed > kSharedLimit) return {};
  const int first = p.split_group > 0 ? step_bytes(pair.first) : 0;
  const int second = p.split_group < p.groups ? step_bytes(pair.second) : 0;
  const auto largest = static_cast<uint32_t>(std::max(first, second));
  // No more slots than a warp has steps: what a block leaves free, the next kernel's blocks can
  // start in.
  const uint32_t steps = (block_groups * p.steps + kWarps - 1) / kWarps + 1;
  const uint32_t slots = std::min<uint32_t>(steps, kMaxSlots);
  const uint32_t ring =
      std::min((kSharedLimit - fixed) / kWarps / 128 * 128, (slots * largest + 127) / 128 * 128);
  if (ring < largest) return {};
  return {kWarps, 0, ring, fixed + kWarps * ring};
}

/// A launch before it is made; shape.warps is 0 where there is no room for it.
struct Plan {
  DecodeKernel kernel = nullptr;
  Params p{};
  uint32_t blocks = 0;
  BlockShape shape;
};

Plan plan_launch(const DecodeCall& call, const DecodePair& pair, bool lane_takes_row, int sms) {
  Plan plan;
  plan.kernel = pair.kernel;
  Params& p = plan.p;
  p.tokens = static_cast<uint32_t>(call.tokens);
  add_segments(call, pair, p);
  p.id = static_cast<uint32_t>(call.id);
  p.steps = p.id / static_cast<uint32_t>(step_k(pair.first));
  p.unit_groups = call.gated ? 2 : 1;
  p.quants = call.x.quants;
  p.meta = call.x.meta;
  p.squares = call.squares;
  p.eps = call.eps;
  p.gate_fn = call.gate_fn;
  p.out_quants = call.out_int8.quants;
  p.out_meta = call.out_int8.meta;
  p.out_scale = call.out_scale;
  p.out_scale_offset = call.out_scale_offset;
  p.out_squares = call.out_squares;
  p.valid = call.valid;
  p.overlap = call.overlap;

  const uint32_t units = p.groups / p.unit_groups;
  plan.blocks = std::min(units, static_cast<uint32_t>(sms));
  plan.shape = lane_takes_row
                   ? row_shape(pair, p, (units + plan.blocks - 1) / plan.blocks * p.unit_groups)
                   : batch_shape(pair, p.steps, call.tokens, p.split_group < p.groups,
                                 static_cast<uint32_t>(call.most_warps));
  p.ring_bytes = plan.shape.ring_bytes;
  p.act_slots = plan.shape.act_slots;
  return plan;
}

}  // namespace

bool decode_fits(const uint32_t* types, int n, int64_t id, int64_t tokens) {
  if (n < 1 || n > kMaxDecodeSegments || tokens < 1 || tokens > kMaxDecodeTokens) return false;
  const DecodePair pair =
      tokens > 1 ? find_batch_pair(types, n, tokens) : find_row_pair(types, n, tokens);
  if (!pair.kernel || id % step_k(pair.first) != 0) return false;
  const auto steps = static_cast<uint32_t>(id / step_k(pair.first));
  if (tokens > 1) return batch_shape(pair, steps, tokens, true, 0).warps > 0;
  const int largest = std::max(step_bytes(pair.first), step_bytes(pair.second));
  return fixed_bytes(static_cast<uint32_t>(id), 4, 1) + kWarps * largest * 2 <= kSharedLimit;
}

cudaError_t launch_decode(const DecodeCall& call, int sms, cudaStream_t stream) {
  uint32_t types[kMaxDecodeSegments];
  for (int i = 0; i < call.n_segments; ++i) types[i] = call.segments[i].type;
  if (!decode_fits(types, call.n_segments, call.id, call.tokens)) return cudaErrorInvalidValue;
  if (call.gated && (call.n_segments != 2 || types[0] != types[1] ||
                     call.segments[0].od != call.segments[1].od)) {
    return cudaErrorInvalidValue;
  }
  Plan plan;
  if (call.tokens <= std::max(1, std::min(call.row_tokens, kMaxRowTokens))) {
    plan = plan_launch(call, find_row_pair(types, call.n_segments, call.tokens), true, sms);
  }
  if (plan.shape.warps == 0 && call.tokens > 1) {
    plan = plan_launch(call, find_batch_pair(types, call.n_segments, call.tokens), false, sms);
  }
  if (plan.shape.warps == 0) return cudaErrorInvalidValue;
  const BlockShape& shape = plan.shape;
  const DecodeKernel kernel = plan.kernel;

  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(shape.shared_bytes));
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(plan.blocks);
  config.blockDim = dim3(shape.warps * 32);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = call.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, plan.p);
}

}  // namespace minfer_cuda::hopper
