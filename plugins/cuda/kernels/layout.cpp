// The table of types of tile32 and the host's repacking (see layout.h).
#include "layout.h"

#include <algorithm>
#include <cstring>

#include "minfer/plugin_abi.h"

namespace minfer_cuda {
namespace {

constexpr TypeLayout kLayouts[] = {
    {MINFER_TYPE_F32,
     "f32",
     32,
     128,
     8,
     {{0, 16}, {16, 16}, {32, 16}, {48, 16}, {64, 16}, {80, 16}, {96, 16}, {112, 16}}},
    {MINFER_TYPE_F16, "f16", 32, 64, 4, {{0, 16}, {16, 16}, {32, 16}, {48, 16}}},
    {MINFER_TYPE_BF16, "bf16", 32, 64, 4, {{0, 16}, {16, 16}, {32, 16}, {48, 16}}},
    {MINFER_TYPE_Q4_0, "q4_0", 32, 18, 2, {{2, 16}, {0, 2}}},
    {MINFER_TYPE_Q4_1, "q4_1", 32, 20, 2, {{4, 16}, {0, 4}}},
    {MINFER_TYPE_Q5_0, "q5_0", 32, 22, 3, {{6, 16}, {2, 4}, {0, 2}}},
    {MINFER_TYPE_Q5_1, "q5_1", 32, 24, 3, {{8, 16}, {0, 4}, {4, 4}}},
    {MINFER_TYPE_Q8_0, "q8_0", 32, 34, 3, {{2, 16}, {18, 16}, {0, 2}}},
    {MINFER_TYPE_Q2_K,
     "q2_k",
     256,
     84,
     6,
     {{0, 16}, {16, 16}, {32, 16}, {48, 16}, {64, 16}, {80, 4}}},
    {MINFER_TYPE_Q3_K,
     "q3_k",
     256,
     110,
     10,
     {{0, 16},
      {16, 16},
      {32, 16},
      {48, 16},
      {64, 16},
      {80, 16},
      {96, 4},
      {100, 4},
      {104, 4},
      {108, 2}}},
    {MINFER_TYPE_Q4_K,
     "q4_k",
     256,
     144,
     9,
     {{0, 16}, {16, 16}, {32, 16}, {48, 16}, {64, 16}, {80, 16}, {96, 16}, {112, 16}, {128, 16}}},
    {MINFER_TYPE_Q5_K,
     "q5_k",
     256,
     176,
     11,
     {{0, 16},
      {16, 16},
      {32, 16},
      {48, 16},
      {64, 16},
      {80, 16},
      {96, 16},
      {112, 16},
      {128, 16},
      {144, 16},
      {160, 16}}},
    {MINFER_TYPE_Q6_K,
     "q6_k",
     256,
     210,
     14,
     {{0, 16},
      {16, 16},
      {32, 16},
      {48, 16},
      {64, 16},
      {80, 16},
      {96, 16},
      {112, 16},
      {128, 16},
      {144, 16},
      {160, 16},
      {176, 16},
      {192, 16},
      {208, 2}}},
    {MINFER_TYPE_IQ4_NL, "iq4_nl", 32, 18, 2, {{2, 16}, {0, 2}}},
    {MINFER_TYPE_IQ4_XS,
     "iq4_xs",
     256,
     136,
     10,
     {{8, 16},
      {24, 16},
      {40, 16},
      {56, 16},
      {72, 16},
      {88, 16},
      {104, 16},
      {120, 16},
      {0, 4},
      {4, 4}}},
    {MINFER_TYPE_MXFP4, "mxfp4", 32, 17, 2, {{1, 16}, {0, 1}}},
};

constexpr bool covers_each_block() {
  for (const TypeLayout& layout : kLayouts) {
    int bytes = 0;
    for (int s = 0; s < layout.n_segments; ++s) bytes += layout.segments[s].width;
    if (bytes != layout.block_bytes) return false;
  }
  return true;
}
static_assert(covers_each_block(), "a tile holds exactly the bytes of its blocks");

}  // namespace

const TypeLayout* find_layout(uint32_t type) {
  for (const TypeLayout& layout : kLayouts) {
    if (layout.type == type) return &layout;
  }
  return nullptr;
}

bool is_plain(const TypeLayout& layout) {
  return layout.type == MINFER_TYPE_F32 || layout.type == MINFER_TYPE_F16 ||
         layout.type == MINFER_TYPE_BF16;
}

int64_t blocks_of_row(const TypeLayout& layout, int64_t id) {
  return (id + layout.block_k - 1) / layout.block_k;
}

int64_t file_row_bytes(const TypeLayout& layout, int64_t id) {
  return id * layout.block_bytes / layout.block_k;
}

bool fits_rows(const TypeLayout& layout, int64_t id) {
  return id > 0 && (is_plain(layout) || id % layout.block_k == 0);
}

uint64_t tiled_bytes(const TypeLayout& layout, int64_t id, int64_t od) {
  const auto groups = static_cast<uint64_t>((od + kTileRows - 1) / kTileRows);
  return groups * static_cast<uint64_t>(blocks_of_row(layout, id)) * kTileRows * layout.block_bytes;
}

void repack_on_host(const TypeLayout& layout, const uint8_t* rows, int64_t id, int64_t od,
                    uint8_t* out) {
  const int64_t blocks = blocks_of_row(layout, id), row_bytes = file_row_bytes(layout, id);
  const int64_t tile_bytes = int64_t{kTileRows} * layout.block_bytes;
  std::memset(out, 0, tiled_bytes(layout, id, od));
  for (int64_t row = 0; row < od; ++row) {
    for (int64_t b = 0; b < blocks; ++b) {
      uint8_t* tile = out + (row / kTileRows * blocks + b) * tile_bytes;
      const int64_t first = b * layout.block_bytes;
      for (int s = 0; s < layout.n_segments; ++s) {
        const TileSegment segment = layout.segments[s];
        const int64_t at = first + segment.offset;
        const int64_t n = std::min<int64_t>(segment.width, row_bytes - at);
        if (n > 0) {
          std::memcpy(tile + row % kTileRows * segment.width, rows + row * row_bytes + at,
                      static_cast<size_t>(n));
        }
        tile += kTileRows * segment.width;
      }
    }
  }
}

}  // namespace minfer_cuda
