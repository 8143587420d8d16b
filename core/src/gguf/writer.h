// Writes GGUF version 3 files: metadata first, then tensor data as a stream.
//
// Declare keys and tensors, then `open`, then `write` the data of the tensors in the order of their
// declaration, in pieces of any size, then `finish`. Data goes to "PATH.part", which `finish`
// renames, so that a half-written file never has the final name. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "minfer/gguf.h"

namespace minfer {

/// The value kind that stores a C++ number of type T.
template <class T>
constexpr GgufKind gguf_kind_of() {
  if constexpr (std::is_same_v<T, bool>) return GgufKind::kBool;
  if constexpr (std::is_same_v<T, uint8_t>) return GgufKind::kU8;
  if constexpr (std::is_same_v<T, int8_t>) return GgufKind::kI8;
  if constexpr (std::is_same_v<T, uint16_t>) return GgufKind::kU16;
  if constexpr (std::is_same_v<T, int16_t>) return GgufKind::kI16;
  if constexpr (std::is_same_v<T, uint32_t>) return GgufKind::kU32;
  if constexpr (std::is_same_v<T, int32_t>) return GgufKind::kI32;
  if constexpr (std::is_same_v<T, float>) return GgufKind::kF32;
  if constexpr (std::is_same_v<T, uint64_t>) return GgufKind::kU64;
  if constexpr (std::is_same_v<T, int64_t>) return GgufKind::kI64;
  if constexpr (std::is_same_v<T, double>) return GgufKind::kF64;
}

class GgufWriter {
 public:
  /// `alignment`: of tensor data, in bytes; a power of two. Stored when it is not the default
  /// of 32.
  explicit GgufWriter(uint32_t alignment = 32, uint32_t version = 3);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  /// Adds a number or bool, stored as the kind of T.
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(std::string_view key, T value) {
    begin_value(key, gguf_kind_of<T>());
    append(metadata_, value);
  }
  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, const char* text) { add(key, std::string_view(text)); }

  /// Adds an array of numbers, stored as the kind of T.
  template <class T>
  requires std::is_arithmetic_v<T>
  void add_array(std::string_view key, std::span<const T> values) {
    begin_array(key, gguf_kind_of<T>(), values.size());
    for (const T value : values) append(metadata_, value);
  }
  void add_array(std::string_view key, std::span<const std::string> values);

  /// Declares the next tensor: dimensions innermost first, rows whole blocks of the type.
  void add_tensor(std::string_view name, const TypeInfo& type, std::span<const int64_t> ne);

  /// Bytes of everything before the tensor data, padding included.
  std::string header() const;
  /// Bytes that the data of the tensors takes, padding between them included.
  uint64_t data_bytes() const { return data_bytes_; }

  /// Creates PATH.part and writes the header.
  Result<void> open(const std::filesystem::path& path);
  /// Appends to the data of the current tensor; a piece may not reach into the next one.
  Result<void> write(std::span<const uint8_t> data);
  /// Fails with kInternal if data is missing; otherwise gives the file its name.
  Result<void> finish();

 private:
  struct PlannedTensor {
    std::string name;
    uint64_t bytes;
  };

  template <class T>
  static void append(std::string& out, T value) {
    if constexpr (std::is_same_v<T, bool>) {
      out.push_back(value ? 1 : 0);
    } else {
      out.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }
  }
  static void append_string(std::string& out, std::string_view text);
  void begin_value(std::string_view key, GgufKind kind);
  void begin_array(std::string_view key, GgufKind element, uint64_t count);
  uint64_t padding(uint64_t bytes) const { return (alignment_ - bytes % alignment_) % alignment_; }
  Result<void> write_all(const void* data, uint64_t bytes);

  uint32_t version_;
  uint32_t alignment_;
  uint64_t n_keys_ = 0;
  std::string metadata_;
  std::string infos_;
  std::vector<PlannedTensor> tensors_;
  uint64_t data_bytes_ = 0;

  std::filesystem::path path_;
  std::filesystem::path part_path_;
  int fd_ = -1;
  size_t current_ = 0;          ///< tensor whose data comes next
  uint64_t current_bytes_ = 0;  ///< of its data, written
};

}  // namespace minfer
