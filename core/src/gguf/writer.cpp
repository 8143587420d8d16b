#include "gguf/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace minfer {

GgufWriter::GgufWriter(uint32_t alignment, uint32_t version)
    : version_(version), alignment_(alignment) {
  if (alignment_ != 32) add("general.alignment", alignment_);
}

GgufWriter::~GgufWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(part_path_.c_str());
}

void GgufWriter::append_string(std::string& out, std::string_view text) {
  append<uint64_t>(out, text.size());
  out.append(text);
}

void GgufWriter::begin_value(std::string_view key, GgufKind kind) {
  append_string(metadata_, key);
  append(metadata_, static_cast<uint32_t>(kind));
  ++n_keys_;
}

void GgufWriter::begin_array(std::string_view key, GgufKind element, uint64_t count) {
  begin_value(key, GgufKind::kArray);
  append(metadata_, static_cast<uint32_t>(element));
  append(metadata_, count);
}

void GgufWriter::add(std::string_view key, std::string_view text) {
  begin_value(key, GgufKind::kString);
  append_string(metadata_, text);
}

void GgufWriter::add_array(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufKind::kString, values.size());
  for (const std::string& value : values) append_string(metadata_, value);
}

void GgufWriter::add_tensor(std::string_view name, const TypeInfo& type,
                            std::span<const int64_t> ne) {
  append_string(infos_, name);
  append(infos_, static_cast<uint32_t>(ne.size()));
  uint64_t elements = 1;
  for (const int64_t extent : ne) {
    append(infos_, extent);
    elements *= static_cast<uint64_t>(extent);
  }
  append(infos_, type.id);
  data_bytes_ += padding(data_bytes_);
  append(infos_, data_bytes_);
  const uint64_t bytes = elements / type.block_elements * type.block_bytes;
  tensors_.push_back({std::string(name), bytes});
  data_bytes_ += bytes;
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  append(out, version_);
  append<uint64_t>(out, tensors_.size());
  append(out, n_keys_);
  out += metadata_;
  out += infos_;
  out.append(padding(out.size()), '\0');
  return out;
}

Result<void> GgufWriter::open(const std::filesystem::path& path) {
  path_ = path;
  part_path_ = path;
  part_path_ += ".part";
  fd_ = ::open(part_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot create the file: {}", std::strerror(errno)),
                part_path_.string());
  }
  const std::string head = header();
  return write_all(head.data(), head.size());
}

Result<void> GgufWriter::write(std::span<const uint8_t> data) {
  if (current_ == tensors_.size() || data.size() > tensors_[current_].bytes - current_bytes_) {
    return fail(ErrorCode::kInternal, "more data than the declared tensors hold", path_.string());
  }
  MINFER_TRY(write_all(data.data(), data.size()));
  current_bytes_ += data.size();
  if (current_bytes_ < tensors_[current_].bytes) return {};
  const uint64_t pad = padding(current_bytes_);
  current_bytes_ = 0;
  if (++current_ == tensors_.size()) return {};
  const std::string zeros(pad, '\0');
  return write_all(zeros.data(), zeros.size());
}

Result<void> GgufWriter::finish() {
  if (current_ != tensors_.size()) {
    return fail(ErrorCode::kInternal,
                fmt::format("data of tensor '{}' is missing", tensors_[current_].name),
                path_.string());
  }
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0 || ::rename(part_path_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    ::unlink(part_path_.c_str());
    return fail(ErrorCode::kIo, fmt::format("cannot finish the file: {}", std::strerror(code)),
                path_.string());
  }
  return {};
}

Result<void> GgufWriter::write_all(const void* data, uint64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, from, std::min<uint64_t>(bytes, 1u << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return fail(ErrorCode::kIo, fmt::format("cannot write: {}", std::strerror(errno)),
                  part_path_.string(), "is the disk full?");
    }
    from += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return {};
}

}  // namespace minfer
