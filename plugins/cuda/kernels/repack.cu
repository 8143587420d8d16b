// File rows to tile32 (see repack.h). One thread moves one row's segment of a tile.
#include "repack.h"

namespace minfer_cuda {
namespace {

/// Copies `width` bytes, of which the first `real` exist, from an address of unknown alignment to
/// an aligned one; the rest becomes zero.
template <int Width>
__device__ __forceinline__ void move(const uint8_t* from, uint8_t* to, int64_t real) {
  union {
    uint8_t bytes[16];
    uint4 whole;
  } v;
  v.whole = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < Width; ++i) {
    if (i < real) v.bytes[i] = from[i];
  }
  if constexpr (Width == 16) *reinterpret_cast<uint4*>(to) = v.whole;
  if constexpr (Width == 4) *reinterpret_cast<uint32_t*>(to) = v.whole.x;
  if constexpr (Width == 2) *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(v.whole.x);
  if constexpr (Width == 1) *to = v.bytes[0];
}

__global__ void repack_kernel(TypeLayout layout, const uint8_t* raw, int64_t blocks, int64_t rows,
                              int64_t row_bytes, uint8_t* out) {
  const int lane = threadIdx.x;
  const int64_t tile = blockIdx.x, group = tile / blocks, block = tile % blocks;
  const int64_t row = group * kTileRows + lane;
  const uint8_t* from = raw + row * row_bytes + block * layout.block_bytes;
  uint8_t* to = out + tile * kTileRows * layout.block_bytes;
  const int64_t left = row < rows ? row_bytes - block * layout.block_bytes : 0;
  int first = 0;
  for (int s = 0; s < layout.n_segments; ++s) {
    const TileSegment segment = layout.segments[s];
    uint8_t* at = to + first * kTileRows + lane * segment.width;
    first += segment.width;
    if (s % blockDim.y != threadIdx.y) continue;
    const int64_t real = left - segment.offset;
    switch (segment.width) {
      case 16:
        move<16>(from + segment.offset, at, real);
        break;
      case 4:
        move<4>(from + segment.offset, at, real);
        break;
      case 2:
        move<2>(from + segment.offset, at, real);
        break;
      default:
        move<1>(from + segment.offset, at, real);
    }
  }
}

}  // namespace

cudaError_t launch_repack(const TypeLayout& layout, const uint8_t* raw, int64_t id, int64_t rows,
                          uint8_t* out, cudaStream_t stream) {
  const int64_t blocks = blocks_of_row(layout, id);
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows * blocks;
  if (tiles == 0) return cudaSuccess;
  const dim3 threads(kTileRows, layout.n_segments < 8 ? layout.n_segments : 8);
  repack_kernel<<<static_cast<unsigned>(tiles), threads, 0, stream>>>(
      layout, raw, blocks, rows, file_row_bytes(layout, id), out);
  return cudaPeekAtLastError();
}

}  // namespace minfer_cuda
