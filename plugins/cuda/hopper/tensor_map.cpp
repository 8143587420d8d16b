// Tensor maps (see tensor_map.h).
#include "tensor_map.h"

#include <algorithm>

namespace minfer_cuda::hopper {
namespace {

constexpr int kMaxRank = 5;

using EncodeFn = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                              const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                              const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// The driver's encoder, or null where the driver has none.
EncodeFn encoder() {
  static const EncodeFn fn = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &result) != cudaSuccess ||
        result != cudaDriverEntryPointSuccess) {
      return EncodeFn{nullptr};
    }
    return reinterpret_cast<EncodeFn>(entry);
  }();
  return fn;
}

}  // namespace

cudaError_t encode_half_map(CUtensorMap& map, const void* base, int rank, const uint64_t* dims,
                            const uint64_t* strides, const uint32_t* box) {
  if (!encoder()) return cudaErrorNotSupported;
  if (rank < 1 || rank > kMaxRank) return cudaErrorInvalidValue;
  cuuint64_t extents[kMaxRank], pitches[kMaxRank];
  std::copy_n(dims, rank, extents);
  std::copy_n(strides, rank - 1, pitches);
  const cuuint32_t steps[kMaxRank] = {1, 1, 1, 1, 1};
  const CUresult result = encoder()(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, static_cast<cuuint32_t>(rank), const_cast<void*>(base),
      extents, pitches, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace minfer_cuda::hopper
