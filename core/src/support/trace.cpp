#include "minfer/trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace minfer {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

double microseconds(Trace::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

void Trace::add(std::string_view track, std::string name, const char* category,
                Clock::time_point begin, Clock::time_point end, std::vector<Number> numbers) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() >= kMaxTraceSpans) {
    ++dropped_;
    return;
  }
  auto found = std::find(tracks_.begin(), tracks_.end(), track);
  if (found == tracks_.end()) found = tracks_.emplace(tracks_.end(), track);
  spans_.push_back({static_cast<uint32_t>(found - tracks_.begin()), category, std::move(name),
                    microseconds(begin - start_), microseconds(end - begin), std::move(numbers)});
}

uint64_t Trace::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::string Trace::chrome_json() const {
  const std::lock_guard lock(mutex_);
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t t = 0; t < tracks_.size(); ++t)
    out += fmt::format(
        "{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}},"
        "\n",
        t, quoted(tracks_[t]));
  for (const Span& span : spans_) {
    out += fmt::format(
        "{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"cat\":\"{}\",\"name\":{"
        "}",
        span.track, span.begin, span.duration, span.category, quoted(span.name));
    std::string numbers;
    for (const auto& [key, value] : span.numbers)
      numbers += fmt::format("{}\"{}\":{}", numbers.empty() ? "" : ",", key, value);
    out += numbers.empty() ? "},\n" : fmt::format(",\"args\":{{{}}}}},\n", numbers);
  }
  out += fmt::format(
      "{{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{{\"name\":\"minfer\","
      "\"dropped\":{}"
      "}}}}\n]}}\n",
      dropped_);
  return out;
}

}  // namespace minfer
