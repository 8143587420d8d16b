#include "report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json.hpp>

#include "terminal.h"

namespace minfer::bench {

std::string table_text(const Subject& subject, std::span<const Measurement> measurements) {
  std::string out =
      fmt::format("model: {} ({}, {} of weights), loaded in {:.2f} s, {} repetitions\n",
                  subject.model, subject.architecture, app::bytes_text(subject.weight_bytes),
                  subject.load_seconds, subject.repetitions);
  out += fmt::format("{:24} {:12} {:>12} {:>12} {:>12}\n", "test", "device", "t/s median", "min",
                     "max");
  for (const Measurement& m : measurements)
    out += fmt::format("{:24} {:12} {:>12.2f} {:>12.2f} {:>12.2f}\n", m.test.name(),
                       fmt::format("{}", fmt::join(m.devices, "+")), m.median(), m.min(), m.max());
  out += "kernels:\n";
  for (const Measurement& m : measurements)
    out += fmt::format("  {}: {}\n", m.test.name(), fmt::join(m.kernels, ", "));
  return out;
}

std::string json_text(const Subject& subject, std::span<const Measurement> measurements) {
  boost::json::array tests;
  for (const Measurement& m : measurements) {
    tests.push_back({{"test", m.test.name()},
                     {"n_prompt", m.test.prompt},
                     {"n_gen", m.test.generate},
                     {"n_depth", m.test.depth},
                     {"n_batch", m.test.batch},
                     {"median_ts", m.median()},
                     {"min_ts", m.min()},
                     {"max_ts", m.max()},
                     {"samples_ts", boost::json::value_from(m.tokens_per_second)},
                     {"devices", boost::json::value_from(m.devices)},
                     {"kernels", boost::json::value_from(m.kernels)}});
  }
  const boost::json::object root = {{"model_filename", subject.model},
                                    {"model_name", subject.name},
                                    {"model_type", subject.architecture},
                                    {"model_size", subject.weight_bytes},
                                    {"load_seconds", subject.load_seconds},
                                    {"repetitions", subject.repetitions},
                                    {"tests", std::move(tests)}};
  return boost::json::serialize(root) + "\n";
}

}  // namespace minfer::bench
