// KvCache: a model of physical pages checks that every sequence reads back what it stored, under
// any mixture of append, fork, truncate, free and rollback; capacity is exact.
#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace minfer {
namespace {

KvCacheShape shape(uint32_t context, uint32_t sequences, uint32_t step_tokens, uint32_t pages = 0) {
  return {.page_tokens = 4,
          .context = context,
          .max_sequences = sequences,
          .max_step_tokens = step_tokens,
          .full_pages = pages};
}

const std::vector<KvGroup> kFull = {{0}};

/// Physical memory of one cache: what was stored last in each place.
class Store {
 public:
  Store(std::span<const KvGroup> groups, const KvCacheShape& s) : groups_(groups), shape_(s) {}

  /// Does what a device does in the open step: copies pages, then stores the new positions.
  void run(const KvCache& kv, std::span<const KvCache::Append> appends,
           std::map<SequenceId, std::vector<int>>& content, std::mt19937& random) {
    for (const auto& copy : kv.copies())
      for (uint32_t i = 0; i < shape_.page_tokens; ++i)
        places_[{copy.group, copy.to, i}] = places_[{copy.group, copy.from, i}];
    for (const auto& append : appends) {
      auto& tokens = content[append.sequence];
      for (uint32_t i = 0; i < append.n_tokens; ++i) {
        const int value = static_cast<int>(random() % 1000000);
        const auto position = static_cast<uint32_t>(tokens.size());
        tokens.push_back(value);
        for (uint32_t g = 0; g < groups_.size(); ++g) {
          const int32_t page = kv.page(append.sequence, g, position / shape_.page_tokens);
          ASSERT_GE(page, 0);
          places_[{g, page, position % shape_.page_tokens}] = value;
        }
      }
    }
  }

  /// Every position that the next token of the sequence would see holds what was stored.
  void check(const KvCache& kv, SequenceId id, const std::vector<int>& content) const {
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      const auto n = static_cast<uint32_t>(content.size());
      const uint32_t window = groups_[g].window;
      const uint32_t from = window == 0 || n < window ? 0 : n - window + 1;
      for (uint32_t p = from; p < n; ++p) {
        const int32_t page = kv.page(id, g, p / shape_.page_tokens);
        ASSERT_GE(page, 0) << "sequence " << id << " position " << p << " of " << n;
        ASSERT_EQ(places_.at({g, page, p % shape_.page_tokens}), content[p])
            << "sequence " << id << " group " << g << " position " << p;
      }
    }
  }

 private:
  std::span<const KvGroup> groups_;
  KvCacheShape shape_;
  std::map<std::tuple<uint32_t, int32_t, uint32_t>, int> places_;
};

class RandomSchedule : public ::testing::TestWithParam<int> {};

TEST_P(RandomSchedule, SequencesReadBackWhatTheyStored) {
  std::mt19937 random(GetParam());
  const std::vector<KvGroup> groups = {{0}, {7}, {1}};
  const auto s = shape(40, 5, 9);
  KvCache kv(groups, s);
  Store store(groups, s);
  std::map<SequenceId, std::vector<int>> content;
  std::map<SequenceId, size_t> longest;
  const auto any = [&] {
    auto it = content.begin();
    std::advance(it, random() % content.size());
    return it->first;
  };
  for (int i = 0; i < 2000; ++i) {
    const uint32_t what = random() % 10;
    if (content.empty() || what == 0) {
      const auto id = kv.create();
      ASSERT_EQ(id.has_value(), content.size() < 5);
      if (id) {
        content[*id] = {};
        longest[*id] = 0;
      }
    } else if (what == 1) {
      const SequenceId from = any();
      const auto id = kv.fork(from);
      if (id) {
        content[*id] = content[from];
        longest[*id] = longest[from];
      }
    } else if (what == 2) {
      const SequenceId id = any();
      ASSERT_TRUE(kv.free(id));
      content.erase(id);
    } else if (what == 3) {
      const SequenceId id = any();
      const auto length = static_cast<uint32_t>(random() % (content[id].size() + 1));
      const bool near = longest[id] - length <= s.page_tokens;
      const auto cut = kv.truncate(id, length);
      EXPECT_TRUE(cut || !near) << "a cut of up to one page must work";
      if (cut) content[id].resize(length);
    } else {
      std::vector<KvCache::Append> appends;
      uint32_t left = s.max_step_tokens;
      for (const auto& [id, tokens] : content) {
        const uint32_t room = std::min<uint32_t>(left, s.context - tokens.size());
        if (room == 0 || random() % 2) continue;
        appends.push_back({id, static_cast<uint32_t>(1 + random() % room)});
        left -= appends.back().n_tokens;
      }
      if (appends.empty()) continue;
      const auto begun = kv.begin(appends);
      ASSERT_TRUE(begun) << begun.error().message();
      if (random() % 4 == 0) {
        kv.rollback();
      } else {
        store.run(kv, appends, content, random);
        kv.commit();
        for (const auto& append : appends)
          longest[append.sequence] =
              std::max(longest[append.sequence], content[append.sequence].size());
      }
    }
    for (const auto& [id, tokens] : content) {
      ASSERT_EQ(*kv.length(id), tokens.size());
      store.check(kv, id, tokens);
    }
  }
  while (!content.empty()) {
    ASSERT_TRUE(kv.free(content.begin()->first));
    content.erase(content.begin());
  }
  for (uint32_t g = 0; g < groups.size(); ++g)
    EXPECT_EQ(kv.free_pages(g), pages_for_group(groups[g], s)) << "pages leaked in group " << g;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedule, ::testing::Range(0, 12));

TEST(KvCache, FullContextOfEverySequenceFits) {
  const auto s = shape(17, 3, 8);
  KvCache kv(kFull, s);
  for (int i = 0; i < 3; ++i) {
    const SequenceId id = *kv.create();
    for (uint32_t n : {8u, 8u, 1u}) {
      const KvCache::Append append{id, n};
      ASSERT_TRUE(kv.begin({&append, 1}));
      kv.commit();
    }
  }
  EXPECT_EQ(kv.free_pages(0), 0u);
}

TEST(KvCache, ContextOverflowGivesBothNumbers) {
  KvCache kv(kFull, shape(10, 1, 8));
  const SequenceId id = *kv.create();
  const KvCache::Append append{id, 8};
  ASSERT_TRUE(kv.begin({&append, 1}));
  kv.commit();
  const KvCache::Append more{id, 3};
  const auto failed = kv.begin({&more, 1});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kContext);
  EXPECT_NE(failed.error().what.find("8 positions"), std::string::npos);
  EXPECT_NE(failed.error().what.find("context is 10"), std::string::npos);
  EXPECT_EQ(*kv.length(id), 8u);
}

TEST(KvCache, AnEmptyPoolChangesNothing) {
  KvCache kv(kFull, shape(64, 2, 64, 3));
  const SequenceId a = *kv.create();
  const SequenceId b = *kv.create();
  const KvCache::Append both[] = {{a, 8}, {b, 8}};
  const auto failed = kv.begin(both);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kContext);
  EXPECT_NE(failed.error().what.find("of 3"), std::string::npos);
  EXPECT_EQ(kv.free_pages(0), 3u);
  EXPECT_EQ(kv.page(a, 0, 0), -1);
}

TEST(KvCache, AForkSharesUntilOneSideWrites) {
  KvCache kv(kFull, shape(32, 2, 8));
  const SequenceId a = *kv.create();
  const KvCache::Append six{a, 6};
  ASSERT_TRUE(kv.begin({&six, 1}));
  kv.commit();
  const uint32_t free_before = kv.free_pages(0);
  const SequenceId b = *kv.fork(a);
  EXPECT_EQ(kv.free_pages(0), free_before);
  const KvCache::Append one{b, 1};
  ASSERT_TRUE(kv.begin({&one, 1}));
  ASSERT_EQ(kv.copies().size(), 1u);
  EXPECT_EQ(static_cast<int32_t>(kv.copies()[0].from), kv.page(a, 0, 1));
  EXPECT_EQ(static_cast<int32_t>(kv.copies()[0].to), kv.page(b, 0, 1));
  EXPECT_EQ(kv.page(a, 0, 0), kv.page(b, 0, 0));
  kv.commit();
  // a is now the only holder of its page and needs no copy.
  const KvCache::Append next{a, 1};
  ASSERT_TRUE(kv.begin({&next, 1}));
  EXPECT_TRUE(kv.copies().empty());
}

TEST(KvCache, TwoWritersOfASharedPageCopyOnce) {
  KvCache kv(kFull, shape(32, 2, 8));
  const SequenceId a = *kv.create();
  const KvCache::Append six{a, 6};
  ASSERT_TRUE(kv.begin({&six, 1}));
  kv.commit();
  const SequenceId b = *kv.fork(a);
  const KvCache::Append both[] = {{a, 1}, {b, 1}};
  ASSERT_TRUE(kv.begin(both));
  EXPECT_EQ(kv.copies().size(), 1u);
  EXPECT_NE(kv.page(a, 0, 1), kv.page(b, 0, 1));
}

TEST(KvCache, PagesOutsideTheWindowReturn) {
  const std::vector<KvGroup> windowed = {{8}};
  const auto s = shape(4096, 1, 4);
  KvCache kv(windowed, s);
  const SequenceId id = *kv.create();
  const uint32_t pages = pages_for_group(windowed[0], s);
  EXPECT_LE(pages, 5u);  // 8 seen + 4 slack - 1 + 4 new = 15 positions touch at most 5 pages of 4
  for (int i = 0; i < 1000; ++i) {
    const KvCache::Append append{id, 4};
    ASSERT_TRUE(kv.begin({&append, 1})) << "after " << i * 4;
    kv.commit();
  }
  EXPECT_EQ(kv.page(id, 0, 0), -1);
}

TEST(KvCache, CuttingBeyondTheWindowIsRefused) {
  const std::vector<KvGroup> windowed = {{8}};
  KvCache kv(windowed, shape(64, 1, 4));
  const SequenceId id = *kv.create();
  for (int i = 0; i < 10; ++i) {
    const KvCache::Append append{id, 4};
    ASSERT_TRUE(kv.begin({&append, 1}));
    kv.commit();
  }
  const auto cut = kv.truncate(id, 20);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kContext);
  EXPECT_EQ(*kv.length(id), 40u);
  EXPECT_TRUE(kv.truncate(id, 36));
  EXPECT_TRUE(kv.truncate(id, 0));
}

TEST(KvCache, UnknownSequencesAreRefused) {
  KvCache kv(kFull, shape(16, 2, 8));
  const SequenceId id = *kv.create();
  ASSERT_TRUE(kv.free(id));
  EXPECT_EQ(kv.free(id).error().code, ErrorCode::kUsage);
  EXPECT_EQ(kv.length(7).error().code, ErrorCode::kUsage);
  EXPECT_EQ(kv.fork(id).error().code, ErrorCode::kUsage);
  const KvCache::Append append{id, 1};
  EXPECT_EQ(kv.begin({&append, 1}).error().code, ErrorCode::kUsage);
}

TEST(KvCache, ASequenceMayNotAppearTwice) {
  KvCache kv(kFull, shape(16, 2, 8));
  const SequenceId id = *kv.create();
  const KvCache::Append twice[] = {{id, 1}, {id, 1}};
  EXPECT_EQ(kv.begin(twice).error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace minfer
