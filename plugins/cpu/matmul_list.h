// The lists of matmul kernels that each instruction level offers, best first. A level's list exists
// when the build has its file (MINFER_CPU_HAVE_*), and is used only where the processor runs it.
#pragma once

#include <cstdint>

#include "matmul.h"

namespace minfer_cpu {

struct KernelList {
  const MatmulKernel* kernels = nullptr;
  uint32_t count = 0;
};

KernelList matmul_kernels_scalar();
KernelList matmul_kernels_avx2();
KernelList matmul_kernels_avx512();
KernelList matmul_kernels_avx512vnni();

}  // namespace minfer_cpu
