// Repacking file rows into tile32 on the device (the host's version is in layout.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "layout.h"

namespace minfer_cuda {

/// `rows` file rows of `id` elements in `raw` (device) become the tiles of row groups starting at
/// `out`; a last partial group is padded with zero rows. `raw` has the file's alignment relative to
/// a row.
cudaError_t launch_repack(const TypeLayout& layout, const uint8_t* raw, int64_t id, int64_t rows,
                          uint8_t* out, cudaStream_t stream);

}  // namespace minfer_cuda
