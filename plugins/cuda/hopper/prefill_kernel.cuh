// The persistent prefill kernel (see prefill.h), and its variants of one weight type.
//
// The first warpgroup has the producers, one thread in each of two warps (activations by tensor
// copies, weights by bulk copies); the others consume.
#pragma once

#include "prefill_consumer.cuh"
#include "prefill_producer.cuh"

namespace minfer_cuda::hopper {

template <class T, bool Gated>
__global__ void __launch_bounds__(T::kThreads, 1)
    prefill_kernel(const __grid_constant__ CUtensorMap x_map,
                   const __grid_constant__ CUtensorMap x_tail_map,
                   const __grid_constant__ Params p) {
#ifdef MINFER_SM90A
  extern __shared__ uint8_t shared[];
  const uint32_t base = (shared_address(shared) + 1023u) & ~1023u;
  const int warp = threadIdx.x >> 5;
  // Blocks start in order: whoever waits for parts must have a higher index than their makers.
  const int block = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&x_map) : "memory");
    for (int i = 0; i < 2 * T::kStages; ++i) {
      barrier_init(base + T::kBarrierAt + 8 * i, i < T::kStages ? 1 : T::kRowGroups * 4);
    }
    for (int i = 0; i < 2 * T::kUnits; ++i) {
      barrier_init(unit_barriers<T>(base) + 8 * i, i < T::kUnits ? 1 : T::kRowGroups * 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (p.overlap) allow_dependents();

  if (warp < 4) {
    lower_registers<T::kProducerRegisters>();
    if (threadIdx.x == 0) {
      if (p.overlap) wait_for_predecessors();
      ActivationProducer<T>(p, base, block).run(&x_map, &x_tail_map);
    } else if (threadIdx.x == 32) {
      // The valid count may be of the kernel before; weights are not.
      if (p.overlap && !T::kNarrow) wait_for_predecessors();
      WeightProducer<T, Gated>(p, base, block).run();
    }
  } else {
    raise_registers<T::kConsumerRegisters>();
    if (p.overlap) wait_for_predecessors();
    Consumer<T, Gated>(p, base, block, static_cast<int>(threadIdx.x) - kWarpgroup).run();
  }
#endif
}

using PrefillKernel = void (*)(CUtensorMap, CUtensorMap, Params);
struct PrefillVariant {
  PrefillKernel kernel;
  int threads;
  uint32_t shared;
  int stage_steps;  ///< of 64 elements along k in a copy of activations
};

/// Of a type, for a tile shape of kTileShapes.
PrefillVariant find_prefill_q4_k(int tokens, int rows, bool gated);
PrefillVariant find_prefill_q5_k(int tokens, int rows, bool gated);
PrefillVariant find_prefill_q6_k(int tokens, int rows, bool gated);
PrefillVariant find_prefill_q8_0(int tokens, int rows, bool gated);
PrefillVariant find_prefill_q4_0(int tokens, int rows, bool gated);
PrefillVariant find_prefill_q5_0(int tokens, int rows, bool gated);

template <class T>
PrefillVariant prefill_variant(bool gated) {
  return {gated ? prefill_kernel<T, true> : prefill_kernel<T, false>, T::kThreads, T::kTotal,
          T::kStageSteps};
}

template <uint32_t Type>
PrefillVariant find_prefill(int tokens, int rows, bool gated) {
  if (tokens == 256) return prefill_variant<Tile<Type, 256, 128, 1>>(gated);
  if (tokens == 128) return prefill_variant<Tile<Type, 128, 128, 1>>(gated);
  if (rows == 256) {
    if (tokens == 64) return prefill_variant<Tile<Type, 64, 256, 1>>(gated);
    if (tokens == 32) return prefill_variant<Tile<Type, 32, 256, 1>>(gated);
    return prefill_variant<Tile<Type, 16, 256, 1>>(gated);
  }
  if (tokens == 64) return prefill_variant<Tile<Type, 64, 128, 2>>(gated);
  if (tokens == 32) return prefill_variant<Tile<Type, 32, 128, 2>>(gated);
  return prefill_variant<Tile<Type, 16, 128, 2>>(gated);
}

}  // namespace minfer_cuda::hopper
