// Builds GGUF files byte by byte for the tests, so that each field can be wrong on purpose.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/writer.h"
#include "minfer/gguf.h"

namespace minfer {

/// Raw bytes of a file under construction.
class GgufBytes {
 public:
  GgufBytes() = default;
  /// Starts with a header that declares `tensors` and `keys`.
  GgufBytes(uint32_t version, uint64_t tensors, uint64_t keys) {
    text("GGUF").put(version).put(tensors).put(keys);
  }

  template <class T>
  GgufBytes& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  GgufBytes& text(std::string_view raw) {
    bytes_ += raw;
    return *this;
  }
  /// A length and the text.
  GgufBytes& string(std::string_view value) { return put<uint64_t>(value.size()).text(value); }
  GgufBytes& key(std::string_view name, GgufKind kind) {
    return string(name).put(static_cast<uint32_t>(kind));
  }
  GgufBytes& array(std::string_view name, GgufKind element, uint64_t count) {
    return key(name, GgufKind::kArray).put(static_cast<uint32_t>(element)).put(count);
  }
  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& ne, uint32_t type,
                    uint64_t offset) {
    string(name).put(static_cast<uint32_t>(ne.size()));
    for (const uint64_t extent : ne) put(extent);
    return put(type).put(offset);
  }
  /// Pads to `alignment`, as before tensor data.
  GgufBytes& pad(size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  GgufBytes& zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }

  const std::string& bytes() const { return bytes_; }
  operator std::string() const { return bytes_; }

 private:
  std::string bytes_;
};

/// A folder of its own below the system's temporary folder, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "minfer-gguf-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::filesystem::path path_;
};

/// A whole small model: every value kind, arrays, and tensors of plain and block types.
inline std::string small_model(uint32_t version = 3, uint32_t alignment = 32) {
  GgufWriter writer(alignment, version);
  writer.add("general.architecture", "llama");
  writer.add("kind.u8", uint8_t{200});
  writer.add("kind.i8", int8_t{-100});
  writer.add("kind.u16", uint16_t{60000});
  writer.add("kind.i16", int16_t{-30000});
  writer.add("kind.u32", uint32_t{4000000000});
  writer.add("kind.i32", int32_t{-2000000000});
  writer.add("kind.u64", uint64_t{1} << 63);
  writer.add("kind.i64", int64_t{-5000000000});
  writer.add("kind.f32", 1.5f);
  writer.add("kind.f64", 2.25);
  writer.add("kind.bool", true);
  writer.add("kind.string", "héllo");
  const std::vector<std::string> tokens = {"<s>", "", "a", "bc"};
  writer.add_array("array.strings", std::span<const std::string>(tokens));
  const std::vector<float> scores = {0.5f, -1.0f, 2.0f};
  writer.add_array("array.f32", std::span<const float>(scores));
  const std::vector<int32_t> ints = {-1, 0, 7};
  writer.add_array("array.i32", std::span<const int32_t>(ints));
  const std::vector<uint16_t> words = {1, 65535};
  writer.add_array("array.u16", std::span<const uint16_t>(words));
  const bool flags[] = {true, false, true};
  writer.add_array("array.bool", std::span<const bool>(flags));
  writer.add_tensor("token_embd.weight", *find_type("Q8_0"), std::vector<int64_t>{64, 3});
  writer.add_tensor("output_norm.weight", *find_type("F32"), std::vector<int64_t>{5});
  writer.add_tensor("blk.0.ffn_up.weight", *find_type("Q4_K"), std::vector<int64_t>{256, 2, 2, 1});
  writer.add_tensor("blk.0.ffn_down.weight", *find_type("F16"), std::vector<int64_t>{2, 3, 4});
  std::string bytes = writer.header();
  for (uint64_t i = 0; i < writer.data_bytes(); ++i) bytes.push_back(static_cast<char>(i * 31));
  return bytes;
}

}  // namespace minfer
