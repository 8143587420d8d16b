// Arena placement: requests that are alive together never overlap, and memory is reused.
#include "engine/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace minfer {
namespace {

TEST(PlaceRequests, LivesThatMeetNeverOverlap) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<ArenaRequest> requests(1 + random() % 30);
    for (ArenaRequest& r : requests) {
      r.bytes = random() % 5000;
      r.first = random() % 12;
      r.last = r.first + random() % 6;
    }
    const uint64_t alignment = uint64_t{64} << random() % 3;
    const ArenaPlacement placed = place_requests(requests, alignment);
    for (size_t i = 0; i < requests.size(); ++i) {
      const ArenaRequest& a = requests[i];
      ASSERT_EQ(placed.offsets[i] % alignment, 0u);
      ASSERT_LE(placed.offsets[i] + a.bytes, placed.bytes);
      for (size_t j = 0; j < i; ++j) {
        const ArenaRequest& b = requests[j];
        if (a.last < b.first || b.last < a.first || a.bytes == 0 || b.bytes == 0) continue;
        ASSERT_TRUE(placed.offsets[i] + a.bytes <= placed.offsets[j] ||
                    placed.offsets[j] + b.bytes <= placed.offsets[i])
            << "seed " << seed << ": requests " << i << " and " << j << " overlap";
      }
    }
  }
}

TEST(PlaceRequests, LivesApartShareMemory) {
  const ArenaRequest requests[] = {{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}};
  EXPECT_EQ(place_requests(requests, 64).bytes, 1024u);
}

TEST(PlaceRequests, AGapIsUsed) {
  const ArenaRequest requests[] = {{4096, 0, 1}, {4096, 0, 3}, {2048, 2, 3}, {2048, 2, 3}};
  EXPECT_EQ(place_requests(requests, 64).bytes, 8192u);
}

TEST(TensorSpan, StridedViewsSpanToTheirLastElement) {
  GraphTensor t;
  t.type = MINFER_TYPE_F32;
  t.ne[0] = 8;
  t.ne[1] = 3;
  t.nb[1] = 100;
  EXPECT_EQ(tensor_span_bytes(t), 2 * 100 + 32u);
}

}  // namespace
}  // namespace minfer
