// The forms for people: one set of rows, printed as a terminal's table or as Markdown.
#include "report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "terminal.h"

namespace minfer::bench {
namespace {

using Row = std::vector<std::string>;

/// The model as llama-bench names it: architecture, size, type.
std::string model_text(const Subject& s) {
  const auto n = static_cast<double>(s.parameters);
  const std::string size =
      n >= 1e9 ? fmt::format("{:.2f} B", n / 1e9) : fmt::format("{:.2f} M", n / 1e6);
  return fmt::format("{} {} {}", s.architecture, size, s.quantization);
}

/// "12.3 (45 %)", or without a share where there is no ceiling.
std::string with_share(double value, double ceiling, double unit) {
  if (ceiling <= 0) return fmt::format("{:.1f}", value / unit);
  return fmt::format("{:.1f} ({:.0f} %)", value / unit, 100 * value / ceiling);
}

std::string devices_text(const Record& r) {
  return fmt::format("{}{}", fmt::join(r.devices, "+"), r.fallbacks.empty() ? "" : " *");
}

const Row kHeader = {"model",  "size",  "device", "test",    "t/s",
                     "median", "range", "GB/s",   "GFLOP/s", "first token"};

Row row_of(const Record& r) {
  const std::vector<double> speeds = r.speeds();
  const app::Summary s = app::summarize(speeds);
  return {model_text(*r.subject),
          app::bytes_text(r.subject->file_bytes),
          devices_text(r),
          r.test.name(),
          fmt::format("{:.2f} ± {:.2f}", s.mean, s.deviation),
          fmt::format("{:.2f}", s.median),
          fmt::format("{:.2f} to {:.2f}", s.range.low, s.range.high),
          with_share(r.bytes_per_second(), r.ceilings.copy_bytes_per_second, 1e9),
          with_share(r.flops_per_second(), r.ceilings.flops_per_second, 1e9),
          r.first_token.empty() ? "-" : fmt::format("{:.1f} ms", app::median(r.first_token) * 1e3)};
}

/// Characters, not bytes: "±" takes two.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

std::string lines_of(std::span<const Record> records, bool markdown) {
  std::vector<Row> rows = {kHeader};
  for (const Record& r : records) rows.push_back(row_of(r));
  std::vector<size_t> widths(kHeader.size(), 0);
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  constexpr size_t kFirstNumber = 4;
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string line = markdown ? "| " : "";
    for (size_t c = 0; c < rows[i].size(); ++c) {
      if (c > 0) line += markdown ? " | " : "  ";
      line += padded(rows[i][c], widths[c], c >= kFirstNumber);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + (markdown ? " |\n" : "\n");
    if (!markdown || i > 0) continue;
    for (size_t c = 0; c < widths.size(); ++c)
      out += fmt::format("| {}{} ", std::string(widths[c] - 1, '-'), c >= kFirstNumber ? ":" : "-");
    out += "|\n";
  }
  return out;
}

/// "cpu:0: matmul …, attention …": the device and its heavy kernels.
std::string kernels_text(const Record& r) {
  std::set<std::string> labels;
  for (const OpTiming& k : r.kernels)
    if (k.op == "MatMul" || k.op == "MatMulById" || k.op == "Attention") labels.insert(k.kernel);
  return fmt::format("{}: {}", fmt::join(r.devices, "+"), fmt::join(labels, ", "));
}

/// A line for each set of kernels, with the tests that ran them.
std::vector<std::string> kernel_notes(std::span<const Record> records) {
  std::map<std::string, std::vector<std::string>> tests;
  for (const Record& r : records) {
    auto& names = tests[kernels_text(r)];
    if (std::find(names.begin(), names.end(), r.test.name()) == names.end())
      names.push_back(r.test.name());
  }
  std::vector<std::string> out;
  for (const auto& [kernels, names] : tests)
    out.push_back(fmt::format("kernels on {} ({})", kernels, fmt::join(names, ", ")));
  return out;
}

/// What stands below the table, a fact on a line.
std::vector<std::string> notes_of(std::span<const Record> records) {
  std::vector<std::string> out = kernel_notes(records);
  std::set<std::string> seen;
  const auto add = [&](std::string line) {
    if (seen.insert(line).second) out.push_back(std::move(line));
  };
  for (const Record& r : records) {
    for (const std::string& fallback : r.fallbacks)
      add(fmt::format("* {} on {}: {}", r.test.name(), fmt::join(r.devices, "+"), fallback));
  }
  for (const Record& r : records) {
    if (r.ceilings.copy_how.empty()) continue;
    const std::string device = fmt::format("{}", fmt::join(r.devices, "+"));
    add(fmt::format("ceilings of {}: copy {:.1f} GB/s ({}), matrix product {:.1f} GFLOP/s ({})",
                    device, r.ceilings.copy_bytes_per_second / 1e9, r.ceilings.copy_how,
                    r.ceilings.flops_per_second / 1e9, r.ceilings.product_how));
  }
  for (const Record& r : records) {
    const Subject& s = *r.subject;
    std::string peaks;
    for (const DevicePeak& p : s.device_peaks)
      peaks += fmt::format(", {} {}", p.device, app::bytes_text(p.bytes));
    add(fmt::format("{}{}: loaded in {:.2f} s, peak memory host {}{}", s.model,
                    s.asked.empty() ? "" : " on " + s.asked, s.load_seconds,
                    app::bytes_text(s.host_peak_bytes), peaks));
  }
  return out;
}

}  // namespace

std::string table_text(std::span<const Record> records) {
  return fmt::format("{}\n{}\n", lines_of(records, false), fmt::join(notes_of(records), "\n"));
}

std::string markdown_text(std::span<const Record> records) {
  std::string out = lines_of(records, true) + "\n";
  for (std::string note : notes_of(records)) {
    if (note.starts_with("* ")) note.replace(0, 2, "\\* ");
    out += "- " + note + "\n";
  }
  return out;
}

}  // namespace minfer::bench
