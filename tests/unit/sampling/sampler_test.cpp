// The sampler as a whole: each parameter, the order of steps, determinism, odd logits.
#include "minfer/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "sampling/random.h"

namespace minfer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Parameters that change nothing: temperature 1 and every cut off.
SamplerParams neutral() {
  SamplerParams p;
  p.temperature = 1;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  p.seed = 1;
  return p;
}

std::unique_ptr<Sampler> make(const SamplerParams& params, size_t vocab, uint32_t history = 100) {
  auto sampler = Sampler::create(params, static_cast<uint32_t>(vocab), history);
  EXPECT_TRUE(sampler) << sampler.error().message();
  return std::move(*sampler);
}

std::map<TokenId, double> frequencies(Sampler& sampler, const std::vector<float>& logits, int n) {
  std::map<TokenId, double> out;
  for (int i = 0; i < n; ++i) out[*sampler.sample(logits)] += 1.0 / n;
  return out;
}

std::set<TokenId> support(const SamplerParams& params, const std::vector<float>& logits) {
  std::set<TokenId> out;
  for (const auto& [id, p] : frequencies(*make(params, logits.size()), logits, 4000))
    out.insert(id);
  return out;
}

/// Logits of the distribution 0.4, 0.3, 0.2, 0.06, 0.04.
const std::vector<float> kFive = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.06f),
                                  std::log(0.04f)};

TEST(Sampler, DrawsFollowTheDistribution) {
  // 200 tokens in random proportions; chi-square with 199 degrees of freedom stays below 300 but
  // for one run in a hundred thousand, and the seed is fixed.
  std::mt19937 rng(7);
  std::vector<float> logits(200);
  std::vector<double> p;
  double sum = 0;
  for (float& logit : logits) {
    logit = std::uniform_real_distribution<float>(-2, 2)(rng);
    p.push_back(std::exp(double(logit) / 0.7));
    sum += p.back();
  }
  SamplerParams params = neutral();
  params.temperature = 0.7f;
  const int n = 200000;
  auto sampler = make(params, logits.size());
  auto seen = frequencies(*sampler, logits, n);
  double chi2 = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = n * p[i] / sum;
    const double difference = n * seen[static_cast<TokenId>(i)] - expected;
    chi2 += difference * difference / expected;
  }
  EXPECT_LT(chi2, 300);
  EXPECT_GT(chi2, 120) << "too even to be random";
}

TEST(Sampler, TheOrderOfCandidatesDoesNotChangeTheDistribution) {
  // The same draw through the heap (top_k) and through the whole vocabulary.
  SamplerParams heap = neutral();
  heap.top_k = 4;
  auto a = frequencies(*make(heap, 5), kFive, 100000);
  EXPECT_NEAR(a[0], 0.4 / 0.96, 0.01);
  EXPECT_NEAR(a[1], 0.3 / 0.96, 0.01);
  EXPECT_NEAR(a[3], 0.06 / 0.96, 0.01);
  EXPECT_EQ(a.count(4), 0u);
}

TEST(Sampler, GreedyTakesTheLikeliestAndTheLowestOfEquals) {
  SamplerParams params;
  params.temperature = 0;
  EXPECT_TRUE(params.is_plain_greedy());
  auto sampler = make(params, 5);
  EXPECT_EQ(*sampler->sample(std::vector<float>{1, 5, 3, 5, 2}), 1);
}

TEST(Sampler, EachCutHasItsSupport) {
  SamplerParams p = neutral();
  EXPECT_EQ(support(p, kFive), (std::set<TokenId>{0, 1, 2, 3, 4}));
  p.top_k = 2;
  EXPECT_EQ(support(p, kFive), (std::set<TokenId>{0, 1}));
  p = neutral();
  p.top_p = 0.65f;
  EXPECT_EQ(support(p, kFive), (std::set<TokenId>{0, 1}));
  p.top_p = 0.75f;
  EXPECT_EQ(support(p, kFive), (std::set<TokenId>{0, 1, 2}));
  p.top_p = 0;
  EXPECT_EQ(support(p, kFive), (std::set<TokenId>{0})) << "at least one is kept";
  p = neutral();
  p.min_p = 0.12f;
  EXPECT_EQ(support(p, kFive), (std::set<TokenId>{0, 1, 2, 3}));
  p.min_p = 1;
  EXPECT_EQ(support(p, kFive), (std::set<TokenId>{0}));
  p = neutral();
  p.typical_p = 0.29f;
  EXPECT_EQ(support(p, kFive), (std::set<TokenId>{1}))
      << "the nearest to the entropy, not the likeliest";
}

TEST(Sampler, CutsSeeTheDistributionBeforeTheTemperature) {
  // At temperature 0.05 the likeliest has nearly all the mass; a top_p that saw it would keep one.
  SamplerParams p = neutral();
  p.temperature = 100;
  p.top_p = 0.65f;
  auto hot = frequencies(*make(p, 5), kFive, 20000);
  EXPECT_EQ(hot.size(), 2u) << "flattened after the cut, not before";
  EXPECT_NEAR(hot[0], 0.5, 0.02);
}

TEST(Sampler, ATinyTemperatureIsGreedy) {
  SamplerParams p = neutral();
  for (const float t : {1e-3f, 1e-30f, 1e-45f}) {
    p.temperature = t;
    EXPECT_EQ(support(p, kFive), (std::set<TokenId>{0})) << t;
  }
}

TEST(Sampler, RepeatPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  SamplerParams p;
  p.temperature = 0;
  p.repeat_penalty = 2;
  EXPECT_FALSE(p.is_plain_greedy());
  auto sampler = make(p, 3);
  const std::vector<float> positive = {4.0f, 2.5f, 0.0f};
  EXPECT_EQ(*sampler->sample(positive), 0) << "nothing accepted yet";
  sampler->accept(0);
  EXPECT_EQ(*sampler->sample(positive), 1) << "4 / 2 < 2.5";
  const std::vector<float> negative = {-1.0f, -1.5f, -9.0f};
  EXPECT_EQ(*sampler->sample(negative), 1) << "-1 * 2 < -1.5";
}

TEST(Sampler, FrequencyCountsAndPresenceDoesNot) {
  SamplerParams p;
  p.temperature = 0;
  p.frequency_penalty = 1;
  auto frequency = make(p, 2);
  p.frequency_penalty = 0;
  p.presence_penalty = 1;
  auto presence = make(p, 2);
  const std::vector<float> logits = {2.5f, 0.0f};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*frequency->sample(logits), 0) << i;
    frequency->accept(0);
    presence->accept(0);
  }
  EXPECT_EQ(*frequency->sample(logits), 1) << "2.5 - 3 < 0";
  EXPECT_EQ(*presence->sample(logits), 0) << "2.5 - 1 > 0";
}

TEST(Sampler, PenaltiesLookBackOnTheLastTokensOnly) {
  SamplerParams p;
  p.temperature = 0;
  p.presence_penalty = 5;
  p.repeat_last_n = 2;
  auto sampler = make(p, 4);
  const std::vector<float> logits = {3, 2, 1, 0};
  sampler->accept(0);
  sampler->accept(1);
  EXPECT_EQ(*sampler->sample(logits), 2);
  sampler->accept(3);
  EXPECT_EQ(*sampler->sample(logits), 0) << "token 0 is out of the window";
  sampler->accept(3);
  EXPECT_EQ(*sampler->sample(logits), 0);
  sampler->reset(1);
  sampler->accept(0);
  EXPECT_EQ(*sampler->sample(logits), 1) << "reset forgot the rest";

  p.repeat_last_n = -1;
  auto all = make(p, 4, 3);
  for (const TokenId token : {0, 1, 2}) all->accept(token);
  EXPECT_EQ(*all->sample(logits), 3);
  all->accept(2);
  EXPECT_EQ(*all->sample(logits), 0) << "max_history is 3";

  p.repeat_last_n = 0;
  EXPECT_TRUE(p.is_plain_greedy());
  auto off = make(p, 4);
  off->accept(0);
  EXPECT_EQ(*off->sample(logits), 0);
}

TEST(Sampler, LogitBiasAddsAndForbids) {
  SamplerParams p;
  p.temperature = 0;
  p.logit_bias = {{0, -kInf}, {3, 1.5f}};
  auto sampler = make(p, 4);
  EXPECT_EQ(*sampler->sample(std::vector<float>{9, 2, 1, 1}), 3);
  EXPECT_EQ(*sampler->sample(std::vector<float>{kInf, 2, 1, 0}), 1) << "even a certain token";
  const std::vector<float> logits = {9, 2, 1, 1};
  const std::vector<float> before = logits;
  ASSERT_TRUE(sampler->sample(logits));
  EXPECT_EQ(logits, before) << "the caller's logits are not changed";
}

TEST(Sampler, OddLogitsAreSafe) {
  for (const int32_t k : {0, 2, 40}) {
    SamplerParams p = neutral();
    p.top_k = k;
    p.top_p = 0.9f;
    p.min_p = 0.05f;
    p.typical_p = 0.9f;
    auto sampler = make(p, 4);
    EXPECT_EQ(*sampler->sample(std::vector<float>{kNan, -kInf, 2, kNan}), 2);
    EXPECT_EQ(*sampler->sample(std::vector<float>{1, kInf, 2, kNan}), 1);
    const float most = std::numeric_limits<float>::max();
    EXPECT_EQ(*sampler->sample(std::vector<float>{-most, most, -most, 0}), 1);
    auto none = sampler->sample(std::vector<float>{kNan, -kInf, -kInf, kNan});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::kInternal);
    EXPECT_TRUE(sampler->sample(std::vector<float>{0, 0, 0, 0})) << "usable afterwards";
    EXPECT_FALSE(sampler->sample(std::vector<float>{0, 0, 0}))
        << "another size than the vocabulary";
  }
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 2);
  std::vector<std::vector<float>> steps(50, std::vector<float>(5000));
  for (auto& step : steps)
    for (float& logit : step) logit = normal(rng);
  const auto run = [&](Sampler& sampler) {
    std::vector<TokenId> tokens;
    for (const auto& step : steps) {
      tokens.push_back(*sampler.sample(step));
      sampler.accept(tokens.back());
    }
    return tokens;
  };
  SamplerParams p;
  p.seed = 42;
  p.repeat_penalty = 1.1f;
  auto first = make(p, 5000);
  const auto tokens = run(*first);
  EXPECT_EQ(run(*make(p, 5000)), tokens);
  EXPECT_NE(run(*first), tokens) << "it goes on";
  first->reset(42);
  EXPECT_EQ(run(*first), tokens);
  EXPECT_EQ(first->seed(), 42u);
  first->reset(43);
  EXPECT_NE(run(*first), tokens);

  // A seed drawn by the system can be used again.
  p.seed.reset();
  auto drawn = make(p, 5000);
  const auto once = run(*drawn);
  p.seed = drawn->seed();
  EXPECT_EQ(run(*make(p, 5000)), once);
  p.seed.reset();
  EXPECT_NE(make(p, 5000)->seed(), drawn->seed());
}

TEST(Sampler, ParametersAreChecked) {
  const auto refused = [](auto&& change, const char* name) {
    SamplerParams p;
    change(p);
    auto result = Sampler::create(p, 10, 10);
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, ErrorCode::kConfig);
    EXPECT_NE(result.error().message().find(name), std::string::npos) << result.error().message();
  };
  refused([](auto& p) { p.temperature = -1; }, "temperature");
  refused([](auto& p) { p.temperature = kNan; }, "temperature");
  refused([](auto& p) { p.top_k = -1; }, "top_k");
  refused([](auto& p) { p.top_p = 1.1f; }, "top_p");
  refused([](auto& p) { p.min_p = -0.1f; }, "min_p");
  refused([](auto& p) { p.typical_p = kNan; }, "typical_p");
  refused([](auto& p) { p.repeat_penalty = 0; }, "repeat_penalty");
  refused([](auto& p) { p.repeat_last_n = -2; }, "repeat_last_n");
  refused([](auto& p) { p.frequency_penalty = kInf; }, "frequency_penalty");
  refused([](auto& p) { p.presence_penalty = -1000; }, "presence_penalty");
  refused([](auto& p) { p.logit_bias = {{10, 1.0f}}; }, "vocabulary has 10");
  refused([](auto& p) { p.logit_bias = {{-1, 1.0f}}; }, "logit_bias of token -1");
  refused([](auto& p) { p.logit_bias = {{1, kInf}}; }, "logit_bias of token 1");
}

TEST(Random, IsXoshiro256PlusPlusSeededBySplitmix64) {
  // Computed with the authors' reference algorithms in Python (arbitrary integers).
  Random random(42);
  EXPECT_EQ(random.next(), 15021278609987233951u);
  EXPECT_EQ(random.next(), 5881210131331364753u);
  EXPECT_EQ(random.next(), 18149643915985481100u);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

}  // namespace
}  // namespace minfer
