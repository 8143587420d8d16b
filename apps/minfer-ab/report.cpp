#include "report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json.hpp>
#include <cmath>

namespace minfer::ab {
namespace {

constexpr const char* kSideNames[] = {"A", "B"};

double percent(double log_ratio) {
  return 100 * std::expm1(log_ratio);
}

std::string effect_text(const app::SignedRank& e, double confidence) {
  return fmt::format("{:+.2f} % ({} % interval {:+.2f} to {:+.2f} %)", percent(e.centre),
                     confidence, percent(e.interval.low), percent(e.interval.high));
}

/// A few of many names.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  if (names.empty()) return "none";
  const size_t n = std::min(names.size(), kShown);
  std::string out = fmt::format("{}", fmt::join(names.begin(), names.begin() + n, ", "));
  if (names.size() > n) out += fmt::format(" and {} more", names.size() - n);
  return out;
}

std::string measured_text(const Measurement& m, const Judgement& j, const Options& options) {
  std::string out;
  for (const size_t side : {0, 1}) {
    const app::Summary s = app::summarize(m.speeds[side]);
    out += fmt::format("{:10} median {:.2f} t/s, {:.2f} to {:.2f}\n", kSideNames[side], s.median,
                       s.range.low, s.range.high);
  }
  out += fmt::format("{:10} {}\n", "separated", j.separated ? "yes" : "no");
  out += fmt::format("{:10} B against A {}\n", "effect", effect_text(j.effect, options.confidence));
  out += fmt::format("{:10} second of a pair against first {}\n", "control",
                     effect_text(j.control, options.confidence));
  out += fmt::format("{:10} {} (bar {} %)\n", "verdict", app::verdict_name(j.verdict), options.bar);
  if (j.control_failed)
    out += fmt::format("{:10} the place in a pair alone makes such a difference\n", "");
  if (j.pairs_wanted > 0)
    out += fmt::format("{:10} about {} pairs would tell at this noise\n", "", j.pairs_wanted);
  return out;
}

/// JSON knows no infinity: an open end is null.
boost::json::value number(double x) {
  return std::isfinite(x) ? boost::json::value(x) : boost::json::value(nullptr);
}

boost::json::object effect_json(const app::SignedRank& e) {
  return {{"percent", number(percent(e.centre))},
          {"low_percent", number(percent(e.interval.low))},
          {"high_percent", std::isfinite(e.interval.high) ? number(percent(e.interval.high))
                                                          : boost::json::value(nullptr)}};
}

boost::json::object side_json(const std::string& value, const std::vector<double>& speeds) {
  const app::Summary s = app::summarize(speeds);
  return {{"value", value},
          {"median_ts", s.median},
          {"min_ts", s.range.low},
          {"max_ts", s.range.high},
          {"samples_ts", boost::json::value_from(speeds)}};
}

const char* scope_name(GateScope scope) {
  return scope == GateScope::kLoad ? "load" : scope == GateScope::kPlan ? "plan" : "run";
}

}  // namespace

std::string text(const Comparison& c, const Sides& sides, const Options& options) {
  std::string out =
      fmt::format("{:10} {}: {} (A) against {} (B); scope {}: {}\n", "gate", sides.gate().name,
                  sides.value(0), sides.value(1), scope_name(sides.gate().scope), sides.how());
  out += fmt::format("{:10} {} on {}, {} pairs, order seed {}\n", "metric", options.metric.name(),
                     fmt::join(c.kernels.devices, "+"), options.pairs, options.seed);
  out += fmt::format("{:10} only A: {}\n{:10} only B: {}\n", "kernels", some_of(c.kernels.only_a),
                     "", some_of(c.kernels.only_b));
  if (c.outputs)
    out += fmt::format("{:10} {} rows, relative difference {:.1e}, {} other tokens\n", "outputs",
                       c.outputs->rows, c.outputs->error, c.outputs->different_tokens);
  if (!c.refusal.empty()) return out + fmt::format("{:10} none: {}\n", "verdict", c.refusal);
  return out + measured_text(*c.measured, *c.judgement, options);
}

std::string json_text(const Comparison& c, const Sides& sides, const Options& options) {
  boost::json::object root = {{"gate", sides.gate().name},
                              {"values", boost::json::array{sides.value(0), sides.value(1)}},
                              {"scope", scope_name(sides.gate().scope)},
                              {"affects_numerics", sides.gate().affects_numerics},
                              {"switching", sides.how()},
                              {"metric", options.metric.name()},
                              {"model_filename", options.config.model.string()},
                              {"devices", boost::json::value_from(c.kernels.devices)},
                              {"pairs", options.pairs},
                              {"seed", options.seed},
                              {"bar_percent", options.bar},
                              {"confidence_percent", options.confidence},
                              {"kernels_only_a", boost::json::value_from(c.kernels.only_a)},
                              {"kernels_only_b", boost::json::value_from(c.kernels.only_b)}};
  if (c.outputs)
    root["outputs"] = {{"rows", c.outputs->rows},
                       {"error", number(c.outputs->error)},
                       {"different_tokens", c.outputs->different_tokens}};
  if (!c.refusal.empty()) {
    root["verdict"] = "none";
    root["refusal"] = c.refusal;
    return boost::json::serialize(root) + "\n";
  }
  root["runs_per_sample"] = c.measured->runs_per_sample;
  root["a"] = side_json(sides.value(0), c.measured->speeds[0]);
  root["b"] = side_json(sides.value(1), c.measured->speeds[1]);
  root["separated"] = c.judgement->separated;
  root["effect"] = effect_json(c.judgement->effect);
  root["control"] = effect_json(c.judgement->control);
  root["verdict"] = app::verdict_name(c.judgement->verdict);
  if (c.judgement->pairs_wanted > 0) root["pairs_wanted"] = c.judgement->pairs_wanted;
  return boost::json::serialize(root) + "\n";
}

}  // namespace minfer::ab
