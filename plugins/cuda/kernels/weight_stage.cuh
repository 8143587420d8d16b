// Staging of weight tiles in shared memory for tensor-core kernels: 128 rows times a piece of k,
// copied as they are (tile32 bytes), so that a stage costs what the file's bits cost.
#pragma once

#include "matmul.h"
#include "mma.cuh"
#include "tile.cuh"

namespace minfer_cuda {

inline constexpr int kBlockRows = 128;  ///< weight rows of a thread block
inline constexpr int kBlockGroups = kBlockRows / kTileRows;

/// Sub-blocks of 32 along k in a stage: a K-quant's whole tile, four tiles of the other types.
template <class T>
inline constexpr int kStageSubs = T::kSubs == 8 ? 8 : 4;

/// Bytes of one row group in a stage.
template <class T>
inline constexpr int kStageGroupBytes = kStageSubs<T> / T::kSubs* T::kTileBytes;
template <class T>
inline constexpr int kStageBytes = kBlockGroups* kStageGroupBytes<T>;

/// Where a block's weights are: rows [first_group * 32, + 128) of a matrix of `groups` row groups.
struct WeightRows {
  const uint8_t* weight;
  int first_group;
  int groups;
  int tiles;  ///< along k
};

/// Starts copying sub-blocks [sub, sub + kStageSubs) that exist (sub < subs). Row groups past the
/// end repeat the last one; their results are not written.
template <class T>
__device__ __forceinline__ void stage_weights(uint8_t* to, const WeightRows& rows, int sub,
                                              int subs) {
  const int n = min(kStageSubs<T>, subs - sub);
  const int units = n / T::kSubs * T::kTileBytes / 16;
  for (int group = 0; group < kBlockGroups; ++group) {
    const int from_group = min(rows.first_group + group, rows.groups - 1);
    const uint8_t* from =
        rows.weight + (int64_t{from_group} * rows.tiles + sub / T::kSubs) * T::kTileBytes;
    uint8_t* at = to + group * kStageGroupBytes<T>;
    for (int i = threadIdx.x; i < units; i += blockDim.x) copy16_async(at + i * 16, from + i * 16);
  }
}

/// The tile of sub-block `sub` (of the stage) of a row group of the stage.
template <class T>
__device__ __forceinline__ const uint8_t* staged_tile(const uint8_t* stage, int group, int sub) {
  return stage + group * kStageGroupBytes<T> + sub / T::kSubs * T::kTileBytes;
}

}  // namespace minfer_cuda
