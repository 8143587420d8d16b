#include "graphviz.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "files.h"

extern char** environ;

namespace minfer::run {
namespace {

/// Both ends of a pipe.
struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  static void close_end(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

/// Starts dot with the pipe as its standard input.
Result<pid_t> start_dot(const std::string& output, const Pipe& pipe) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, pipe.read_end, STDIN_FILENO);
  posix_spawn_file_actions_addclose(&files, pipe.write_end);
  std::string arguments[] = {"dot", "-Tsvg", "-o", output};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), nullptr};
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, "dot", &files, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed == 0) return pid;
  return fail(ErrorCode::kNotFound, "the program 'dot' cannot be started", "--dump-graph",
              "install graphviz, or name a file that does not end in .svg to get DOT text");
}

/// False when dot stops reading, which its exit status then explains.
bool write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

Result<void> draw(const std::string& output, const std::string& dot) {
  Pipe pipe;
  int ends[2];
  if (::pipe(ends) != 0) return fail(ErrorCode::kIo, "cannot make a pipe", "--dump-graph");
  pipe.read_end = ends[0];
  pipe.write_end = ends[1];
  MINFER_ASSIGN(const pid_t pid, start_dot(output, pipe));
  Pipe::close_end(pipe.read_end);
  const bool written = write_all(pipe.write_end, dot);
  Pipe::close_end(pipe.write_end);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (written && WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(ErrorCode::kIo,
              WIFEXITED(status) ? fmt::format("dot ended with status {}", WEXITSTATUS(status))
                                : "dot was ended by a signal",
              output);
}

}  // namespace

Result<void> write_graph(const std::filesystem::path& path, const std::string& dot) {
  if (path.extension() != ".svg") return app::write_file(path, dot);
  MINFER_TRY(app::check_writable(path));
  return draw(path.string(), dot);
}

}  // namespace minfer::run
