// Cuts against a plain sort of the whole vocabulary, on random logits with ties and impossible
// values.
#include "sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace minfer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Logits with many ties; every tenth is NaN or -inf where `holes`.
std::vector<float> random_logits(size_t n, uint32_t seed, bool holes) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(n);
  for (float& logit : logits) {
    logit = std::round(normal(rng) * 8) / 8;
    if (holes && rng() % 10 == 0) logit = rng() % 2 ? kNan : -kInf;
  }
  return logits;
}

/// Ids of all possible tokens, likeliest first.
std::vector<TokenId> sorted_ids(const std::vector<float>& logits) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > -kInf) ids.push_back(static_cast<TokenId>(i));
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return logits[size_t(a)] > logits[size_t(b)]; });
  return ids;
}

std::vector<double> softmax(const std::vector<float>& logits, const std::vector<TokenId>& ids) {
  std::vector<double> p;
  double largest = -INFINITY, sum = 0;
  for (const TokenId id : ids) largest = std::max<double>(largest, logits[size_t(id)]);
  for (const TokenId id : ids) p.push_back(std::exp(logits[size_t(id)] - largest));
  for (const double x : p) sum += x;
  for (double& x : p) x /= sum;
  return p;
}

std::vector<TokenId> ids_of(const Candidates& candidates) {
  std::vector<TokenId> ids;
  for (const Candidate& c : candidates.items()) ids.push_back(c.id);
  return ids;
}

std::vector<TokenId> as_set(std::vector<TokenId> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Candidates, TopKIsThePrefixOfAFullSort) {
  for (const size_t n : {1u, 7u, 31u, 32u, 33u, 1000u, 50021u})
    for (const uint32_t k : {1u, 2u, 40u, 999u})
      for (const bool holes : {false, true}) {
        const auto logits = random_logits(n, static_cast<uint32_t>(n) + k, holes);
        auto expected = sorted_ids(logits);
        if (expected.size() > k) expected.resize(k);
        Candidates candidates(static_cast<uint32_t>(n));
        candidates.take_top_k(logits, k);
        EXPECT_EQ(ids_of(candidates), expected) << n << " " << k << " " << holes;
      }
}

TEST(Candidates, ArgMaxIsTheFirstOfAFullSort) {
  for (const size_t n : {1u, 31u, 33u, 5000u})
    for (uint32_t seed = 0; seed < 20; ++seed) {
      const auto logits = random_logits(n, seed, n > 1);
      const auto expected = sorted_ids(logits);
      EXPECT_EQ(arg_max(logits), expected.empty() ? -1 : expected[0]);
    }
  EXPECT_EQ(arg_max(std::vector<float>{}), -1);
  EXPECT_EQ(arg_max(std::vector<float>{kNan, -kInf}), -1);
  EXPECT_EQ(arg_max(std::vector<float>{kNan, 1, kInf, 2}), 2);
}

TEST(Candidates, TopPKeepsTheShortestPrefixOfTheMass) {
  for (const float mass : {0.0f, 0.1f, 0.5f, 0.9f, 0.999f})
    for (const size_t n : {5u, 3000u, 40000u}) {
      const auto logits = random_logits(n, static_cast<uint32_t>(n), true);
      const auto ids = sorted_ids(logits);
      const auto p = softmax(logits, ids);
      size_t kept = 0;
      for (double sum = 0; kept < p.size();) {
        sum += p[kept++];
        if (sum >= mass) break;
      }
      Candidates candidates(static_cast<uint32_t>(n));
      candidates.take_all(logits);
      candidates.cut_top_p(mass);
      // Float weights may move the border by one token.
      const auto got = as_set(ids_of(candidates));
      ASSERT_NEAR(double(got.size()), double(kept), 1) << mass << " of " << n;
      EXPECT_EQ(got, as_set({ids.begin(), ids.begin() + ptrdiff_t(got.size())}));
    }
}

// Sorted and constant logits are what a careless selection is slow or wrong on.
TEST(Candidates, TopPOnOrderedAndEqualLogits) {
  constexpr size_t n = 100000;
  std::vector<float> ascending(n), descending(n), equal(n, 1.0f);
  for (size_t i = 0; i < n; ++i) {
    ascending[i] = static_cast<float>(i) * 1e-5f;
    descending[n - 1 - i] = ascending[i];
  }
  for (const auto& logits : {ascending, descending, equal}) {
    const auto ids = sorted_ids(logits);
    Candidates candidates(n);
    candidates.take_all(logits);
    candidates.cut_top_p(0.5f);
    const auto got = as_set(ids_of(candidates));
    EXPECT_GT(got.size(), n / 4);
    EXPECT_LE(got.size(), n / 2 + 1);
    EXPECT_EQ(got, as_set({ids.begin(), ids.begin() + ptrdiff_t(got.size())}));
  }
}

TEST(Candidates, TypicalKeepsTheTokensNearestToTheEntropy) {
  // p = 0.5, 0.25, 0.125, 0.125: entropy 1.75 bits, surprises 1, 2, 3, 3 bits.
  const std::vector<float> logits = {std::log(0.5f), std::log(0.25f), std::log(0.125f),
                                     std::log(0.125f)};
  const auto cut = [&](float mass) {
    Candidates candidates(4);
    candidates.take_all(logits);
    candidates.cut_typical(mass);
    return as_set(ids_of(candidates));
  };
  EXPECT_EQ(cut(0.2f), (std::vector<TokenId>{1})) << "2 bits is nearest to 1.75";
  EXPECT_EQ(cut(0.26f), (std::vector<TokenId>{0, 1}));
  EXPECT_EQ(cut(0.8f), (std::vector<TokenId>{0, 1, 2}));
  EXPECT_EQ(cut(0.99f), (std::vector<TokenId>{0, 1, 2, 3}));
}

TEST(Candidates, MinPIsRelativeToTheLikeliest) {
  const std::vector<float> logits = {0, std::log(0.5f), std::log(0.09f), std::log(0.11f), kNan};
  Candidates candidates(5);
  candidates.take_all(logits);
  candidates.cut_min_p(0.1f);
  EXPECT_EQ(as_set(ids_of(candidates)), (std::vector<TokenId>{0, 1, 3}));
  candidates.cut_min_p(1.0f);
  EXPECT_EQ(as_set(ids_of(candidates)), (std::vector<TokenId>{0}));
}

TEST(Candidates, PickWalksTheCumulativeWeights) {
  const std::vector<float> logits = {0, std::log(3.0f), -kInf};
  Candidates candidates(3);
  candidates.take_all(logits);
  const double total = candidates.weigh(1.0f);
  EXPECT_EQ(candidates.pick(0.0, total), 0);
  EXPECT_EQ(candidates.pick(0.2499, total), 0);
  EXPECT_EQ(candidates.pick(0.2501, total), 1);
  EXPECT_EQ(candidates.pick(1.0, total), 1) << "rounding at the end stays inside";
}

}  // namespace
}  // namespace minfer
