#include "experiment.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace minfer::ab {
namespace {

/// A sample is at least this long, so that the clock and a switch of threads do not matter.
constexpr double kSampleSeconds = 0.02;
constexpr uint32_t kMaxRuns = 1000;
/// Uncounted runs of each side at the start: a backend may capture what has run a few times.
constexpr uint32_t kWarmUps = 4;
/// Tokens generated after a switch and before the clock starts: the other side's data has left the
/// caches by then.
constexpr uint32_t kSettleTokens = 4;

struct Sampler {
  Sides& sides;
  uint32_t runs = 1;
  std::vector<TokenId> made{};  ///< by side A
  bool same_tokens = true;

  /// Warms both sides up and finds how many runs a sample needs.
  Result<void> calibrate() {
    double seconds = 0;
    for (const size_t side : {1, 0}) {
      MINFER_TRY(sides.use(side));
      for (uint32_t i = 0; i < kWarmUps; ++i) {
        MINFER_ASSIGN(auto ran, sides.runner().run());
        seconds = std::max(ran.seconds, kSampleSeconds / kMaxRuns);
        made = std::move(ran.made);
      }
    }
    runs = std::max(1u, static_cast<uint32_t>(std::ceil(kSampleSeconds / seconds)));
    return {};
  }

  Result<double> speed(size_t side) {
    MINFER_TRY(sides.use(side));
    MINFER_TRY(sides.runner().run(kSettleTokens));
    double seconds = 0;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < runs; ++i) {
      MINFER_ASSIGN(const auto ran, sides.runner().run());
      seconds += ran.seconds;
      tokens += ran.tokens;
      same_tokens = same_tokens && ran.made == made;
    }
    return static_cast<double>(tokens) / seconds;
  }
};

}  // namespace

Result<Measurement> measure(Sides& sides, const Options& options) {
  Measurement out;
  Sampler sampler{.sides = sides};
  MINFER_TRY(sampler.calibrate());
  out.runs_per_sample = sampler.runs;
  std::mt19937 coin(static_cast<uint32_t>(options.seed));
  for (uint32_t block = 0; block < options.pairs / 2; ++block) {
    const size_t first = coin() & 1;
    double effect = 0;
    double control = 0;
    for (const size_t place : {0, 1, 2, 3}) {
      const bool outer = place == 0 || place == 3;
      const size_t side = outer ? first : 1 - first;
      MINFER_ASSIGN(const double speed, sampler.speed(side));
      out.speeds[side].push_back(speed);
      effect += (side == 1 ? 0.5 : -0.5) * std::log(speed);
      control += (place % 2 == 1 ? 0.5 : -0.5) * std::log(speed);
    }
    out.effects.push_back(effect);
    out.controls.push_back(control);
  }
  if (!sampler.same_tokens && !sides.gate().affects_numerics)
    out.refusal =
        "the tokens generated while measuring differ, and the gate does not declare that it "
        "changes outputs";
  return out;
}

Judgement judge(const Measurement& measured, const Options& options) {
  const double confidence = options.confidence / 100;
  const double bar = std::log1p(options.bar / 100);
  Judgement out;
  out.effect = app::signed_rank(measured.effects, confidence);
  out.control = app::signed_rank(measured.controls, confidence);
  const app::Interval a = app::summarize(measured.speeds[0]).range;
  const app::Interval b = app::summarize(measured.speeds[1]).range;
  out.separated = b.low > a.high || a.low > b.high;
  out.verdict = app::judge(out.effect, bar);
  const app::Verdict control = app::judge(out.control, bar);
  out.control_failed = control == app::Verdict::kBetter || control == app::Verdict::kWorse;
  if (out.control_failed) out.verdict = app::Verdict::kNotMeasurable;
  if (out.verdict == app::Verdict::kNotMeasurable && !out.control_failed && bar > 0) {
    // Intervals shrink with the root of the number of pairs; half the bar tells both verdicts.
    const double half = 0.5 * (out.effect.interval.high - out.effect.interval.low);
    const double more = half / (0.5 * bar);
    if (std::isfinite(more) && more > 1)
      out.pairs_wanted =
          static_cast<uint32_t>(std::min(1e6, 2 * std::ceil(0.5 * options.pairs * more * more)));
  }
  return out;
}

}  // namespace minfer::ab
