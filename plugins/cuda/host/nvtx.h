// Ranges that NVIDIA's profilers show: `nsys profile -t cuda,nvtx` puts the names of nodes above
// their kernels. Without a profiler a range costs one comparison. Header only; any thread.
#pragma once

#if defined(__has_include)
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define MINFER_CUDA_NVTX 1
#endif
#endif

namespace minfer_cuda {

/// From here to the end of the scope. `name` is copied.
class NvtxRange {
 public:
#ifdef MINFER_CUDA_NVTX
  explicit NvtxRange(const char* name) {
    nvtxRangePushA(name);
  }
  ~NvtxRange() {
    nvtxRangePop();
  }
#else
  explicit NvtxRange(const char*) {}
#endif
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace minfer_cuda
