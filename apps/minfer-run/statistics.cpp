#include "statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <numeric>

#include "terminal.h"

namespace minfer::run {
namespace {

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const auto n = static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n), values.end());
  return values[n];
}

/// Times between tokens: the first token belongs to the prefill.
std::vector<double> decode_times(const Generation& g) {
  return g.token_seconds.size() > 1
             ? std::vector<double>(g.token_seconds.begin() + 1, g.token_seconds.end())
             : std::vector<double>();
}

double rate(double n, double seconds) {
  return seconds > 0 ? n / seconds : 0;
}

/// 0 when the prefill was interrupted: it is not known how far it came.
double prefill_rate(const Generation& g) {
  return g.prefilled ? rate(g.prompt_tokens, g.prefill_seconds) : 0;
}

struct Held {
  std::string device;
  uint64_t planned = 0;
  uint64_t held = 0;  ///< bytes
};

/// Of each device; empty when one cannot tell.
std::vector<Held> memory_held(Engine& engine) {
  std::vector<Held> rows;
  const auto now = engine.measured_memory();
  const auto& planned = engine.memory_plan().devices;
  for (size_t d = 0; now && d < planned.size(); ++d)
    rows.push_back({planned[d].device, planned[d].total(), now->devices[d].total()});
  return rows;
}

}  // namespace

std::string timing_text(const Generation& g, Engine& engine, const StartUp& start) {
  const std::vector<double> times = decode_times(g);
  const double decode = std::accumulate(times.begin(), times.end(), 0.0);
  std::string out =
      fmt::format("plan     {:8.1f} ms\nload     {:8.1f} ms\n", start.plan_seconds * 1e3,
                  (start.load_seconds - start.plan_seconds) * 1e3);
  out +=
      fmt::format("prefill  {:8.1f} ms  {:5} tokens  ", g.prefill_seconds * 1e3, g.prompt_tokens);
  out += g.prefilled ? fmt::format("{:8.1f} tokens/s\n", prefill_rate(g)) : "interrupted\n";
  out += fmt::format("decode   {:8.1f} ms  {:5} tokens  {:8.1f} tokens/s\n", decode * 1e3,
                     times.size(), rate(static_cast<double>(times.size()), decode));
  if (!times.empty())
    out += fmt::format("a token  p50 {:.2f} ms, p90 {:.2f} ms, p99 {:.2f} ms\n",
                       percentile(times, 0.5) * 1e3, percentile(times, 0.9) * 1e3,
                       percentile(times, 0.99) * 1e3);
  if (!g.greedy) out += fmt::format("seed     {}\n", g.seed);
  for (const Held& row : memory_held(engine))
    out += fmt::format("memory   {}: {} held, {} planned\n", row.device, app::bytes_text(row.held),
                       app::bytes_text(row.planned));
  return out;
}

std::string json_text(const Generation& g, Engine& engine, const StartUp& start) {
  const std::vector<double> times = decode_times(g);
  const double decode = std::accumulate(times.begin(), times.end(), 0.0);
  boost::json::array devices;
  for (const auto& device : engine.devices()) devices.emplace_back(device->info().id);
  boost::json::array memory;
  for (const Held& row : memory_held(engine))
    memory.push_back({{"device", row.device}, {"planned", row.planned}, {"held", row.held}});
  boost::json::object root = {
      {"text", g.text},
      {"finish_reason", finish_name(g.finish)},
      {"prompt_tokens", g.prompt_tokens},
      {"generated_tokens", g.tokens.size()},
      {"tokens", boost::json::value_from(g.tokens)},
      {"seed", g.seed},
      {"context", engine.options().context},
      {"model", engine.model().file().path().string()},
      {"devices", std::move(devices)},
      {"memory", std::move(memory)},
      {"timing",
       {{"plan_seconds", start.plan_seconds},
        {"load_seconds", start.load_seconds},
        {"prefill_seconds", g.prefill_seconds},
        {"prefill_tokens_per_second", prefill_rate(g)},
        {"decode_seconds", decode},
        {"decode_tokens_per_second", rate(static_cast<double>(times.size()), decode)},
        {"token_p50_seconds", percentile(times, 0.5)},
        {"token_p90_seconds", percentile(times, 0.9)},
        {"token_p99_seconds", percentile(times, 0.99)}}}};
  if (g.finish == Finish::kStopString) root["stop"] = g.stop;
  return boost::json::serialize(root) + "\n";
}

std::string op_timing_text(const Engine& engine) {
  std::vector<OpTiming> rows = engine.op_timings();
  std::sort(rows.begin(), rows.end(),
            [](const OpTiming& a, const OpTiming& b) { return a.seconds > b.seconds; });
  double total = 0;
  for (const OpTiming& row : rows) total += row.seconds;
  std::string out = fmt::format("{:12} {:8} {:40} {:>8} {:>10} {:>7} {:>8}\n", "operator", "device",
                                "kernel", "calls", "ms", "share", "GB/s");
  for (const OpTiming& row : rows)
    out += fmt::format(
        "{:12} {:8} {:40} {:8} {:10.2f} {:6.1f}% {:>8}\n", row.op, row.device, row.kernel,
        row.calls, row.seconds * 1e3, total > 0 ? 100 * row.seconds / total : 0,
        row.bytes ? fmt::format("{:.1f}", rate(static_cast<double>(row.bytes) / 1e9, row.seconds))
                  : "-");
  return out;
}

}  // namespace minfer::run
