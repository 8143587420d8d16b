// The forms for programs: JSON, and CSV made of the same fields.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/json.hpp>
#include <ctime>
#include <thread>

#include "report.h"

namespace minfer::bench {
namespace {

namespace json = boost::json;

constexpr int kSchemaVersion = 1;

json::array nanoseconds(std::span<const double> seconds) {
  json::array out;
  for (const double s : seconds) out.emplace_back(static_cast<uint64_t>(s * 1e9 + 0.5));
  return out;
}

/// A share of a ceiling; null where there is none.
json::value share(double value, double ceiling) {
  return ceiling > 0 ? json::value(value / ceiling) : json::value(nullptr);
}

json::array kernels_json(std::span<const OpTiming> kernels) {
  json::array out;
  for (const OpTiming& k : kernels)
    out.push_back({{"op", k.op}, {"kernel", k.kernel}, {"device", k.device}, {"calls", k.calls}});
  return out;
}

std::string backends_of(const Record& r) {
  std::string out;
  std::string last;
  for (const std::string& device : r.devices) {
    const std::string backend = device.substr(0, device.find(':'));
    if (backend != last) out += (out.empty() ? "" : ",") + backend;
    last = backend;
  }
  return out;
}

json::object subject_fields(const Record& r) {
  const Subject& s = *r.subject;
  uint64_t device_peak = 0;
  for (const DevicePeak& p : s.device_peaks) device_peak += p.bytes;
  return {{"model_filename", s.model},
          {"model_name", s.name},
          {"model_type", fmt::format("{} {}", s.architecture, s.quantization)},
          {"model_size", s.file_bytes},
          {"model_n_params", s.parameters},
          {"model_held_size", s.held_bytes},
          {"backends", backends_of(r)},
          {"devices", json::value_from(r.devices)},
          {"devices_asked", s.asked},
          {"fallbacks", json::value_from(r.fallbacks)},
          {"n_gpu_layers", s.gpu_layers},
          {"n_threads", s.threads},
          {"n_ubatch", s.step_tokens},
          {"type_k", s.kv_type},
          {"type_v", s.kv_type},
          {"load_ns", static_cast<uint64_t>(s.load_seconds * 1e9)},
          {"host_peak_bytes", s.host_peak_bytes},
          {"device_peak_bytes", device_peak}};
}

json::object record_json(const Record& r) {
  json::object out = subject_fields(r);
  const std::vector<double> speeds = r.speeds();
  const app::Summary ts = app::summarize(speeds);
  const app::Summary time = app::summarize(r.seconds);
  out["test"] = r.test.name();
  out["n_prompt"] = r.test.prompt;
  out["n_gen"] = r.test.generate;
  out["n_depth"] = r.test.depth;
  out["n_batch"] = r.test.batch;
  out["n_beside"] = r.test.beside;
  out["n_tokens"] = r.tokens;
  out["avg_ns"] = static_cast<uint64_t>(time.mean * 1e9 + 0.5);
  out["stddev_ns"] = static_cast<uint64_t>(time.deviation * 1e9 + 0.5);
  out["avg_ts"] = ts.mean;
  out["stddev_ts"] = ts.deviation;
  out["median_ts"] = ts.median;
  out["min_ts"] = ts.range.low;
  out["max_ts"] = ts.range.high;
  out["samples_ns"] = nanoseconds(r.seconds);
  out["samples_ts"] = json::value_from(speeds);
  out["first_token_ns"] = nanoseconds(r.first_token);
  out["run_bytes"] = r.work.bytes;
  out["run_flops"] = r.work.flops;
  out["bytes_per_second"] = r.bytes_per_second();
  out["flops_per_second"] = r.flops_per_second();
  out["copy_ceiling"] = r.ceilings.copy_bytes_per_second;
  out["copy_ceiling_how"] = r.ceilings.copy_how;
  out["copy_share"] = share(r.bytes_per_second(), r.ceilings.copy_bytes_per_second);
  out["product_ceiling"] = r.ceilings.flops_per_second;
  out["product_ceiling_how"] = r.ceilings.product_how;
  out["product_share"] = share(r.flops_per_second(), r.ceilings.flops_per_second);
  out["kernels"] = kernels_json(r.kernels);
  return out;
}

/// A field as one cell: lists joined with ';', kernels by their label.
std::string cell_text(const json::value& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return std::string(value.get_string());
  if (value.is_object()) return cell_text(value.get_object().at("kernel"));
  if (!value.is_array()) return json::serialize(value);
  std::string out;
  for (const json::value& item : value.get_array())
    out += (out.empty() ? "" : ";") + cell_text(item);
  return out;
}

/// Quoted as RFC 4180 says, always, as llama-bench does.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string csv_text(std::span<const Record> records) {
  std::string out;
  for (const Record& r : records) {
    const json::object fields = record_json(r);
    std::string names;
    std::string cells;
    for (const auto& [name, value] : fields) {
      names += (names.empty() ? "" : ",") + std::string(name);
      cells += (cells.empty() ? "" : ",") + quoted(cell_text(value));
    }
    out += (out.empty() ? names + "\n" : "") + cells + "\n";
  }
  return out;
}

std::string json_text(std::span<const Record> records) {
  json::array tests;
  for (const Record& r : records) tests.push_back(record_json(r));
  const std::time_t now = std::time(nullptr);
  const json::object root = {{"schema_version", kSchemaVersion},
                             {"minfer_version", MINFER_RELEASE},
                             {"test_time", fmt::format("{:%FT%TZ}", fmt::gmtime(now))},
                             {"host_threads", std::thread::hardware_concurrency()},
                             {"tests", std::move(tests)}};
  return json::serialize(root) + "\n";
}

}  // namespace minfer::bench
