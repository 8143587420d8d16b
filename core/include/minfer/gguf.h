// GGUF files: metadata and tensors of a model, read through a private mmap.
//
// Opening validates everything that is stored: counts, lengths, nesting, dimensions, types,
// offsets, alignment and overlaps, so that later readers need no checks of their own. Tensor data
// is not touched. Immutable after open, so safe to read from any thread; the mapping lives as long
// as the GgufFile. Errors name the file and the key or tensor, with found and expected values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "minfer/result.h"

namespace minfer {

/// A ggml tensor type as GGUF numbers them; the same numbers are MINFER_TYPE_* in plugin_abi.h.
struct TypeInfo {
  uint32_t id;              ///< number in the file
  std::string_view name;    ///< e.g. "Q4_K"
  uint32_t block_elements;  ///< elements a block holds (1 for plain types)
  uint32_t block_bytes;     ///< bytes a block takes
  bool supported;           ///< false: known by name and size only
};

/// The type numbered `id`, or nullptr when the number is unknown.
const TypeInfo* find_type(uint32_t id);
/// The type called `name` (any case), or nullptr.
const TypeInfo* find_type(std::string_view name);
/// Every known type in numeric order.
std::span<const TypeInfo> all_types();

/// Value kinds as GGUF numbers them.
enum class GgufKind : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// One metadata value. Integers are widened; arrays are flat and of one kind.
struct GgufValue {
  GgufKind kind = GgufKind::kU32;     ///< kind of the value, kArray for arrays
  GgufKind element = GgufKind::kU32;  ///< kind of the elements of an array
  std::variant<uint64_t, int64_t, double, bool, std::string_view, std::vector<uint64_t>,
               std::vector<int64_t>, std::vector<double>, std::vector<bool>,
               std::vector<std::string_view>>
      data;  ///< string views point into the mapping
};

/// One tensor: dimensions innermost first (ne[0] is the row length), data inside a mapping.
struct GgufTensor {
  std::string name;
  const TypeInfo* type = nullptr;
  uint32_t n_dims = 1;
  int64_t ne[4] = {1, 1, 1, 1};
  uint64_t bytes = 0;   ///< size of the data
  uint32_t file = 0;    ///< which part of a split model
  uint64_t offset = 0;  ///< from the start of that part's mapping
};

/// A mapped range of one file (a part of a split model).
struct GgufMapping {
  std::filesystem::path path;
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;
};

class GgufFile {
 public:
  struct Options {
    /// Follow `split.count` and open the sibling parts (NAME-00001-of-00003.gguf).
    bool follow_splits = true;
    /// Refuse tensors whose type no minfer build computes with (the error lists the supported
    /// ones).
    bool require_supported_types = false;
  };

  static Result<std::shared_ptr<const GgufFile>> open(const std::filesystem::path& path,
                                                      const Options& options);
  static Result<std::shared_ptr<const GgufFile>> open(const std::filesystem::path& path) {
    return open(path, Options{});
  }
  virtual ~GgufFile() = default;

  virtual const std::filesystem::path& path() const = 0;
  virtual uint32_t version() const = 0;
  virtual uint32_t alignment() const = 0;

  /// Metadata in file order.
  virtual std::span<const std::pair<std::string, GgufValue>> metadata() const = 0;
  /// The value of a key, or nullptr.
  virtual const GgufValue* find(std::string_view key) const = 0;

  virtual std::span<const GgufTensor> tensors() const = 0;
  /// The tensor of that name, or nullptr.
  virtual const GgufTensor* tensor(std::string_view name) const = 0;
  /// First byte of a tensor's data.
  virtual const uint8_t* data(const GgufTensor& tensor) const = 0;
  virtual std::span<const GgufMapping> mappings() const = 0;
  /// Tells the system that a tensor's pages are no longer needed (after a plugin copied them).
  virtual void release_pages(const GgufTensor& tensor) const = 0;

  // Typed look-ups. The plain forms return nothing when the key is absent, and an error when the
  // value is of another kind or out of range; the `require_` forms also fail on an absent key.
  Result<std::optional<uint64_t>> get_uint(std::string_view key, uint64_t max = UINT64_MAX) const;
  Result<std::optional<double>> get_float(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> get_string(std::string_view key) const;
  Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const;
  Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const;
  Result<uint64_t> require_uint(std::string_view key, uint64_t max = UINT64_MAX) const;
  Result<double> require_float(std::string_view key) const;
  Result<std::string_view> require_string(std::string_view key) const;
};

}  // namespace minfer
