// The matmul kernels for AVX-512 without VNNI: plain float rows. (Quantised weights take the AVX2
// kernels there; the panels are the same.) Thread-safe: pure functions; everything but the table is
// static.
#include "kernels/float_rows.h"
#include "kernels/vec16.h"
#include "matmul_list.h"

namespace minfer_cpu {
namespace {

constexpr MatmulKernel kKernels[] = {
    float_kernel<Vec16, MINFER_TYPE_F32>("f32/avx512"),
    float_kernel<Vec16, MINFER_TYPE_F16>("f16/avx512"),
    float_kernel<Vec16, MINFER_TYPE_BF16>("bf16/avx512"),
};

}  // namespace

KernelList matmul_kernels_avx512() {
  return {kKernels, static_cast<uint32_t>(sizeof kKernels / sizeof kKernels[0])};
}

}  // namespace minfer_cpu
