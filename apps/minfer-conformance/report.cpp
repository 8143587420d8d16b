#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "minfer/result.h"

namespace conformance {
namespace {

namespace json = boost::json;

json::array strings(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& text : list) out.emplace_back(text);
  return out;
}

json::object result_json(const CheckResult& r) {
  json::array figures;
  for (const Figure& f : r.figures)
    figures.push_back({{"name", f.name}, {"value", f.value}, {"unit", f.unit}});
  return {{"check", r.name},
          {"demand", r.what},
          {"outcome", outcome_word(r.outcome)},
          {"variants", r.variants},
          {"refused", r.refused},
          {"failures", r.failures},
          {"found", strings(r.texts)},
          {"refusals", strings(r.reasons)},
          {"notes", strings(r.notes)},
          {"figures", std::move(figures)},
          {"seconds", r.seconds}};
}

}  // namespace

uint32_t Report::count(Outcome outcome) const {
  return static_cast<uint32_t>(std::count_if(results.begin(), results.end(),
                                             [&](const auto& r) { return r.outcome == outcome; }));
}

bool Report::failed() const {
  return count(Outcome::kPassed) + count(Outcome::kSkipped) != results.size();
}

int Report::exit_status() const {
  if (failed()) return 1;
  return no_device.empty() ? 0 : minfer::exit_status(minfer::ErrorCode::kNotFound);
}

const char* outcome_word(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "pass";
    case Outcome::kFailed:
      return "FAIL";
    case Outcome::kCrashed:
      return "CRASH";
    case Outcome::kHung:
      return "HANG";
    case Outcome::kSkipped:
      break;
  }
  return "skip";
}

std::string result_text(const CheckResult& r) {
  std::string out = fmt::format("{:<5} {:<46} {:>6.2f} s  {}\n", outcome_word(r.outcome), r.name,
                                r.seconds, r.what);
  const auto line = [&](const std::string& text) { out += fmt::format("        {}\n", text); };
  for (const std::string& text : r.texts) line(text);
  if (r.failures > r.texts.size())
    line(fmt::format("... and {} more failures", r.failures - r.texts.size()));
  if (r.refused > 0 && r.variants > 0)
    line(fmt::format("{} of {} variants are not offered", r.refused, r.variants));
  for (const std::string& text : r.reasons) line("refused: " + text);
  for (const std::string& text : r.notes) line(text);
  // Figures of one name stand on one line.
  for (size_t i = 0; i < r.figures.size();) {
    const std::string& name = r.figures[i].name;
    std::string text = fmt::format("{:<48}", name);
    for (; i < r.figures.size() && r.figures[i].name == name; ++i)
      text += fmt::format(" {:>9.2f} {}", r.figures[i].value, r.figures[i].unit);
    line(text);
  }
  return out;
}

std::string heading_text(const Report& report) {
  std::string out = fmt::format("plugin  {}\n", report.target.plugin.string());
  if (!report.device.empty()) out += fmt::format("device  {}\n", report.device);
  if (!report.no_device.empty())
    out += fmt::format("device  none: {}; checks that need one are skipped\n", report.no_device);
  return out + fmt::format("seed    {}\n\n", report.seed);
}

std::string summary_text(const Report& report) {
  std::string out =
      fmt::format("\n{} checks: {} passed, {} failed, {} crashed, {} hung, {} skipped\n",
                  report.results.size(), report.count(Outcome::kPassed),
                  report.count(Outcome::kFailed), report.count(Outcome::kCrashed),
                  report.count(Outcome::kHung), report.count(Outcome::kSkipped));
  if (!report.no_device.empty() && !report.failed())
    out += "nothing failed, but without a device nothing is shown to work\n";
  return out;
}

std::string json_text(const Report& report) {
  json::array checks;
  for (const CheckResult& r : report.results) checks.push_back(result_json(r));
  const json::object all = {{"plugin", report.target.plugin.string()},
                            {"device_index", report.target.device},
                            {"device", report.device},
                            {"no_device", report.no_device},
                            {"seed", report.seed},
                            {"passed", report.exit_status() == 0},
                            {"checks", std::move(checks)}};
  return json::serialize(all) + "\n";
}

}  // namespace conformance
