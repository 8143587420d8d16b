#include "files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace minfer::app {
namespace {

constexpr size_t kChunk = size_t{1} << 16;

/// An open file that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

tl::unexpected<Error> system_error(const char* what, const std::string& where) {
  return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              fmt::format("{}: {}", what, std::strerror(errno)), where);
}

Result<std::string> read_all(int fd, size_t max_bytes, const std::string& where) {
  std::string bytes;
  while (true) {
    const size_t had = bytes.size();
    bytes.resize(had + kChunk);
    const ssize_t n = ::read(fd, bytes.data() + had, kChunk);
    bytes.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot be read", where);
    if (n == 0) return bytes;
    if (bytes.size() > max_bytes)
      return fail(ErrorCode::kUsage, fmt::format("has more than {} bytes", max_bytes), where);
  }
}

/// False with errno set when not all could be written.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

int open_for_writing(const std::filesystem::path& path, int extra) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | extra, 0666);
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, size_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error("cannot be opened", path.string());
  return read_all(file.get(), max_bytes, path.string());
}

Result<std::string> read_standard_input(size_t max_bytes) {
  return read_all(STDIN_FILENO, max_bytes, "standard input");
}

Result<void> write_file(const std::filesystem::path& path, std::string_view bytes) {
  Descriptor file(open_for_writing(path, O_TRUNC));
  if (file.get() < 0 || !write_all(file.get(), bytes) || !file.close())
    return fail(ErrorCode::kIo, fmt::format("cannot be written: {}", std::strerror(errno)),
                path.string());
  return {};
}

Result<void> check_writable(const std::filesystem::path& path) {
  const Descriptor file(open_for_writing(path, 0));
  if (file.get() < 0)
    return fail(ErrorCode::kIo, fmt::format("cannot be written: {}", std::strerror(errno)),
                path.string());
  return {};
}

Result<bool> write_out(std::string_view text) {
  if (write_all(STDOUT_FILENO, text)) return true;
  if (errno == EPIPE) return false;
  return fail(ErrorCode::kIo, fmt::format("cannot be written: {}", std::strerror(errno)),
              "standard output");
}

Result<int> print(std::string_view text) {
  MINFER_TRY(write_out(text));
  return 0;
}

}  // namespace minfer::app
