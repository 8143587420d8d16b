// Programmatic dependent launch: a kernel starts while the one before it ends, and waits on the
// device for its results. Saves the gap between launches, also inside a captured graph; sm_90 and
// later.
//
// A kernel launched by launch_overlapped calls start_overlapped() in every thread before it touches
// what an earlier kernel writes or reads. Then its end implies the end of all before it, whichever
// way those were launched. Between the two halves it may read what no kernel of the step writes:
// weights, the step's inputs, the KV cache of earlier steps.
#pragma once

#include <cuda_runtime.h>

namespace minfer_cuda {

/// Lets the next kernel start.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Returns when the kernels before this one are complete.
__device__ __forceinline__ void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Both, for kernels with nothing to do in between.
__device__ __forceinline__ void start_overlapped() {
  let_next_start();
  wait_for_earlier();
}

/// Launches kernel(args...); `overlap` needs compute capability 9.0.
template <class... Params, class... Args>
cudaError_t launch_overlapped(bool overlap, void (*kernel)(Params...), dim3 grid, int threads,
                              size_t shared_bytes, cudaStream_t stream, Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

}  // namespace minfer_cuda
