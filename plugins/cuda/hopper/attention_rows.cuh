// Hopper prefill attention: a consumer warpgroup's rows, and where their results go (see
// attention.cu).
#pragma once

#include "attention_load.cuh"

namespace minfer_cuda::hopper {

inline constexpr float kLog2e = 1.4426950408889634f;

#ifdef MINFER_SM90A

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The 64 query rows of a warpgroup, two a thread: the first and second row of an m64 fragment.
/// Scores are in units of log2.
template <int D>
struct Rows {
  using L = Layout<D>;
  using Sums = float[D / 2];  ///< of probabilities times values, as wgmma leaves them
  const AttentionParams& p;
  uint32_t base;  ///< of shared memory
  int warpgroup, thread;
  int group;                           ///< query heads of a KV head
  float largest[2] = {}, sum[2] = {};  ///< largest score, sum of the probabilities relative to it

  __device__ __forceinline__ int lane() const { return thread & 31; }
  __device__ __forceinline__ int row(int h) const {
    return warpgroup * 64 + (thread >> 5) * 16 + h * 8 + (lane() >> 2);
  }
  /// Meets the other warps of the warpgroup.
  __device__ __forceinline__ void meet() const { named_barrier(3 + warpgroup, 128); }

  /// A row's sums as f16 in fragment order: this thread's two neighbours of every eight belong at
  /// t and t + 8, so it swaps with the next lane and stores pairs.
  __device__ __forceinline__ void write_fragments(uint16_t* row, const Sums& out, int h,
                                                  float factor, bool real) const {
    const int t = lane() & 3;
    const uint32_t select = t & 1 ? 0x3276 : 0x5410;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const float a = out[n * 4 + h * 2] * factor, b = out[n * 4 + h * 2 + 1] * factor;
      const uint32_t own = bits_of(__floats2half2_rn(fminf(fmaxf(a, -65504.f), 65504.f),
                                                     fminf(fmaxf(b, -65504.f), 65504.f)));
      const uint32_t pair = __byte_perm(own, __shfl_xor_sync(~0u, own, 1), select);
      const int at = n / 2 * 16 + (n & 1) * 4 + (t & 2) + (t & 1) * 8;
      if (real) *reinterpret_cast<uint32_t*>(row + at) = pair;
    }
  }

  __device__ __forceinline__ void write(const Item& item, const Sums& out) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool real = row(h) < item.rows;
      const int r = item.row0 + row(h), head = item.kv_head * group + r % group;
      const int64_t token = item.first_token + r / group;
      float factor = 1.f, total = sum[h];
      if (p.call.sinks) {
        const float sink = p.call.sinks[head] * kLog2e, m = fmaxf(largest[h], sink);
        factor = largest[h] == -INFINITY ? 0.f : exp2_fast(largest[h] - m);
        total = total * factor + exp2_fast(sink - m);
      }
      const float inverse = total > 0.f ? factor / total : 0.f;
      if (p.call.out_fragments) {
        write_fragments(p.call.out_fragments + (token * p.call.n_head + head) * D, out, h, inverse,
                        real);
        continue;
      }
      if (!real) continue;
      auto* to = reinterpret_cast<float*>(p.call.out + head * p.call.out_nb_head +
                                          token * p.call.out_nb_token) +
                 (lane() & 3) * 2;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        *reinterpret_cast<float2*>(to + n * 8) =
            make_float2(out[n * 4 + h * 2] * inverse, out[n * 4 + h * 2 + 1] * inverse);
      }
    }
  }

  /// Sums of this warpgroup's rows that a part left in the workspace.
  __device__ __forceinline__ float* part_at(int slot) const {
    return p.workspace + int64_t{slot * 2 + warpgroup} * L::kPartFloats;
  }
  /// Largest score and sum of a row there.
  __device__ __forceinline__ float2* stats_at(int slot, int h) const {
    return reinterpret_cast<float2*>(part_at(slot) + 64 * D) + row(h) - warpgroup * 64;
  }

  /// Leaves a part's sums in the workspace. The warpgroup that does so last gets true, and holds
  /// the whole item's sums: added in the order of the parts, whoever is last.
  __device__ __forceinline__ bool join_parts(const Item& item, Sums& out) {
    float* mine = part_at(item.slot) + thread * 4;
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      __stcg(reinterpret_cast<float4*>(mine + i * 512),
             make_float4(out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3]));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if ((lane() & 3) == 0) __stcg(stats_at(item.slot, h), make_float2(largest[h], sum[h]));
    }
    __threadfence();
    meet();
    const uint32_t flag = base + L::kLastAt + warpgroup * 4;
    if (thread == 0) {
      uint32_t* counter = p.counters + item.counter * 2 + warpgroup;
      const bool last = atomicAdd(counter, 1u) == static_cast<uint32_t>(item.parts - 1);
      if (last) *counter = 0;  // ready for the next launch
      store_shared_4(flag, last);
    }
    meet();
    if (load_shared_4(flag) == 0) return false;
    __threadfence();

    const int first = item.slot - item.part;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = -INFINITY;
      sum[h] = 0.f;
      for (int i = 0; i < item.parts; ++i) {
        largest[h] = fmaxf(largest[h], __ldcg(stats_at(first + i, h)).x);
      }
    }
#pragma unroll
    for (int i = 0; i < D / 2; ++i) out[i] = 0.f;
    for (int i = 0; i < item.parts; ++i) {
      float weight[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float2 stats = __ldcg(stats_at(first + i, h));
        weight[h] = stats.x == -INFINITY ? 0.f : exp2_fast(stats.x - largest[h]);
        sum[h] = fmaf(weight[h], stats.y, sum[h]);
      }
      const float* part = part_at(first + i) + thread * 4;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        const float4 v = __ldcg(reinterpret_cast<const float4*>(part + n * 512));
        out[4 * n] = fmaf(weight[0], v.x, out[4 * n]);
        out[4 * n + 1] = fmaf(weight[0], v.y, out[4 * n + 1]);
        out[4 * n + 2] = fmaf(weight[1], v.z, out[4 * n + 2]);
        out[4 * n + 3] = fmaf(weight[1], v.w, out[4 * n + 3]);
      }
    }
    return true;
  }
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
