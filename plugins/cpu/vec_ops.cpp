// Which table of vector operations serves an instruction level. Thread-safe.
#include "vec_ops.h"

namespace minfer_cpu {

const VecOps* vec_ops([[maybe_unused]] Isa isa) {
#ifdef MINFER_CPU_HAVE_VEC_AVX512
  if (isa >= Isa::kAvx512) return vec_ops_avx512();
#endif
#ifdef MINFER_CPU_HAVE_VEC_AVX2
  if (isa >= Isa::kAvx2) return vec_ops_avx2();
#endif
  return vec_ops_scalar();
}

}  // namespace minfer_cpu
