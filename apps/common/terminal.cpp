#include "terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

namespace minfer::app {
namespace {

std::atomic<bool> progress_drawn = false;

void prepare_streams() {
  signal(SIGPIPE, SIG_IGN);
  // Opened the wrong way round, so that using them still fails.
  if (fcntl(STDIN_FILENO, F_GETFD) < 0) (void)!open("/dev/null", O_WRONLY);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", O_RDONLY);
}

Result<int> run_caught(int argc, char** argv, Result<int> (*command)(int, char**)) {
  try {
    return command(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "host memory is not enough");
  } catch (const std::exception& e) {
    return fail(ErrorCode::kInternal, e.what());
  }
}

/// Whether errors are to be JSON; the command line may be otherwise wrong.
bool wants_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i)
    if (argv[i] == std::string_view("--json")) return true;
  return false;
}

}  // namespace

int run_program(const char* name, int argc, char** argv, Result<int> (*command)(int, char**)) {
  prepare_streams();
  const auto status = run_caught(argc, argv, command);
  return status ? *status : report(name, status.error(), wants_json(argc, argv));
}

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void log_to_stderr(std::string_view program, LogLevel level) {
  set_log_sink([level, program = std::string(program)](LogLevel at, std::string_view line) {
    if (at < level) return;
    const std::string_view mark = at == LogLevel::kError  ? "error: "
                                  : at == LogLevel::kWarn ? "warning: "
                                                          : "";
    clear_progress();
    say(fmt::format("{}: {}{}\n", program, mark, line));
  });
}

int report(std::string_view program, const Error& error, bool json) {
  const int status = exit_status(error.code);
  clear_progress();
  if (json)
    say(boost::json::serialize(boost::json::object{{"code", error_code_name(error.code)},
                                                   {"message", error.message()},
                                                   {"exit_status", status}}) +
        "\n");
  else
    say(fmt::format("{}: error: {}\n", program, error.message()));
  return status;
}

std::function<void(uint64_t, uint64_t)> progress_line(bool quiet) {
  if (quiet || !isatty(STDERR_FILENO)) return {};
  return [last = -1](uint64_t done, uint64_t total) mutable {
    const int percent = total ? static_cast<int>(done * 100 / total) : 100;
    if (percent == last) return;
    last = percent;
    if (percent >= 100) return clear_progress();
    say(fmt::format("\rloading weights {} %", percent));
    std::fflush(stderr);
    progress_drawn = true;
  };
}

void clear_progress() {
  if (!progress_drawn.exchange(false)) return;
  say("\r\033[K");
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
