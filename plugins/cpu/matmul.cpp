// The table of matmul kernels and how one is chosen: among the kernels of the levels allowed, from
// the highest down, the first that fits the weight. Thread-safe.
#include "matmul.h"

#include "matmul_list.h"

namespace minfer_cpu {
namespace {

KernelList kernels_of(Isa level) {
  switch (level) {
#ifdef MINFER_CPU_HAVE_AVX512VNNI
    case Isa::kAvx512Vnni:
      return matmul_kernels_avx512vnni();
#endif
#ifdef MINFER_CPU_HAVE_AVX512
    case Isa::kAvx512:
      return matmul_kernels_avx512();
#endif
#ifdef MINFER_CPU_HAVE_AVX2
    case Isa::kAvx2:
      return matmul_kernels_avx2();
#endif
    case Isa::kScalar:
      return matmul_kernels_scalar();
    default:
      return {};
  }
}

}  // namespace

const MatmulKernel* find_matmul(uint32_t type, int64_t id, int64_t od, Isa isa) {
  for (int level = static_cast<int>(isa); level >= 0; --level) {
    const KernelList list = kernels_of(static_cast<Isa>(level));
    for (uint32_t i = 0; i < list.count; ++i) {
      const MatmulKernel& kernel = list.kernels[i];
      if (kernel.type == type && kernel.fits(id, od)) return &kernel;
    }
  }
  return nullptr;
}

}  // namespace minfer_cpu
