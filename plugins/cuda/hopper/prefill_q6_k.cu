// Variants of the prefill kernel for Q6_K weights.
#include "prefill_kernel.cuh"

namespace minfer_cuda::hopper {

PrefillVariant find_prefill_q6_k(int tokens, int rows, bool gated) {
  return find_prefill<MINFER_TYPE_Q6_K>(tokens, rows, gated);
}

}  // namespace minfer_cuda::hopper
