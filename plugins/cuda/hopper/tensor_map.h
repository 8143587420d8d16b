// Tensor maps: how the copy engine of sm_90 sees a matrix in memory. Encoded by the driver, which
// is asked for its function at run time. Thread-safe.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace minfer_cuda::hopper {

/// An f16 tensor of `rank` dims, innermost first; `strides` of dims 1 and up in bytes, multiples of
/// 16; boxes of 64 elements (128 bytes) along dim 0 are swizzled in shared memory, and what lies
/// outside of the tensor arrives as zeros. cudaErrorNotSupported where the driver has no encoder.
cudaError_t encode_half_map(CUtensorMap& map, const void* base, int rank, const uint64_t* dims,
                            const uint64_t* strides, const uint32_t* box);

}  // namespace minfer_cuda::hopper
