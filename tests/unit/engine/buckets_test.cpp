// Buckets: every step within the limits has one, the cheapest that holds it.
#include "engine/buckets.h"

#include <gtest/gtest.h>

namespace minfer {
namespace {

TEST(Buckets, HoldEveryStepWithinTheLimits) {
  for (const BucketLimits limits : {BucketLimits{1, 1, 1, 4}, BucketLimits{100, 7, 7, 4},
                                    BucketLimits{64, 4, 64, 4}, BucketLimits{33, 8, 3, 4}}) {
    const auto buckets = make_buckets(limits);
    for (uint32_t tokens = 1; tokens <= limits.tokens; ++tokens) {
      for (uint32_t seqs = 1; seqs <= std::min(tokens, limits.seqs); ++seqs) {
        for (uint32_t outs = 0; outs <= std::min(tokens, limits.outs); ++outs) {
          const size_t i = pick_bucket(buckets, tokens, seqs, outs);
          ASSERT_LT(i, buckets.size()) << tokens << ' ' << seqs << ' ' << outs;
          EXPECT_TRUE(tokens <= 1 || buckets[i].tokens < 2 * tokens);
        }
      }
    }
  }
}

TEST(Buckets, OneSequenceHasOnePerPowerOfTwo) {
  EXPECT_EQ(make_buckets({512, 1, 1, 4}).size(), 10u);
}

TEST(Buckets, StayFewWithManySequences) {
  EXPECT_LE(make_buckets({2048, 64, 2048, 4}).size(), 4 * 12u);
}

TEST(Buckets, NothingHoldsMoreThanTheLimits) {
  const auto buckets = make_buckets({16, 2, 2, 4});
  EXPECT_EQ(pick_bucket(buckets, 17, 1, 1), buckets.size());
  EXPECT_EQ(pick_bucket(buckets, 4, 3, 1), buckets.size());
  EXPECT_EQ(pick_bucket(buckets, 4, 1, 3), buckets.size());
}

}  // namespace
}  // namespace minfer
