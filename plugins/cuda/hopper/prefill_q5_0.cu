// Variants of the prefill kernel for Q5_0 weights.
#include "prefill_kernel.cuh"

namespace minfer_cuda::hopper {

PrefillVariant find_prefill_q5_0(int tokens, int rows, bool gated) {
  return find_prefill<MINFER_TYPE_Q5_0>(tokens, rows, gated);
}

}  // namespace minfer_cuda::hopper
