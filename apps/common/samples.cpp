#include "samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

namespace minfer::app {
namespace {

double middle(std::span<const double> sorted) {
  const size_t n = sorted.size();
  return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

/// z with P(Z > z) = p for a standard normal Z, 0 < p < 1/2, by bisection: it is asked once.
double normal_tail(double p) {
  double low = 0;
  double high = 40;
  for (int i = 0; i < 200; ++i) {
    const double z = 0.5 * (low + high);
    (0.5 * std::erfc(z / std::sqrt(2.0)) > p ? low : high) = z;
  }
  return 0.5 * (low + high);
}

/// The largest k with P(T < k) <= tail, where T is the sum of the ranks 1..n that a fair coin each
/// picks: so many means of pairs are cut off at either end.
size_t rejected_exactly(size_t n, double tail) {
  // chance[t] = P(T = t), built rank by rank.
  std::vector<double> chance(n * (n + 1) / 2 + 1, 0.0);
  chance[0] = 1;
  size_t top = 0;
  for (size_t rank = 1; rank <= n; ++rank) {
    top += rank;
    for (size_t t = top + 1; t-- > 0;)
      chance[t] = 0.5 * (chance[t] + (t >= rank ? chance[t - rank] : 0.0));
  }
  size_t k = 0;
  double below = chance[0];
  while (below <= tail) below += chance[++k];
  return k;
}

size_t rejected_means(size_t n, double tail) {
  if (n <= kExactRanks) return rejected_exactly(n, tail);
  const auto m = static_cast<double>(n);
  const double mean = m * (m + 1) / 4;
  const double spread = std::sqrt(m * (m + 1) * (2 * m + 1) / 24);
  return static_cast<size_t>(std::max(0.0, std::floor(mean - 0.5 - normal_tail(tail) * spread)));
}

}  // namespace

double median(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return middle(sorted);
}

Summary summarize(std::span<const double> samples) {
  const auto n = static_cast<double>(samples.size());
  Summary out;
  out.median = median(samples);
  out.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double s : samples) squares += (s - out.mean) * (s - out.mean);
  if (samples.size() > 1) out.deviation = std::sqrt(squares / (n - 1));
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  out.range = {*low, *high};
  return out;
}

SignedRank signed_rank(std::span<const double> differences, double confidence) {
  const size_t n = differences.size();
  std::vector<double> means;
  means.reserve(n * (n + 1) / 2);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i; j < n; ++j) means.push_back(0.5 * (differences[i] + differences[j]));
  std::sort(means.begin(), means.end());

  SignedRank out;
  out.centre = middle(means);
  const size_t k = rejected_means(n, 0.5 * (1 - confidence));
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  out.interval =
      k == 0 ? Interval{-kInfinite, kInfinite} : Interval{means[k - 1], means[means.size() - k]};
  return out;
}

size_t differences_needed(double confidence) {
  return static_cast<size_t>(std::ceil(1 - std::log2(1 - confidence)));
}

Verdict judge(const SignedRank& effect, double bar) {
  const Interval& in = effect.interval;
  if (in.low > 0 && effect.centre >= bar) return Verdict::kBetter;
  if (in.high < 0 && effect.centre <= -bar) return Verdict::kWorse;
  if (in.low > -bar && in.high < bar) return Verdict::kNoDifference;
  return Verdict::kNotMeasurable;
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "better";
    case Verdict::kWorse:
      return "worse";
    case Verdict::kNoDifference:
      return "no difference";
    case Verdict::kNotMeasurable:
      break;
  }
  return "not measurable here";
}

}  // namespace minfer::app
