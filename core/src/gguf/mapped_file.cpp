#include "gguf/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace minfer {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> os_failure(std::string_view action, const std::filesystem::path& path) {
  const int code = errno;
  const bool absent = code == ENOENT || code == ENOTDIR;
  return fail(absent ? ErrorCode::kNotFound : ErrorCode::kIo,
              fmt::format("cannot {}: {}", action, std::strerror(code)), path.string(),
              absent ? "check the path of the model" : "");
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it changes nothing for regular files.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return os_failure("open the file", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return os_failure("read the file's size", path);
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kIo,
                S_ISDIR(info.st_mode) ? "is a directory, expected a GGUF file"
                                      : "is not a regular file, expected a GGUF file",
                path.string(), "give the path of the .gguf file itself");
  }
  if (info.st_size == 0) {
    return fail(ErrorCode::kBadModel, "the file is empty, expected a GGUF file", path.string(),
                "download it again");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return os_failure(fmt::format("map {} bytes", size), path);
  return MappedFile(static_cast<const uint8_t*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

void MappedFile::release(uint64_t offset, uint64_t bytes) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = (offset + page - 1) / page * page;
  const uint64_t last = (offset + bytes) / page * page;
  // Advice only: failure changes nothing but memory use.
  if (first < last) ::madvise(const_cast<uint8_t*>(data_) + first, last - first, MADV_DONTNEED);
}

}  // namespace minfer
