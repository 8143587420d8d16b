#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <cstdio>

namespace minfer::app {
namespace {

std::atomic<bool> progress_drawn = false;

}  // namespace

void log_to_stderr(std::string_view program, LogLevel level) {
  set_log_sink([level, program = std::string(program)](LogLevel at, std::string_view line) {
    if (at < level) return;
    const std::string_view mark = at == LogLevel::kError  ? "error: "
                                  : at == LogLevel::kWarn ? "warning: "
                                                          : "";
    clear_progress();
    fmt::print(stderr, "{}: {}{}\n", program, mark, line);
  });
}

int report(std::string_view program, const Error& error, bool json) {
  const int status = exit_status(error.code);
  clear_progress();
  if (json)
    fmt::print(stderr, "{}\n",
               boost::json::serialize(boost::json::object{{"code", error_code_name(error.code)},
                                                          {"message", error.message()},
                                                          {"exit_status", status}}));
  else
    fmt::print(stderr, "{}: error: {}\n", program, error.message());
  return status;
}

std::function<void(uint64_t, uint64_t)> progress_line(bool quiet) {
  if (quiet || !isatty(STDERR_FILENO)) return {};
  return [last = -1](uint64_t done, uint64_t total) mutable {
    const int percent = total ? static_cast<int>(done * 100 / total) : 100;
    if (percent == last) return;
    last = percent;
    if (percent >= 100) return clear_progress();
    fmt::print(stderr, "\rloading weights {} %", percent);
    std::fflush(stderr);
    progress_drawn = true;
  };
}

void clear_progress() {
  if (!progress_drawn.exchange(false)) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1u << 30));
  if (bytes >= 1u << 20) return fmt::format("{:.1f} MiB", value / (1u << 20));
  if (bytes >= 1u << 10) return fmt::format("{:.1f} KiB", value / (1u << 10));
  return fmt::format("{} B", bytes);
}

}  // namespace minfer::app
