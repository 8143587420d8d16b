// Decode of two to sixteen tokens (see decode.h): decode.cu's stream of weights, the products on
// the int8 tensor cores (decode_mma.cuh).
//
// A block owns whole units and cuts each group of 32 rows among its warps along k, so that a warp
// meets the same few steps in every group: where they fit (act_slots), their activations are
// brought in once for the launch; otherwise they stream beside the weights, a step ahead. After a
// group the warps' partial sums are added in the order of warps, a warp a token: results do not
// depend on timing. The parts of two groups have room, so that one group's results are finished
// while other warps are at the next; the rings stay full meanwhile.
#include <algorithm>

#include "decode_common.cuh"
#include "decode_mma.cuh"

namespace minfer_cuda::hopper {
namespace {

#ifdef MINFER_SM90A

/// Asks for the activations of step k: 16 bytes a copy, of the tokens that there are.
template <int K, int Tiles>
__device__ __forceinline__ void request_acts(uint32_t slot, const Params& p, uint32_t k, int lane) {
  using Slot = ActSlot<K, Tiles>;
  constexpr int kRowCopies = K / 16, kMetaCopies = K / 64;
  const uint32_t metas = slot + Slot::kTokens * Slot::kRow;
#pragma unroll
  for (int j = 0; j < Slot::kTokens * kRowCopies / 32; ++j) {
    const uint32_t i = lane + j * 32, token = i / kRowCopies, c = i % kRowCopies;
    if (token >= p.tokens) continue;
    copy_16(slot + token * Slot::kRow + c * 16, p.quants + size_t{token} * p.id + k * K + c * 16);
  }
#pragma unroll
  for (int j = 0; j < (Slot::kTokens * kMetaCopies + 31) / 32; ++j) {
    const uint32_t i = lane + j * 32, token = i / kMetaCopies, c = i % kMetaCopies;
    if (token >= p.tokens) continue;
    copy_16(metas + token * Slot::kMetaRow + c * 16,
            p.meta + size_t{token} * (p.id / 32) + k * (K / 32) + c * 2);
  }
}

/// Leaves a group's sums as [token][row].
template <int Tiles>
__device__ __forceinline__ void store_part(float* part, int lane, const MmaSums<Tiles>& acc) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int i = 0; i < Tiles * 8; ++i) {
    const int token = (i >> 3) * 8 + 2 * t + (i & 1), half = (i >> 2) & 1;
    part[token * 32 + half * 16 + ((i >> 1) & 1) * 8 + g] = acc[i >> 3][half][i & 3];
  }
}

/// The norm factor of each token, a warp a token.
__device__ __forceinline__ void find_factors(const Params& p, float* factors, uint32_t warp,
                                             uint32_t warps, int lane) {
  for (uint32_t token = warp; token < p.tokens; token += warps) {
    float factor = 1.f;
    if (p.squares) {
      float sum = 0.f;
#pragma unroll 4
      for (uint32_t i = lane; i < p.id / 32; i += 32)
        sum += __ldcg(p.squares + token * (p.id / 32) + i);
      factor = rsqrtf(warp_sum(sum) / static_cast<float>(p.id) + p.eps);
    }
    if (lane == 0) factors[token] = factor;
  }
}

/// Walks a warp's steps for the copies: its range of k, group by group.
template <uint32_t First, uint32_t Second>
struct RangeCursor {
  const uint8_t* at;
  uint32_t group, k, bytes;

  __device__ __forceinline__ void seek(const Params& p, uint32_t to, uint32_t begin) {
    group = to;
    k = begin;
    bytes = to < p.split_group ? kStepBytes<First> : kStepBytes<Second>;
    const Place place = locate(p, to);
    at = place.segment->weight + (size_t{place.group} * p.steps + begin) * bytes;
  }
  __device__ __forceinline__ void advance(const Params& p, uint32_t begin, uint32_t end) {
    at += bytes;
    if (++k == end && group + 1 < p.groups) seek(p, group + 1, begin);
  }
};

#endif  // MINFER_SM90A

template <uint32_t First, uint32_t Second, int Tiles>
__global__ void __launch_bounds__(max_batch_warps(Tiles) * 32, 1)
    decode_batch_kernel(const __grid_constant__ Params p) {
#ifdef MINFER_SM90A
  constexpr int kStep = kStepK<First>, kTokens = 8 * Tiles;
  using Slot = ActSlot<kStep, Tiles>;
  extern __shared__ __align__(128) uint8_t shared[];
  const int lane = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const uint32_t own_bytes = p.ring_bytes + p.act_slots * Slot::kBytes;
  uint8_t* ring = shared + warp * own_bytes;
  const uint32_t acts = shared_address(ring) + p.ring_bytes;
  auto* parts = reinterpret_cast<float*>(shared + warps * own_bytes);  // [2][warp][token][row]
  float* gates = parts + 2 * warps * kTokens * 32;                     // [token][row]
  float* factors = gates + kTokens * 32;                               // [token]
  const uint32_t barriers = shared_address(factors + kTokens) + warp * kMaxSlots * 8;

  const uint32_t units = p.groups / p.unit_groups;
  const uint32_t first = units * blockIdx.x / gridDim.x * p.unit_groups;
  const uint32_t end = units * (blockIdx.x + 1) / gridDim.x * p.unit_groups;
  const uint32_t k_begin = p.steps * warp / warps, k_end = p.steps * (warp + 1) / warps;
  const uint32_t mine = k_end - k_begin, total = mine * (end - first);
  const uint32_t slot_bytes =
      end > p.split_group ? max(kStepBytes<First>, kStepBytes<Second>) : kStepBytes<First>;
  const uint32_t slots = min(p.ring_bytes / slot_bytes, static_cast<uint32_t>(kMaxSlots));
  const uint64_t policy = evict_first();
  RangeCursor<First, Second> next{};
  const auto request = [&](uint32_t slot) {
    barrier_expect(barriers + slot * 8, next.bytes);
    bulk_copy(shared_address(ring) + slot * slot_bytes, next.at, next.bytes, barriers + slot * 8,
              policy);
    next.advance(p, k_begin, k_end);
  };
  if (lane == 0) {
    for (uint32_t i = 0; i < slots; ++i) barrier_init(barriers + i * 8, 1);
    fence_async();
    next.seek(p, first, k_begin);
    for (uint32_t i = 0; i < slots && i < total; ++i) request(i);
  }
  __syncwarp();
  if (p.overlap) {
    allow_dependents();
    wait_for_predecessors();
  }
  const bool resident = mine <= p.act_slots;
  request_acts<kStep, Tiles>(acts, p, k_begin, lane);
  if (resident && mine == 2) request_acts<kStep, Tiles>(acts + Slot::kBytes, p, k_begin + 1, lane);
  end_copies();
  find_factors(p, factors, warp, warps, lane);
  if (resident) wait_copies<0>();
  __syncwarp();

  const int valid = p.valid ? min(__ldcg(p.valid), static_cast<int>(p.tokens)) : p.tokens;
  uint32_t step = 0, slot = 0, parity = 0;
#pragma unroll 1
  for (uint32_t group = first; group < end; ++group) {
    const uint32_t unit = group / p.unit_groups;
    const bool gate = p.unit_groups == 2 && !(group & 1);
    // What the warp's first token needs at the group's end: asked for now, it is there then.
    Tail tail;
    if (!gate && warp < p.tokens) {
      tail = constant_tail(p, unit, lane);
      tail.residual = residual_of(p, unit, lane, warp);
    }
    MmaSums<Tiles> acc = {};
#pragma unroll 1
    for (uint32_t k = 0; k < mine; ++k, ++step) {
      uint32_t here = acts + (resident ? k : step & 1) * Slot::kBytes;
      if (!resident) {
        if (step + 1 < total) {
          const uint32_t following = k + 1 == mine ? k_begin : k_begin + k + 1;
          request_acts<kStep, Tiles>(acts + ((step + 1) & 1) * Slot::kBytes, p, following, lane);
        }
        end_copies();
        wait_copies<1>();
        __syncwarp();
      }
      barrier_wait(barriers + slot * 8, parity);
      const uint8_t* at = ring + slot * slot_bytes;
      const BatchActs<kStep, Tiles> x(here, lane);
      if (group < p.split_group) {
        StepMma<First>::run(at, lane, x, acc);
      } else {
        StepMma<Second>::run(at, lane, x, acc);
      }
      __syncwarp();
      if (lane == 0 && step + slots < total) request(slot);
      if (++slot == slots) slot = 0, parity ^= 1;
    }
    float* group_parts = parts + (group & 1) * warps * kTokens * 32;
    store_part<Tiles>(group_parts + warp * kTokens * 32, lane, acc);
    // Also tells that everyone is done with the parts of the group before.
    __syncthreads();
    for (uint32_t token = warp; token < p.tokens; token += warps) {
      const float* part = group_parts + token * 32 + lane;
      float v = 0.f;
#pragma unroll 4
      for (uint32_t w = 0; w < warps; ++w) v += part[w * kTokens * 32];
      float& kept = gates[token * 32 + lane];  // from this warp to itself
      if (gate) {
        kept = v;
      } else {
        const bool gated = p.unit_groups == 2;
        if (token != warp) {
          tail = constant_tail(p, unit, lane);
          tail.residual = residual_of(p, unit, lane, token);
        }
        finish(p, unit, gated ? kept : v, gated ? v : 0.f, tail, lane, token, factors[token],
               static_cast<int>(token) >= valid);
      }
    }
  }
#endif
}

struct BatchPair {
  uint32_t first, second;
  DecodeKernel kernels[2];  ///< up to 8 and up to 16 tokens
};
#define MINFER_PAIR(a, b)                                        \
  {                                                              \
    a, b, {                                                      \
      decode_batch_kernel<a, b, 1>, decode_batch_kernel<a, b, 2> \
    }                                                            \
  }
const BatchPair kPairs[] = {MINFER_PAIR(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K),
                            MINFER_PAIR(MINFER_TYPE_Q8_0, MINFER_TYPE_Q8_0)};
#undef MINFER_PAIR

uint32_t act_slot_bytes(uint32_t k, uint32_t tiles) {
  if (k == 128) return tiles == 1 ? ActSlot<128, 1>::kBytes : ActSlot<128, 2>::kBytes;
  return tiles == 1 ? ActSlot<256, 1>::kBytes : ActSlot<256, 2>::kBytes;
}

}  // namespace

DecodePair find_batch_pair(const uint32_t* types, int n, int64_t tokens) {
  for (const BatchPair& pair : kPairs) {
    const auto known = [&](uint32_t t) { return t == pair.first || t == pair.second; };
    if (std::all_of(types, types + n, known)) {
      return {pair.first, pair.second, pair.kernels[tokens > 8]};
    }
  }
  return {};
}

BlockShape batch_shape(const DecodePair& pair, uint32_t steps, int64_t tokens, bool second,
                       uint32_t most_warps) {
  const uint32_t tiles = tokens > 8 ? 2 : 1;
  const auto largest = static_cast<uint32_t>(
      second ? std::max(step_bytes(pair.first), step_bytes(pair.second)) : step_bytes(pair.first));
  const uint32_t act = act_slot_bytes(static_cast<uint32_t>(step_k(pair.first)), tiles);
  const uint32_t row = 8 * tiles * 128, common = row + 8 * tiles * 4;
  const auto limit = static_cast<uint32_t>(max_batch_warps(static_cast<int>(tiles)));
  uint32_t most = most_warps;
  if (most == 0) most = tiles == 2 ? 8 : steps <= limit ? limit : 12;
  most = std::min({most, steps, limit});
  const auto rounds = [&](uint32_t warps) { return (steps + warps - 1) / warps; };
  BlockShape best;
  // Two weights' slots a warp where that is possible, then the fewest idle turns, then most warps.
  for (const uint32_t wanted : {2u, 1u}) {
    for (uint32_t warps = most; warps >= std::min(most, 6u) && warps > 0; --warps) {
      const uint32_t acts = rounds(warps) > 1 ? 2 : 1;
      const uint32_t fixed = acts * act + 2 * row + kMaxSlots * 8;
      const uint32_t each = (kSharedLimit - common) / warps;
      if (each < fixed + wanted * largest) continue;
      if (best.warps && rounds(warps) * warps >= rounds(best.warps) * best.warps) continue;
      const uint32_t ring = std::min((each - fixed) / 16 * 16, kMaxSlots * largest);
      best = {warps, acts, ring, common + warps * (fixed + ring)};
    }
    if (best.warps) break;
  }
  return best;
}

}  // namespace minfer_cuda::hopper
