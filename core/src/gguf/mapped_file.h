// A file mapped read-only into memory. Immutable after open; unmapped on destruction.
#pragma once

#include <cstdint>
#include <filesystem>

#include "minfer/result.h"

namespace minfer {

class MappedFile {
 public:
  /// Maps a regular file whole. Nothing is read until it is touched. The file must not shrink while
  /// it is mapped: the system answers a touch beyond its end with SIGBUS.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }

  /// Lets the system drop the pages that lie wholly inside [offset, offset + bytes) from this
  /// process; touching them again reads them back.
  void release(uint64_t offset, uint64_t bytes) const;

 private:
  MappedFile(const uint8_t* data, uint64_t size) : data_(data), size_(size) {}

  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace minfer
