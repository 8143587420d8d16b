// Statistics of repeated timings: what a list of samples says of itself, and what paired samples
// say of the difference between two settings.
//
// Pure functions; none of them allocates beyond what its input explains.
#pragma once

#include <span>
#include <string_view>

namespace minfer::app {

struct Interval {
  double low = 0;
  double high = 0;
};

/// Median, mean, standard deviation (n - 1 in the denominator; 0 for one sample) and range.
struct Summary {
  double median = 0;
  double mean = 0;
  double deviation = 0;
  Interval range;
};

/// Of at least one sample.
Summary summarize(std::span<const double> samples);
double median(std::span<const double> samples);

/// The centre of differences, without an assumption about their distribution but symmetry.
struct SignedRank {
  /// Hodges-Lehmann: the median of the means of all pairs of differences.
  double centre = 0;
  /// Holds the true centre with at least the confidence asked for; infinite on both sides when
  /// there are too few differences for it.
  Interval interval;
};

/// Wilcoxon's signed-rank test turned into an interval (Hollander, Wolfe & Chicken, Nonparametric
/// Statistical Methods, 3.1-3.3): the centres that the two-sided test at level 1 - `confidence`
/// does not reject are those between two of the n(n+1)/2 means of pairs. The distribution of the
/// statistic is exact up to kExactRanks differences, above that it is its normal limit. At least
/// one difference; 0 < confidence < 1.
SignedRank signed_rank(std::span<const double> differences, double confidence);
inline constexpr size_t kExactRanks = 100;

/// Differences that the interval needs to be finite: 2^(1-n) <= 1 - confidence.
size_t differences_needed(double confidence);

/// What a comparison of B with A says. All are relative speeds as natural logarithms.
enum class Verdict { kBetter, kWorse, kNoDifference, kNotMeasurable };

/// Better or worse: the interval excludes zero and the centre reaches the bar. No difference: the
/// interval lies inside the bar on both sides. Anything else cannot be told from these samples.
Verdict judge(const SignedRank& effect, double bar);

/// "better", "worse", "no difference", "not measurable here".
std::string_view verdict_name(Verdict verdict);

}  // namespace minfer::app
