// The consumers of the prefill kernel: warpgroups that dequantise and multiply.
//
// While one half of a stage multiplies, the next half's fragments are dequantised. Sums of a tile
// cut along k go through a workspace; warpgroups that take turns on the same rows add up through
// shared memory.
#pragma once

#include "prefill_epilogue.cuh"
#include "wgmma.cuh"

namespace minfer_cuda::hopper {

#ifdef MINFER_SM90A

template <class T, bool Gated>
class Consumer {
 public:
  using Weight = typename T::Weight;
  using W = Weights<T::kType>;

  /// `thread` counts consumers' threads.
  __device__ __forceinline__ Consumer(const Params& p, uint32_t base, int block, int thread)
      : p_(p),
        base_(base),
        block_(block),
        warpgroup_(thread / kWarpgroup),
        thread_(thread % kWarpgroup),
        stages_(base + T::kBarrierAt, 0),
        units_(unit_barriers<T>(base), 0) {}

  __device__ __forceinline__ void run() {
    const Work work = Work::of<T>(p_);
    if constexpr (T::kNarrow) load_scales();
    if (work.wide > 0) phase<T::kTokens>(work.wide_schedule(p_), work.wide, 0, 0);
    const int end = work.wide * T::kTokens;
    if constexpr (T::kTokens > 64) {
      switch (work.tail_tokens) {
        case 64:
          phase<64>(p_.tail, 1, end, p_.tail_slot);
          break;
        case 128:
          if constexpr (T::kTokens > 128) phase<128>(p_.tail, 1, end, p_.tail_slot);
          break;
        case 192:
          if constexpr (T::kTokens > 192) phase<192>(p_.tail, 1, end, p_.tail_slot);
          break;
        default:
          break;
      }
    }
    if constexpr (!Gated) clear(end + work.tail_tokens);
  }

 private:
  __device__ __forceinline__ int lane() const { return thread_ & 31; }
  __device__ __forceinline__ int warp() const { return thread_ >> 5; }
  __device__ __forceinline__ int row_group() const { return warpgroup_ % T::kRowGroups; }
  __device__ __forceinline__ int turn() const { return warpgroup_ / T::kRowGroups; }

  /// Tiles of N tokens; their parts have slots from `slot`.
  template <int N>
  __device__ __forceinline__ void phase(const Schedule& schedule, int token_tiles, int first_token,
                                        int slot) {
    Walk walk(schedule, token_tiles * p_.row_tiles, block_);
    Piece piece;
    while (walk.next(piece)) {
      float acc[N / 2];
      multiply<N>(piece.begin, piece.end, acc);
      if constexpr (T::kTurns > 1) {
        if (!gather_turns<N>(acc)) continue;
      }
      if (piece.slot >= 0) {
        hand_over<N>(slot + piece.slot, acc);
        continue;
      }
      if (piece.parts > 0) {
        add_parts<N>(slot + piece.tile * schedule.max_parts, piece.parts, acc);
      }
      int row_tile, token_tile;
      split_tile(p_.row_tiles, token_tiles, piece.tile, row_tile, token_tile);
      const Segment& s = Gated ? p_.segments[0] : find_segment(p_, row_tile);
      const int rows = Gated ? T::kRows / 2 : T::kRows;
      const Epilogue<N, Gated, T::kNarrow> epilogue{
          p_,
          warpgroup_,
          thread_,
          row_tile * rows + row_group() * (rows / T::kRowGroups),
          first_token + token_tile * T::kTokens,
          base_ + T::kScaleAt,
          base_ + T::kSquaresAt};
      epilogue.write(s, acc);
    }
  }

  /// Units [begin, end) of a tile, those of this warpgroup's turns.
  template <int N>
  __device__ __forceinline__ void multiply(int begin, int end, float (&acc)[N / 2]) {
    const FragmentRows rows = fragment_rows<Gated>(warp(), lane());
    const uint32_t tile = ((base_ & 0x3ffff) >> 4) | (1u << 16);
    const uint32_t weights = base_ + T::kUnitAt + row_group() * 2 * Weight::kUnitBytes;
    int keep = 0;
    uint32_t previous = 0;  // barrier of the stage that is multiplied still
    if constexpr (T::kTurns > 1) {
      // A piece may hold no unit of this turn.
#pragma unroll
      for (int i = 0; i < N / 2; ++i) acc[i] = 0.f;
      keep = 1;
    }
    for (int unit = begin; unit < end; ++unit) {
      if constexpr (T::kTurns > 1) {
        if (unit_++ % T::kTurns != turn()) {
          stages_.advance(T::kUnitSteps / T::kStageSteps);
          units_.advance();
          continue;
        }
      }
      typename W::Head head;
      typename W::Slot slot;
      uint32_t fragments[2][8];
      const uint32_t at = weights + units_.at * T::kUnitBytes;
      barrier_wait(units_.full(), units_.parity);
      W::load_head(head, at, rows);
#pragma unroll
      for (int q = 0; q < T::kUnitSteps; ++q) {
        load_slot(slot, q, at, rows);
        if (q % T::kStageSteps == 0) barrier_wait(stages_.full(), stages_.parity);
        const uint32_t x =
            tile + (stages_.at * T::kStageBytes + q % T::kStageSteps * T::kStepBytes) / 16;
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          uint32_t(&f)[8] = fragments[u];
          dequantise(head, slot, q, u, f);
          wgmma_fence();
          wgmma(acc, f, b_tile(x + u * 2), keep);
          keep = 1;
          wgmma(acc, f + 4, b_tile(x + u * 2 + 4), 1);
          wgmma_commit();
          wgmma_wait<1>();
          if (u == 0 && q % T::kStageSteps == 0 && previous != 0) release(previous);
        }
        if (q + 1 == T::kUnitSteps) release(units_.empty());
        if ((q + 1) % T::kStageSteps == 0) {
          previous = stages_.empty();
          stages_.advance();
        }
      }
      units_.advance();
    }
    wgmma_wait<0>();
    wgmma_results(acc);
    if (previous != 0) release(previous);
  }

  /// Descriptor of activations: 128-byte rows, 128-byte swizzle, eight rows 1024 bytes apart. The
  /// high word is a constant, sums are of the low one alone.
  static __device__ __forceinline__ uint64_t b_tile(uint32_t low) {
    return (uint64_t{0x40000040} << 32) | low;
  }

  /// The words of step q and those that share them; `q` is a constant after unrolling.
  static __device__ __forceinline__ void load_slot(typename W::Slot& slot, int q, uint32_t at,
                                                   const FragmentRows& rows) {
    if (q == 0) W::template load_slot<0>(slot, at, rows);
    if (q == 1 && Weight::kSlotSteps == 1) W::template load_slot<1>(slot, at, rows);
    if constexpr (T::kUnitSteps == 4) {
      if (q == 2) W::template load_slot<2>(slot, at, rows);
      if (q == 3 && Weight::kSlotSteps == 1) W::template load_slot<3>(slot, at, rows);
    }
  }

  /// The same of fragments of half a step.
  __device__ __forceinline__ void dequantise(const typename W::Head& head,
                                             const typename W::Slot& slot, int q, int u,
                                             uint32_t (&f)[8]) const {
    switch (q) {
      case 0:
        return W::template fragments<0>(head, slot, u, p_.patterns, f);
      case 1:
        return W::template fragments<1>(head, slot, u, p_.patterns, f);
      case 2:
        return W::template fragments<2>(head, slot, u, p_.patterns, f);
      default:
        return W::template fragments<3>(head, slot, u, p_.patterns, f);
    }
  }

  __device__ __forceinline__ void release(uint32_t barrier) const {
    if (lane() == 0) barrier_arrive(barrier);
  }

  /// Sums over the turns end up in turn 0, for which this returns true.
  template <int N>
  __device__ __forceinline__ bool gather_turns(float (&acc)[N / 2]) const {
    static_assert(T::kTurns <= 2);
    const int filled = 5 + row_group(), free = filled + T::kRowGroups;
    const uint32_t at = base_ + T::kExchangeAt + row_group() * (T::kTokens / 8) * 2048 +
                        static_cast<uint32_t>(thread_) * 16;
    if (turn() != 0) {
      named_barrier(free, 2 * kWarpgroup);
#pragma unroll
      for (int i = 0; i < N / 8; ++i) {
        store_shared_16(
            at + i * 2048,
            make_uint4(__float_as_uint(acc[4 * i]), __float_as_uint(acc[4 * i + 1]),
                       __float_as_uint(acc[4 * i + 2]), __float_as_uint(acc[4 * i + 3])));
      }
      named_barrier_arrive(filled, 2 * kWarpgroup);
      return false;
    }
    named_barrier_arrive(free, 2 * kWarpgroup);
    named_barrier(filled, 2 * kWarpgroup);
#pragma unroll
    for (int i = 0; i < N / 8; ++i) {
      const uint4 v = load_shared_16(at + i * 2048);
      acc[4 * i] += __uint_as_float(v.x), acc[4 * i + 1] += __uint_as_float(v.y);
      acc[4 * i + 2] += __uint_as_float(v.z), acc[4 * i + 3] += __uint_as_float(v.w);
    }
    return true;
  }

  __device__ __forceinline__ float4* part(int slot) const {
    return reinterpret_cast<float4*>(p_.workspace) +
           static_cast<size_t>(slot * T::kRowGroups + row_group()) * (T::kTokens / 8) * 128 +
           thread_;
  }
  __device__ __forceinline__ uint32_t* flag(int slot) const {
    return p_.flags + slot * T::kRowGroups + row_group();
  }

  template <int N>
  __device__ __forceinline__ void hand_over(int slot, const float (&acc)[N / 2]) const {
    float4* to = part(slot);
#pragma unroll
    for (int i = 0; i < N / 8; ++i) {
      __stcg(to + i * 128, make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]));
    }
    __threadfence();
    named_barrier(1 + warpgroup_, kWarpgroup);
    if (thread_ == 0) {
      asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag(slot)), "r"(1u) : "memory");
    }
  }

  /// All parts are waited for at once, then added in order.
  template <int N>
  __device__ __forceinline__ void add_parts(int slot, int n, float (&acc)[N / 2]) const {
    for (int i = thread_; i < n; i += kWarpgroup) {
      uint32_t v;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(v)
                     : "l"(flag(slot + i))
                     : "memory");
      } while (v == 0);
      *flag(slot + i) = 0;  // nobody else reads it; the next launch finds it clear
    }
    named_barrier(1 + warpgroup_, kWarpgroup);
    constexpr size_t kStride = size_t{1} * T::kRowGroups * (T::kTokens / 8) * 128;
    const float4* from = part(slot);
#pragma unroll(N <= 32 ? 4 : N == 64 ? 2 : 1)
    for (int i = 0; i < n; ++i, from += kStride) {
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
        const float4 v = __ldcg(from + j * 128);
        acc[4 * j] += v.x, acc[4 * j + 1] += v.y, acc[4 * j + 2] += v.z, acc[4 * j + 3] += v.w;
      }
    }
  }

  /// The tokens' scales to shared memory.
  __device__ __forceinline__ void load_scales() const {
    const int me = warpgroup_ * kWarpgroup + thread_, token = me % T::kTokens;
    const uint32_t sums = base_ + T::kSquaresAt;
    if (p_.x_squares) {
      float sum = 0.f;
      if (token < p_.tokens) {
        for (int i = me / T::kTokens; i < p_.id / 64; i += T::kSquareRows) {
          sum += __ldcg(p_.x_squares + static_cast<size_t>(i) * p_.tokens + token);
        }
      }
      store_shared_4(sums + me * 4, __float_as_uint(sum));
      named_barrier(15, T::kConsumers * kWarpgroup);
    }
    if (me < T::kTokens) {
      float s = token < valid_of(p_.valid, p_.tokens) ? p_.x_factor : 0.f;
      if (p_.x_squares) {
        float sum = 0.f;
        for (int i = 0; i < T::kSquareRows; ++i) {
          sum += __uint_as_float(load_shared_4(sums + (i * T::kTokens + token) * 4));
        }
        s *= rsqrtf(sum / static_cast<float>(p_.id) + p_.eps);
      } else if (p_.x_scale && s != 0.f) {
        s *= __ldcg(p_.x_scale + token);
      }
      store_shared_4(base_ + T::kScaleAt + token * 4, __float_as_uint(s));
    }
    named_barrier(15, T::kConsumers * kWarpgroup);
  }

  /// Zeros for the tokens from `first` on.
  __device__ __forceinline__ void clear(int first) const {
    const int warps = gridDim.x * T::kConsumers * 4;
    const int me = (block_ * T::kConsumers + warpgroup_) * 4 + warp();
    for (int token = first + me; token < p_.tokens; token += warps) {
      for (int i = 0; i < p_.n_segments; ++i) {
        const Segment& s = p_.segments[i];
        float* to = s.out + token * s.out_stride;
        for (int row = lane(); row < s.od; row += 32) to[row] = 0.f;
      }
    }
  }

  const Params& p_;
  uint32_t base_;
  int block_, warpgroup_, thread_;
  StageRing<T> stages_;
  UnitRing<T> units_;
  int unit_ = 0;
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
