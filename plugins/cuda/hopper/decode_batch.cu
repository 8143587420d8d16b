// Decode of two to eight tokens (see decode.h): decode.cu's stream of weights, the products on the
// int8 tensor cores (decode_mma.cuh). Activations are not kept in shared memory: a block reads most
// of them once, so each warp fetches what its step needs while the weights are under way.
#include <algorithm>

#include "decode_common.cuh"
#include "decode_mma.cuh"

namespace minfer_cuda::hopper {
namespace {

#ifdef MINFER_SM90A

constexpr int kTokens = kMaxDecodeTokens;

/// Leaves a group's sums as [token][row].
__device__ __forceinline__ void store_part(float* part, int lane, MmaSums& acc) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      part[(2 * t + (i & 1)) * 32 + half * 16 + g + (i >> 1) * 8] = acc[half][i];
      acc[half][i] = 0.f;
    }
  }
}

/// The norm factor of each token, one warp a token.
__device__ __forceinline__ void find_factors(const Params& p, float* factors, int warp, int lane) {
  if (warp >= kTokens) return;
  float factor = 1.f;
  if (p.squares && warp < static_cast<int>(p.tokens)) {
    float sum = 0.f;
    for (uint32_t i = lane; i < p.id / 32; i += 32)
      sum += __ldcg(p.squares + warp * (p.id / 32) + i);
    factor = rsqrtf(warp_sum(sum) / static_cast<float>(p.id) + p.eps);
  }
  if (lane == 0) factors[warp] = factor;
}

template <uint32_t Type>
__device__ __forceinline__ void run_step(const BatchInput& x, uint32_t k, const uint8_t* at,
                                         int lane, uint32_t barrier, uint32_t parity,
                                         MmaSums& acc) {
  BatchStep<StepMma<Type>::kBlocks> activations;
  activations.load(x, k * kStepK<Type>);
  barrier_wait(barrier, parity);
  StepMma<Type>::run(at, lane, activations, acc);
}

#endif  // MINFER_SM90A

template <uint32_t First, uint32_t Second>
__global__ void __launch_bounds__(kWarps * 32, 1)
    decode_batch_kernel(const __grid_constant__ Params p) {
#ifdef MINFER_SM90A
  extern __shared__ __align__(128) uint8_t shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  uint8_t* ring = shared + warp * p.ring_bytes;
  auto* parts = reinterpret_cast<float*>(shared + kWarps * p.ring_bytes);
  auto* misc = reinterpret_cast<uint8_t*>(parts + kWarps * p.max_parts * kTokens * 32);
  const uint32_t barriers = shared_address(misc) + warp * kMaxSlots * 8;
  auto* factors = reinterpret_cast<float*>(misc + kWarps * kMaxSlots * 8);

  const uint32_t units = p.groups / p.unit_groups;
  const uint32_t first_unit = units * blockIdx.x / gridDim.x;
  const uint32_t end_unit = units * (blockIdx.x + 1) / gridDim.x;
  const uint32_t unit_steps = p.unit_groups * p.steps;
  const Line<First, Second> line{p.split_group * p.steps};
  const uint32_t start =
      line.share(first_unit * unit_steps, end_unit * unit_steps, min(lane, kWarps), kWarps);
  const uint32_t first = __shfl_sync(~0u, start, warp), last = __shfl_sync(~0u, start, warp + 1);
  const uint32_t slot_bytes =
      last > line.split ? max(kStepBytes<First>, kStepBytes<Second>) : kStepBytes<First>;
  const uint32_t slots = min(p.ring_bytes / slot_bytes, static_cast<uint32_t>(kMaxSlots));
  const uint64_t policy = evict_first();
  Cursor<First, Second> next{};
  const auto request = [&](uint32_t slot) {
    barrier_expect(barriers + slot * 8, next.bytes);
    bulk_copy(shared_address(ring) + slot * slot_bytes, next.at, next.bytes, barriers + slot * 8,
              policy);
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
  find_factors(p, factors, warp, lane);

  // Lanes of missing tokens read the last one's row; their results are not used.
  const uint32_t most = p.tokens - 1, t2 = (lane & 3) * 2;
  const BatchInput x{
      p.quants + size_t{min(static_cast<uint32_t>(lane) >> 2, most)} * p.id + (lane & 3) * 4,
      {p.meta + size_t{min(t2, most)} * (p.id / 32),
       p.meta + size_t{min(t2 + 1, most)} * (p.id / 32)}};
  uint32_t k = first % p.steps, slot = 0, parity = 0;
  MmaSums acc = {};
  float* part = parts + warp * p.max_parts * kTokens * 32;
#pragma unroll 1
  for (uint32_t step = first; step < last; ++step) {
    const uint8_t* at = ring + slot * slot_bytes;
    if (step < line.split) {
      run_step<First>(x, k, at, lane, barriers + slot * 8, parity, acc);
    } else {
      run_step<Second>(x, k, at, lane, barriers + slot * 8, parity, acc);
    }
    __syncwarp();
    if (lane == 0 && step + slots < last) request(slot);
    if (++slot == slots) slot = 0, parity ^= 1;
    if (++k == p.steps || step + 1 == last) {
      store_part(part, lane, acc);
      part += kTokens * 32;
      k = 0;
    }
  }
  __syncthreads();

  const int tokens = static_cast<int>(p.tokens);
  const int valid = p.valid ? min(__ldcg(p.valid), tokens) : tokens;
  const uint32_t work = (end_unit - first_unit) * p.tokens;
#pragma unroll 1
  for (uint32_t i = warp; i < work; i += kWarps) {
    const uint32_t token = i % p.tokens;
    finish<kTokens>(p, first_unit + i / p.tokens, parts, start, lane, token, factors[token],
                    static_cast<int>(token) >= valid);
  }
#endif
}

#define MINFER_PAIR(a, b) \
  { a, b, decode_batch_kernel<a, b> }
const DecodePair kPairs[] = {MINFER_PAIR(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K),
                             MINFER_PAIR(MINFER_TYPE_Q8_0, MINFER_TYPE_Q8_0)};
#undef MINFER_PAIR

}  // namespace

const DecodePair* find_batch_pair(const uint32_t* types, int n) {
  for (const DecodePair& pair : kPairs) {
    const auto known = [&](uint32_t t) { return t == pair.first || t == pair.second; };
    if (std::all_of(types, types + n, known)) return &pair;
  }
  return nullptr;
}

}  // namespace minfer_cuda::hopper
