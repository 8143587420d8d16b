#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace conformance {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

/// Writes one line of JSON for each finding.
class PipeListener : public Listener {
 public:
  explicit PipeListener(int fd) : fd_(fd) {}
  void variant(const std::string& label) override { send({{"variant", label}}); }
  void failed(const std::string& text) override { send({{"failed", text}}); }
  void refused(const std::string& reason) override { send({{"refused", reason}}); }
  void note(const std::string& text) override { send({{"note", text}}); }
  void end() { send({{"end", true}}); }
  void figure(const std::string& name, double value, const std::string& unit) override {
    send({{"figure", name}, {"value", value}, {"unit", unit}});
  }

 private:
  void send(const json::object& record) {
    const std::string line = json::serialize(record) + "\n";
    const std::lock_guard lock(mutex_);
    for (size_t at = 0; at < line.size();) {
      const ssize_t n = ::write(fd_, line.data() + at, line.size() - at);
      if (n <= 0) ::_exit(1);  // the parent has gone
      at += static_cast<size_t>(n);
    }
  }

  int fd_;
  std::mutex mutex_;
};

[[noreturn]] void be_child(const Check& check, const Target& target, int pipe_fd, int text_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::dup2(text_fd, STDOUT_FILENO);
  ::dup2(text_fd, STDERR_FILENO);
  static PipeListener* to_parent = new PipeListener(pipe_fd);
  set_listener(*to_parent);
  try {
    check.run(target);
  } catch (const Refused& refused) {
    to_parent->refused(refused.reason);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  to_parent->end();
  if (check.exits) std::exit(0);
  ::_exit(0);
}

/// Takes what the child says into a result.
class Reader {
 public:
  explicit Reader(CheckResult& result) : result_(result) {}

  void take(std::string_view bytes) {
    rest_ += bytes;
    for (size_t end; (end = rest_.find('\n')) != std::string::npos; rest_.erase(0, end + 1)) {
      take_record(json::parse(std::string_view(rest_).substr(0, end)).as_object());
    }
  }
  /// The variant that was running when the child ended, or empty.
  const std::string& variant() const { return variant_; }
  /// The check came to its end; a child that exited before was made to.
  bool ended() const { return ended_; }

 private:
  static std::string text(const json::object& record, const char* key) {
    return std::string(record.at(key).as_string());
  }

  void take_record(const json::object& record) {
    if (record.contains("variant")) {
      variant_ = text(record, "variant");
      if (!variant_.empty()) ++result_.variants;
    } else if (record.contains("failed")) {
      ++result_.failures;
      if (result_.texts.size() < kMaxTexts) result_.texts.push_back(text(record, "failed"));
    } else if (record.contains("refused")) {
      ++result_.refused;
      const std::string reason = text(record, "refused");
      auto& reasons = result_.reasons;
      if (reasons.size() < kMaxTexts &&
          std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
        reasons.push_back(reason);
    } else if (record.contains("note")) {
      result_.notes.push_back(text(record, "note"));
    } else if (record.contains("figure")) {
      result_.figures.push_back(
          {text(record, "figure"), record.at("value").to_number<double>(), text(record, "unit")});
    } else if (record.contains("end")) {
      ended_ = true;
    }
  }

  CheckResult& result_;
  std::string rest_;
  std::string variant_;
  bool ended_ = false;
};

/// Reads until the child closes the pipe; false at the deadline.
bool read_all(int fd, Reader& reader, Clock::time_point deadline) {
  char buffer[4096];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    if (left <= 0) return false;
    if (::poll(&wait, 1, static_cast<int>(std::min<int64_t>(left, 1'000'000))) <= 0) continue;
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) return true;
    reader.take({buffer, static_cast<size_t>(n)});
  }
}

/// Waits for the child's end; false at the deadline.
bool wait_for(pid_t child, int& status, Clock::time_point deadline) {
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) return false;
    ::usleep(1000);
  }
  return true;
}

std::string printed(int text_fd) {
  char buffer[400];
  const ssize_t n = ::pread(text_fd, buffer, sizeof buffer, 0);
  std::string text(buffer, n > 0 ? static_cast<size_t>(n) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void judge(CheckResult& result, int status, bool in_time, const Reader& reader,
           std::chrono::seconds limit) {
  const std::string where = reader.variant().empty() ? "" : " in " + reader.variant();
  const auto died = [&](Outcome outcome, const std::string& how) {
    result.outcome = outcome;
    ++result.failures;
    result.texts.insert(result.texts.begin(), how + where);
  };
  if (!in_time) {
    died(Outcome::kHung, fmt::format("still running after {} s", limit.count()));
  } else if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    died(Outcome::kCrashed, fmt::format("ended by SIG{}", name != nullptr ? name : "?"));
  } else if (!reader.ended() || WEXITSTATUS(status) != 0) {
    died(Outcome::kCrashed, fmt::format("left by exit({})", WEXITSTATUS(status)));
  } else if (result.failures > 0) {
    result.outcome = Outcome::kFailed;
  } else if (result.refused > 0 && result.refused >= result.variants) {
    result.outcome = Outcome::kSkipped;
  } else {
    result.outcome = Outcome::kPassed;
  }
}

}  // namespace

CheckResult run_in_child(const Check& check, const Target& target, std::chrono::seconds limit) {
  CheckResult result;
  result.name = check.name;
  result.what = check.what;
  int pipe_fds[2];
  const int text_fd = ::memfd_create("printed", MFD_CLOEXEC);
  if (text_fd < 0 || ::pipe2(pipe_fds, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(std::string("no child process: ") + std::strerror(errno));
  if (child == 0) {
    ::close(pipe_fds[0]);
    be_child(check, target, pipe_fds[1], text_fd);
  }
  ::close(pipe_fds[1]);
  Reader reader(result);
  const auto deadline = start + limit;
  int status = 0;
  const bool in_time = read_all(pipe_fds[0], reader, deadline) && wait_for(child, status, deadline);
  if (!in_time) {
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  ::close(pipe_fds[0]);
  judge(result, status, in_time, reader, limit);
  if (const std::string text = printed(text_fd); !text.empty())
    result.notes.push_back("it printed: " + text);
  ::close(text_fd);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace conformance
