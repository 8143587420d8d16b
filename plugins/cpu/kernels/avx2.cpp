// The matmul kernels for AVX2 with FMA and F16C: quantised weights in panels, and plain float rows.
// Thread-safe: pure functions; everything but the table is static.
#include "kernels/avx2_quantised.h"
#include "kernels/float_rows.h"
#include "kernels/vec8.h"
#include "matmul_list.h"

namespace minfer_cpu {
namespace {

constexpr MatmulKernel kKernels[] = {
    panel_kernel<MINFER_TYPE_Q8_0>("q8_0_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q4_K>("q4_k_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q6_K>("q6_k_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q4_1>("q4_1_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q4_0>("q4_0_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q5_K>("q5_k_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q5_0>("q5_0_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q5_1>("q5_1_r16/avx2"),
    panel_kernel<MINFER_TYPE_IQ4_NL>("iq4_nl_r16/avx2"),
    panel_kernel<MINFER_TYPE_IQ4_XS>("iq4_xs_r16/avx2"),
    panel_kernel<MINFER_TYPE_MXFP4>("mxfp4_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q2_K>("q2_k_r16/avx2"),
    panel_kernel<MINFER_TYPE_Q3_K>("q3_k_r16/avx2"),
    float_kernel<Vec8, MINFER_TYPE_F32>("f32/avx2"),
    float_kernel<Vec8, MINFER_TYPE_F16>("f16/avx2"),
    float_kernel<Vec8, MINFER_TYPE_BF16>("bf16/avx2"),
};

}  // namespace

KernelList matmul_kernels_avx2() {
  return {kKernels, static_cast<uint32_t>(sizeof kKernels / sizeof kKernels[0])};
}

}  // namespace minfer_cpu
