// The vector operations on AVX-512: the generic kernels over Vec16. Thread-safe.
#include "kernels/vec16.h"
#include "kernels/vec_kv.h"
#include "kernels/vec_rows.h"
#include "kernels/vec_table.h"

namespace minfer_cpu {

const VecOps* vec_ops_avx512() {
  static const VecOps table = vec_table<Vec16>("avx512");
  return &table;
}

}  // namespace minfer_cpu
