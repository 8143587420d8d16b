// A trace: what happened when, for programs that draw time lines.
//
// Spans lie on tracks ("host", "cuda:0"). chrome_json() gives them in Chrome's trace event format
// (complete events), which chrome://tracing and Perfetto open. Holds at most kMaxTraceSpans; later
// ones are counted and dropped. Allocates; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace minfer {

inline constexpr size_t kMaxTraceSpans = 4'000'000;

class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  /// Belongs to a span: {"bytes", 4096}. The name is a literal.
  using Number = std::pair<const char*, uint64_t>;

  /// `category`: "plan", "load", "step", "run", "copy", "wait" or "node"; a literal.
  void add(std::string_view track, std::string name, const char* category, Clock::time_point begin,
           Clock::time_point end, std::vector<Number> numbers = {});
  uint64_t dropped() const;
  std::string chrome_json() const;

 private:
  struct Span {
    uint32_t track;
    const char* category;
    std::string name;
    double begin;     ///< microseconds since the trace was made
    double duration;  ///< microseconds
    std::vector<Number> numbers;
  };

  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<std::string> tracks_;
  std::vector<Span> spans_;
  uint64_t dropped_ = 0;
};

/// Adds a span from here to the end of the scope; without a trace it does nothing and allocates
/// nothing.
class TraceScope {
 public:
  TraceScope(Trace* trace, std::string_view name, const char* category,
             std::initializer_list<Trace::Number> numbers = {})
      : trace_(trace), category_(category) {
    if (!trace_) return;
    name_ = name;
    numbers_ = numbers;
    begin_ = Trace::Clock::now();
  }
  ~TraceScope() {
    if (trace_)
      trace_->add("host", std::move(name_), category_, begin_, Trace::Clock::now(),
                  std::move(numbers_));
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace* trace_;
  const char* category_;
  std::string name_;
  std::vector<Trace::Number> numbers_;
  Trace::Clock::time_point begin_;
};

}  // namespace minfer
