// tile32 on the host: a permutation of the file's bytes with every segment aligned.
#include "../kernels/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "minfer/quant_blocks.h"

namespace minfer_cuda {
namespace {

constexpr uint32_t kTypes[] = {
    MINFER_TYPE_F32,  MINFER_TYPE_F16,    MINFER_TYPE_BF16,   MINFER_TYPE_Q4_0,
    MINFER_TYPE_Q4_1, MINFER_TYPE_Q5_0,   MINFER_TYPE_Q5_1,   MINFER_TYPE_Q8_0,
    MINFER_TYPE_Q2_K, MINFER_TYPE_Q3_K,   MINFER_TYPE_Q4_K,   MINFER_TYPE_Q5_K,
    MINFER_TYPE_Q6_K, MINFER_TYPE_IQ4_NL, MINFER_TYPE_IQ4_XS, MINFER_TYPE_MXFP4};

TEST(LayoutTest, BlocksAgreeWithTheFileFormat) {
  for (uint32_t type : kTypes) {
    const TypeLayout* layout = find_layout(type);
    ASSERT_NE(layout, nullptr) << type;
    const uint32_t values = minfer_type_values(type), bytes = minfer_type_bytes(type);
    EXPECT_EQ(layout->block_bytes * values, bytes * layout->block_k) << layout->name;
    int at = 0;
    for (int s = 0; s < layout->n_segments; ++s) {
      EXPECT_EQ(at * kTileRows % layout->segments[s].width, 0) << layout->name << " segment " << s;
      at += layout->segments[s].width;
    }
    EXPECT_EQ(kTileRows * layout->block_bytes % 16, 0) << layout->name;
  }
  EXPECT_EQ(find_layout(MINFER_TYPE_I32), nullptr);
}

TEST(LayoutTest, RepackingMovesEachSegmentToItsRow) {
  std::mt19937 random(7);
  for (uint32_t type : kTypes) {
    const TypeLayout& layout = *find_layout(type);
    const int64_t id = 2 * layout.block_k, od = 45, blocks = 2;
    std::vector<uint8_t> rows(static_cast<size_t>(od * blocks * layout.block_bytes));
    for (uint8_t& b : rows) b = static_cast<uint8_t>(random());
    std::vector<uint8_t> tiled(tiled_bytes(layout, id, od), 0xee);
    EXPECT_EQ(tiled.size(), static_cast<size_t>(64 * blocks * layout.block_bytes));
    repack_on_host(layout, rows.data(), id, od, tiled.data());
    for (int64_t row = 0; row < 64; ++row) {
      for (int64_t b = 0; b < blocks; ++b) {
        const uint8_t* tile =
            &tiled[static_cast<size_t>((row / 32 * blocks + b) * 32 * layout.block_bytes)];
        for (int s = 0; s < layout.n_segments; ++s) {
          const TileSegment segment = layout.segments[s];
          const uint8_t* got = tile + row % 32 * segment.width;
          const uint8_t* file = rows.data() + (row * blocks + b) * layout.block_bytes;
          for (int i = 0; i < segment.width; ++i) {
            const uint8_t want = row < od ? file[segment.offset + i] : uint8_t{0};
            ASSERT_EQ(got[i], want) << layout.name << " row " << row << " segment " << s;
          }
          tile += 32 * segment.width;
        }
      }
    }
  }
}

}  // namespace
}  // namespace minfer_cuda
