// The vector operations on AVX2: the generic kernels over Vec8. Thread-safe.
#include "kernels/vec8.h"
#include "kernels/vec_kv.h"
#include "kernels/vec_rows.h"
#include "kernels/vec_table.h"

namespace minfer_cpu {

const VecOps* vec_ops_avx2() {
  static const VecOps table = vec_table<Vec8>("avx2");
  return &table;
}

}  // namespace minfer_cpu
