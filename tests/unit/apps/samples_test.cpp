// Statistics of samples: figures known by hand, the interval's coverage, and verdicts on noise
// whose true effect is known.
#include "samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace minfer::app {
namespace {

TEST(Summary, HasMedianMeanDeviationAndRange) {
  const std::vector<double> odd = {5, 1, 3};
  const Summary s = summarize(odd);
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.mean, 3);
  EXPECT_EQ(s.deviation, 2);
  EXPECT_EQ(s.range.low, 1);
  EXPECT_EQ(s.range.high, 5);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_EQ(summarize(std::vector<double>{7}).deviation, 0);
}

// Table A.4 of Hollander, Wolfe & Chicken: P(T+ <= 8) = 0.024 at n = 10, so at 95 % the ends are
// the ninth means from either side.
TEST(SignedRank, IntervalIsTheExactOneOfTen) {
  std::vector<double> d;
  for (int i = 1; i <= 10; ++i) d.push_back(std::pow(2.0, i));
  const SignedRank r = signed_rank(d, 0.95);
  std::vector<double> means;
  for (size_t i = 0; i < d.size(); ++i)
    for (size_t j = i; j < d.size(); ++j) means.push_back((d[i] + d[j]) / 2);
  std::sort(means.begin(), means.end());
  EXPECT_EQ(r.interval.low, means[8]);
  EXPECT_EQ(r.interval.high, means[55 - 9]);
  EXPECT_EQ(r.centre, means[27]);
}

TEST(SignedRank, TooFewDifferencesLeaveBothEndsOpen) {
  const size_t needed = differences_needed(0.999);
  EXPECT_EQ(needed, 11u);
  EXPECT_TRUE(std::isinf(signed_rank(std::vector<double>(needed - 1, 0.5), 0.999).interval.low));
  EXPECT_TRUE(std::isinf(signed_rank(std::vector<double>(needed - 1, 0.5), 0.999).interval.high));
  EXPECT_EQ(signed_rank(std::vector<double>(needed, 0.5), 0.999).interval.low, 0.5);
}

TEST(SignedRank, NormalLimitContinuesTheExactDistribution) {
  std::mt19937 rng(3);
  std::normal_distribution<double> noise(0, 1);
  std::vector<double> d(kExactRanks + 1);
  for (double& x : d) x = noise(rng);
  const SignedRank limit = signed_rank(d, 0.99);
  d.pop_back();
  const SignedRank exact = signed_rank(d, 0.99);
  EXPECT_NEAR(limit.interval.low, exact.interval.low, 0.03);
  EXPECT_NEAR(limit.interval.high, exact.interval.high, 0.03);
}

/// How a machine disturbs a measurement, as the logarithm of a block's effect.
struct Noise {
  const char* name;
  double (*draw)(std::mt19937&);
};
void PrintTo(const Noise& noise, std::ostream* out) {
  *out << noise.name;
}
double sign(std::mt19937& rng) {
  return rng() & 1 ? 1.0 : -1.0;
}
const Noise kNoises[] = {
    {"Quiet", [](std::mt19937& r) { return std::normal_distribution<double>(0, 0.005)(r); }},
    {"Loud", [](std::mt19937& r) { return std::normal_distribution<double>(0, 0.2)(r); }},
    {"HeavyTails", [](std::mt19937& r) { return std::cauchy_distribution<double>(0, 0.02)(r); }},
    {"SeldomBursts",
     [](std::mt19937& r) {
       const double burst = r() % 5 == 0 ? std::exponential_distribution<double>(2)(r) : 0;
       return sign(r) * burst + std::normal_distribution<double>(0, 0.003)(r);
     }},
    {"TwoSpeeds", [](std::mt19937& r) { return sign(r) * (r() % 2 ? 0.3 : 0.001); }},
};

class Verdicts : public testing::TestWithParam<Noise> {
 protected:
  static constexpr double kConfidence = 0.999;
  static SignedRank draw(std::mt19937& rng, size_t n, double effect) {
    std::vector<double> d(n);
    for (double& x : d) x = effect + GetParam().draw(rng);
    return signed_rank(d, kConfidence);
  }
};

// 4,000 comparisons without an effect: at most one in a thousand may look like one, give or take.
TEST_P(Verdicts, SeldomSeeWhatIsNotThere) {
  std::mt19937 rng(11);
  const double bar = std::log1p(0.015);
  int false_alarms = 0;
  for (int i = 0; i < 4000; ++i) {
    const Verdict v = judge(draw(rng, 12 + i % 3 * 9, 0), bar);
    false_alarms += v == Verdict::kBetter || v == Verdict::kWorse;
  }
  EXPECT_LE(false_alarms, 12);
}

TEST_P(Verdicts, IntervalsHoldTheTruth) {
  std::mt19937 rng(12);
  int missed = 0;
  for (int i = 0; i < 4000; ++i) {
    const SignedRank r = draw(rng, 20, 0.07);
    missed += r.interval.low > 0.07 || r.interval.high < 0.07;
  }
  EXPECT_LE(missed, 12);
}

const auto noise_name = [](const auto& test) { return std::string(test.param.name); };
INSTANTIATE_TEST_SUITE_P(Noises, Verdicts, testing::ValuesIn(kNoises), noise_name);

TEST(Judge, ThreePercentIsFoundInQuietNoise) {
  std::mt19937 rng(5);
  std::normal_distribution<double> noise(0, 0.01);
  for (const double percent : {3.0, -3.0}) {
    std::vector<double> d(20);
    for (double& x : d) x = std::log1p(percent / 100) + noise(rng);
    EXPECT_EQ(judge(signed_rank(d, 0.999), std::log1p(0.015)),
              percent > 0 ? Verdict::kBetter : Verdict::kWorse);
  }
}

TEST(Judge, NeedsBothTheIntervalAndTheBar) {
  const double bar = 0.015;
  EXPECT_EQ(judge({0.02, {0.001, 0.04}}, bar), Verdict::kBetter);
  EXPECT_EQ(judge({-0.02, {-0.04, -0.001}}, bar), Verdict::kWorse);
  EXPECT_EQ(judge({0.01, {0.005, 0.014}}, bar), Verdict::kNoDifference) << "real, below the bar";
  EXPECT_EQ(judge({0.01, {0.005, 0.03}}, bar), Verdict::kNotMeasurable);
  EXPECT_EQ(judge({0.02, {-0.001, 0.04}}, bar), Verdict::kNotMeasurable);
  EXPECT_EQ(judge({0.0, {-0.014, 0.014}}, bar), Verdict::kNoDifference);
  EXPECT_EQ(judge({0.0, {-0.016, 0.014}}, bar), Verdict::kNotMeasurable);
}

}  // namespace
}  // namespace minfer::app
