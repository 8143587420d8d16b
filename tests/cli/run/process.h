// A program that runs while the test looks on: its streams are pipes or terminals, it can be sent
// signals, and its reader can walk away.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace minfer {

/// What each standard stream of the program is.
struct Streams {
  bool in_terminal = false;  ///< else nothing to read
  bool out_terminal = false;
  bool err_terminal = false;
  int out_pipe_bytes = 0;  ///< capacity of the pipe; 0: the system's
};

class Process {
 public:
  Process(const std::string& tool, const std::vector<std::string>& arguments,
          Streams streams = {}) {
    const Ends in = streams.in_terminal ? terminal() : from_nothing();
    const Ends out = streams.out_terminal ? terminal() : pipe_to_test(streams.out_pipe_bytes);
    const Ends err = streams.err_terminal ? terminal() : pipe_to_test(0);
    pid_ = ::fork();
    if (pid_ == 0) {
      // What a test runner has ignored would stay ignored.
      ::signal(SIGINT, SIG_DFL);
      ::dup2(in.theirs, STDIN_FILENO);
      ::dup2(out.theirs, STDOUT_FILENO);
      ::dup2(err.theirs, STDERR_FILENO);
      std::vector<char*> argv = {const_cast<char*>(tool.c_str())};
      for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      ::execv(tool.c_str(), argv.data());
      ::_exit(127);
    }
    for (const Ends& ends : {in, out, err}) ::close(ends.theirs);
    in_ = in.ours;
    out_ = {out.ours, {}};
    err_ = {err.ours, {}};
  }
  ~Process() {
    if (!waited_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    for (const int fd : {in_, out_.fd, err_.fd})
      if (fd >= 0) ::close(fd);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& out() const { return out_.text; }
  const std::string& err() const { return err_.text; }
  /// User and system time, after wait().
  double cpu_seconds() const { return cpu_seconds_; }

  void signal(int number) { ::kill(pid_, number); }
  void close_out() { ::close(std::exchange(out_.fd, -1)); }

  /// Reads until standard error holds `text`; false at the deadline or end.
  bool wait_for_err(const std::string& text) {
    while (err_.text.find(text) == std::string::npos)
      if (!read_some()) return false;
    return true;
  }
  /// Reads until standard output has given that many bytes.
  bool wait_for_out_bytes(size_t n) {
    while (out_.text.size() < n)
      if (!read_some()) return false;
    return true;
  }

  /// Reads both outputs to their end and returns the exit status, or 128 + the signal.
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    rusage usage{};
    const auto end = Clock::now() + kPatience;
    while (::wait4(pid_, &status, WNOHANG, &usage) == 0) {
      if (Clock::now() > end) {
        ADD_FAILURE() << "the program hangs";
        return -1;
      }
      ::usleep(1000);
    }
    waited_ = true;
    cpu_seconds_ = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPatience{120};

  struct Ends {
    int ours = -1;
    int theirs = -1;
  };
  struct Stream {
    int fd = -1;
    std::string text;
  };

  static double seconds(const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  static Ends from_nothing() { return {-1, ::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }
  static Ends pipe_to_test(int bytes) {
    int fds[2] = {-1, -1};
    if (::pipe2(fds, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    if (bytes > 0) ::fcntl(fds[0], F_SETPIPE_SZ, bytes);
    return {fds[0], fds[1]};
  }
  static Ends terminal() {
    const int ours = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ours < 0 || ::grantpt(ours) != 0 || ::unlockpt(ours) != 0) ADD_FAILURE() << "no terminal";
    return {ours, ::open(::ptsname(ours), O_RDWR | O_NOCTTY | O_CLOEXEC)};
  }

  /// Reads what is there; false when both outputs have ended or the deadline has passed.
  bool read_some() {
    pollfd fds[] = {{out_.fd, POLLIN, 0}, {err_.fd, POLLIN, 0}};
    if (out_.fd < 0 && err_.fd < 0) return false;
    if (::poll(fds, 2, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0) {
      ADD_FAILURE() << "the program says nothing";
      return false;
    }
    if (fds[0].revents != 0) read_from(out_);
    if (fds[1].revents != 0) read_from(err_);
    return true;
  }
  static void read_from(Stream& stream) {
    char buffer[4096];
    const ssize_t n = ::read(stream.fd, buffer, sizeof buffer);
    if (n > 0)
      stream.text.append(buffer, static_cast<size_t>(n));
    else  // a terminal that everyone has left reads as an error
      ::close(std::exchange(stream.fd, -1));
  }

  pid_t pid_ = -1;
  bool waited_ = false;
  double cpu_seconds_ = 0;
  int in_ = -1;
  Stream out_;
  Stream err_;
};

}  // namespace minfer
