// Decode: matrices in tile32 times one int8 row (see decode.h).
//
// A launch is a list of row groups; a unit is one group, or a gate and an up group that are
// combined in the block that owns both. Units are dealt out in order, the steps of a block's units
// are cut among its warps by bytes. A warp leaves one partial sum per group and lane, and the
// groups' partials are added in the order of warps: results do not depend on timing.
#include <algorithm>

#include "../kernels/gate_fn.cuh"
#include "decode.h"
#include "decode_dot.cuh"

namespace minfer_cuda::hopper {
namespace {

constexpr int kWarps = 14;
constexpr int kMaxSlots = 4;
constexpr uint32_t kMiscBytes = 640;  // barriers, then the warps' sums of squares
constexpr uint32_t kSharedLimit = kSharedBytes;

struct Segment {
  const uint8_t* weight;
  const float* bias;
  const float* residual;
  float* out;
  int32_t od;
  uint32_t first_group;
};

struct Params {
  Segment segments[kMaxDecodeSegments];
  uint32_t n_segments;
  uint32_t publisher;  ///< the segment whose result is quantised
  uint32_t id;
  uint32_t steps;        ///< of a group
  uint32_t groups;       ///< of all segments
  uint32_t split_group;  ///< first group of the second type
  uint32_t unit_groups;  ///< 1, or 2 where gated
  uint32_t ring_bytes;   ///< of a warp
  uint32_t max_parts;    ///< groups that a warp can touch
  const int8_t* quants;
  const ActMeta* meta;
  const float* squares;
  float eps;
  GateFn gate_fn;
  int8_t* out_quants;
  ActMeta* out_meta;
  const float* out_scale;
  float out_scale_offset;
  float* out_squares;
  const int32_t* valid;
  uint32_t overlap;
};

#ifdef MINFER_SM90A

/// Steps of all groups in a line; the second type's steps follow the first's. Costs are bytes / 16.
template <uint32_t First, uint32_t Second>
struct Line {
  static constexpr uint32_t kFirst = kStepBytes<First> / 16, kSecond = kStepBytes<Second> / 16;
  uint32_t split;  ///< first step of the second type

  __device__ __forceinline__ uint32_t cost(uint32_t step) const {
    return step < split ? step * kFirst : split * kFirst + (step - split) * kSecond;
  }
  __device__ __forceinline__ uint32_t step_at(uint32_t cost) const {
    const uint32_t at = split * kFirst;
    return cost < at ? cost / kFirst : split + (cost - at) / kSecond;
  }
  /// First step of share i of n of the steps [begin, end).
  __device__ __forceinline__ uint32_t share(uint32_t begin, uint32_t end, uint32_t i,
                                            uint32_t n) const {
    const uint32_t from = cost(begin);
    return step_at(from + (cost(end) - from) * i / n);
  }
};

/// Where a group of the line lies.
struct Place {
  const Segment* segment;
  uint32_t group;
};
__device__ __forceinline__ Place locate(const Params& p, uint32_t group) {
  if (p.unit_groups == 2) return {&p.segments[group & 1], group >> 1};
  uint32_t s = 0;
  while (s + 1 < p.n_segments && group >= p.segments[s + 1].first_group) ++s;
  return {&p.segments[s], group - p.segments[s].first_group};
}

/// Walks the steps of a warp for the copies.
template <uint32_t First, uint32_t Second>
struct Cursor {
  const uint8_t* at;
  uint32_t step, k, bytes;

  __device__ __forceinline__ void seek(const Params& p, const Line<First, Second>& line,
                                       uint32_t to) {
    const uint32_t group = to / p.steps;
    step = to;
    k = to - group * p.steps;
    bytes = to < line.split ? kStepBytes<First> : kStepBytes<Second>;
    const Place place = locate(p, group);
    at = place.segment->weight + (size_t{place.group} * p.steps + k) * bytes;
  }
  __device__ __forceinline__ void advance(const Params& p, const Line<First, Second>& line) {
    ++step;
    if (++k < p.steps) {
      at += bytes;
    } else if (step < p.groups * p.steps) {
      seek(p, line, step);
    }
  }
};

/// The activation row to shared memory; returns this thread's part of the sum of squares. All loads
/// of a batch are in flight before the first store; they bypass the L1, which may hold older data
/// of a buffer that a kernel still running on this SM has read.
__device__ __forceinline__ float gather(const Params& p, int8_t* quants, BlockMeta* meta) {
  constexpr int kBatch = 4, kThreads = kWarps * 32;
  const int n_quants = static_cast<int>(p.id / 16), n = n_quants + static_cast<int>(p.id / 32);
  float squares = 0.f;
#pragma unroll 1
  for (int base = static_cast<int>(threadIdx.x); base < n; base += kBatch * kThreads) {
    uint4 v[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = base + j * kThreads;
      if (i < n_quants) {
        v[j] = __ldcg(reinterpret_cast<const uint4*>(p.quants) + i);
      } else if (i < n) {
        const uint2 m = __ldcg(reinterpret_cast<const uint2*>(p.meta) + (i - n_quants));
        v[j].x = m.x;
        v[j].y = m.y;
        v[j].z = p.squares ? __float_as_uint(__ldcg(p.squares + (i - n_quants))) : 0u;
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

/// Lane r holds value r of a block of 32: int8, scale, sums and the sum of squares.
__device__ __forceinline__ void publish(const Params& p, uint32_t block, float v, int lane) {
  if (p.out_squares) {
    const float squares = warp_sum(v * v);
    if (lane == 0) p.out_squares[block] = squares;
  }
  if (p.out_scale) v *= p.out_scale[block * 32 + lane] + p.out_scale_offset;
  const float largest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(fabsf(v))));
  const float inverse = largest > 0.f ? __fdividef(127.f, largest) : 0.f;
  const int q = min(max(__float2int_rn(v * inverse), -127), 127);
  uint32_t word = static_cast<uint32_t>(q & 255) << (8 * (lane & 3));
  word |= __shfl_xor_sync(~0u, word, 1);
  word |= __shfl_xor_sync(~0u, word, 2);
  if ((lane & 3) == 0) reinterpret_cast<uint32_t*>(p.out_quants + block * 32)[lane >> 2] = word;
  const int lo = __reduce_add_sync(~0u, lane < 16 ? q : 0), all = __reduce_add_sync(~0u, q);
  if (lane == 0) {
    p.out_meta[block] = {largest * (1.f / 127.f), static_cast<int16_t>(lo),
                         static_cast<int16_t>(all - lo)};
  }
}

/// Writes a finished value of a row, and gives back what it was.
__device__ __forceinline__ float put(const Segment& s, uint32_t row, float v, bool padding) {
  const bool real = row < static_cast<uint32_t>(s.od) && !padding;
  if (!real) v = 0.f;
  if (real && s.residual) v += s.residual[row];
  if (s.out && row < static_cast<uint32_t>(s.od)) s.out[row] = v;
  return v;
}

__device__ __forceinline__ float bias_of(const Segment& s, uint32_t row) {
  return s.bias && row < static_cast<uint32_t>(s.od) ? s.bias[row] : 0.f;
}

/// Adds the warps' partial sums of a group; `start` holds the warps' first steps, lane by lane.
__device__ __forceinline__ float sum_parts(const Params& p, uint32_t group, const float* parts,
                                           uint32_t start, int lane) {
  const uint32_t end = __shfl_down_sync(~0u, start, 1);
  const uint32_t low = group * p.steps;
  const uint32_t mask =
      __ballot_sync(~0u, lane < kWarps && start < end && start < low + p.steps && end > low);
  const uint32_t first_group = start / p.steps;
  const int first = __ffs(mask) - 1, last = 31 - __clz(mask);
  float v = parts[(first * p.max_parts + group - __shfl_sync(~0u, first_group, first)) * 32 + lane];
  // Only the first warp of a group can have begun in an earlier one.
  for (int w = first + 1; w <= last; ++w) {
    if ((mask >> w) & 1) v += parts[w * p.max_parts * 32 + lane];
  }
  return v;
}

#endif  // MINFER_SM90A

template <uint32_t First, uint32_t Second>
__global__ void __launch_bounds__(kWarps * 32, 1) decode_kernel(const __grid_constant__ Params p) {
#ifdef MINFER_SM90A
  extern __shared__ __align__(128) uint8_t shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  uint8_t* ring = shared + warp * p.ring_bytes;
  auto* quants = reinterpret_cast<int8_t*>(shared + kWarps * p.ring_bytes);
  auto* meta = reinterpret_cast<BlockMeta*>(quants + p.id);
  auto* parts = reinterpret_cast<float*>(meta + p.id / 32);
  auto* misc = reinterpret_cast<uint8_t*>(parts + kWarps * p.max_parts * 32);
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
  __syncwarp();
  if (p.overlap) {
    allow_dependents();
    wait_for_predecessors();
  }
  float sum = warp_sum(gather(p, quants, meta));
  if (lane == 0) squares[warp] = sum;
  __syncthreads();

  uint32_t k = first % p.steps, slot = 0, parity = 0;
  float acc = 0.f;
  float* part = parts + warp * p.max_parts * 32 + lane;
#pragma unroll 1
  for (uint32_t step = first; step < last; ++step) {
    barrier_wait(barriers + slot * 8, parity);
    const uint8_t* at = ring + slot * slot_bytes;
    if (step < line.split) {
      constexpr uint32_t kStep = kStepK<First>;
      acc += StepDot<First>::dot(at, lane, reinterpret_cast<const int4*>(quants + k * kStep),
                                 meta + k * (kStep / 32));
    } else {
      constexpr uint32_t kStep = kStepK<Second>;
      acc += StepDot<Second>::dot(at, lane, reinterpret_cast<const int4*>(quants + k * kStep),
                                  meta + k * (kStep / 32));
    }
    __syncwarp();
    if (lane == 0 && step + slots < last) request(slot);
    if (++slot == slots) slot = 0, parity ^= 1;
    if (++k == p.steps || step + 1 == last) {
      *part = acc;
      part += 32;
      acc = 0.f;
      k = 0;
    }
  }
  float factor = 1.f;
  if (p.squares) {
    factor = warp_sum(lane < kWarps ? squares[lane] : 0.f);
    factor = rsqrtf(factor / static_cast<float>(p.id) + p.eps);
  }
  __syncthreads();

  const bool padding = p.valid && __ldcg(p.valid) <= 0;
#pragma unroll 1
  for (uint32_t u = first_unit + warp; u < end_unit; u += kWarps) {
    const Place place = locate(p, u * p.unit_groups);
    const Segment& s = *place.segment;
    const uint32_t row = place.group * 32 + lane;
    float v = sum_parts(p, u * p.unit_groups, parts, start, lane) * factor + bias_of(s, row);
    if (p.unit_groups == 2) {
      const float up =
          sum_parts(p, 2 * u + 1, parts, start, lane) * factor + bias_of(p.segments[1], row);
      v = gate_value(p.gate_fn, v) * up;
    }
    v = put(s, row, v, padding);
    if (p.out_quants && place.segment == &p.segments[p.publisher]) publish(p, place.group, v, lane);
  }
#endif
}

using Kernel = void (*)(Params);
struct Pair {
  uint32_t first, second;
  Kernel kernel;
};
#define MINFER_PAIR(a, b) \
  { a, b, decode_kernel<a, b> }
/// Types that may share a launch; every type alone is in one of them.
const Pair kPairs[] = {MINFER_PAIR(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K),
                       MINFER_PAIR(MINFER_TYPE_Q5_K, MINFER_TYPE_Q6_K),
                       MINFER_PAIR(MINFER_TYPE_Q5_0, MINFER_TYPE_Q8_0),
                       MINFER_PAIR(MINFER_TYPE_Q4_0, MINFER_TYPE_Q8_0)};
#undef MINFER_PAIR

const Pair* find_pair(const uint32_t* types, int n) {
  for (const Pair& pair : kPairs) {
    if (std::all_of(types, types + n,
                    [&](uint32_t t) { return t == pair.first || t == pair.second; })) {
      return &pair;
    }
  }
  return nullptr;
}

/// Shared memory beside the rings.
uint32_t fixed_bytes(uint32_t id, uint32_t max_parts) {
  return id + id / 32 * 16 + kWarps * max_parts * 128 + kMiscBytes;
}

/// The segments in the line's order, first type first.
void add_segments(const DecodeCall& call, const Pair& pair, Params& p) {
  for (const uint32_t type : {pair.first, pair.second}) {
    if (type == pair.second) p.split_group = p.groups;
    for (int i = 0; i < call.n_segments; ++i) {
      const DecodeSegment& s = call.segments[i];
      if (s.type != type) continue;
      if (i == 0) p.publisher = p.n_segments;
      p.segments[p.n_segments++] = {s.weight, s.bias, s.residual, s.out, s.od, p.groups};
      p.groups += static_cast<uint32_t>(s.od + 31) / 32;
    }
  }
}

}  // namespace

bool decode_fits(const uint32_t* types, int n, int64_t id) {
  if (n < 1 || n > kMaxDecodeSegments) return false;
  const Pair* pair = find_pair(types, n);
  if (!pair || id % step_k(pair->first) != 0) return false;
  const int largest = std::max(step_bytes(pair->first), step_bytes(pair->second));
  return fixed_bytes(static_cast<uint32_t>(id), 4) + kWarps * largest * 2 <= kSharedLimit;
}

cudaError_t launch_decode(const DecodeCall& call, int sms, cudaStream_t stream) {
  uint32_t types[kMaxDecodeSegments];
  for (int i = 0; i < call.n_segments; ++i) types[i] = call.segments[i].type;
  if (!decode_fits(types, call.n_segments, call.id)) return cudaErrorInvalidValue;
  if (call.gated && (call.n_segments != 2 || types[0] != types[1] ||
                     call.segments[0].od != call.segments[1].od)) {
    return cudaErrorInvalidValue;
  }
  const Pair& pair = *find_pair(types, call.n_segments);
  Params p{};
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
  const uint32_t blocks = std::min(units, static_cast<uint32_t>(sms));
  const uint32_t block_groups = (units + blocks - 1) / blocks * p.unit_groups;
  // A warp's share is bytes, and the types of a pair differ by less than a factor of two.
  p.max_parts = std::min(block_groups, 2 * block_groups / kWarps + 2);
  const uint32_t fixed = fixed_bytes(p.id, p.max_parts);
  const uint32_t largest =
      static_cast<uint32_t>(std::max(step_bytes(pair.first), step_bytes(pair.second)));
  p.ring_bytes = std::min((kSharedLimit - fixed) / kWarps / 128 * 128, kMaxSlots * largest);
  if (p.ring_bytes < largest) return cudaErrorInvalidValue;
  const uint32_t shared = fixed + kWarps * p.ring_bytes;

  cudaError_t error = cudaFuncSetAttribute(pair.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(shared));
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kWarps * 32);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = call.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, pair.kernel, p);
}

}  // namespace minfer_cuda::hopper
