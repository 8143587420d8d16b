// tile32: the one layout in which the CUDA plugin holds matrices, for every type.
//
// 32 consecutive rows times one block along k (32 elements, or a K-quant's 256) form a tile. Inside
// a tile the file's blocks are cut into segments of 16, 4, 2 or 1 bytes and transposed: segment s
// of rows 0..31 lies together, so a warp whose lane is the row loads 512 aligned bytes at once.
// Tiles of 32 rows follow each other along k, row groups follow. A tile holds exactly the bytes of
// its blocks; only the last row group is padded (with zero rows). Decode, small batches, prefill
// and the gather read it.
//
// This file is the table of types; the kernels' readers are in tile.cuh. Pure, thread-safe.
#pragma once

#include <cstdint>

namespace minfer_cuda {

/// Rows of a tile.
inline constexpr int kTileRows = 32;

/// Bumped when a layout changes, so that dumps and tests of different builds are not mixed.
inline constexpr uint32_t kLayoutVersion = 1;

/// `width` bytes at `offset` of each block; 16-byte segments come first, so all loads are aligned.
struct TileSegment {
  uint16_t offset;
  uint16_t width;
};

struct TypeLayout {
  uint32_t type;         ///< MINFER_TYPE_*
  const char* name;      ///< as labels print it, e.g. "q4_k"
  uint16_t block_k;      ///< elements of a block along k
  uint16_t block_bytes;  ///< bytes of a block in the file and, times 32, of a tile
  uint16_t n_segments;
  TileSegment segments[13 + 1];
};

/// The layout of a type, or nullptr when the plugin cannot hold it as a matrix.
const TypeLayout* find_layout(uint32_t type);

/// True for F32, F16 and BF16, whose rows may have any length: the last block is padded with zeros.
bool is_plain(const TypeLayout& layout);

/// Blocks of a row of `id` elements, and the row's bytes in the file.
int64_t blocks_of_row(const TypeLayout& layout, int64_t id);
int64_t file_row_bytes(const TypeLayout& layout, int64_t id);

/// True when the layout holds rows of `id` elements.
bool fits_rows(const TypeLayout& layout, int64_t id);

/// Bytes of a matrix of `od` rows of `id` elements in tile32.
uint64_t tiled_bytes(const TypeLayout& layout, int64_t id, int64_t od);

/// Repacks the file's rows into tile32 on the host. The device does the same in repack.cu; this one
/// is the reference for it. `out` has tiled_bytes().
void repack_on_host(const TypeLayout& layout, const uint8_t* rows, int64_t id, int64_t od,
                    uint8_t* out);

}  // namespace minfer_cuda
