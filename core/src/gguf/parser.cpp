#include "gguf/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "gguf/printable.h"
#include "gguf/types.h"
#include "support/checked.h"

namespace minfer {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read in host byte order");

constexpr std::string_view kAgain = "download or convert the file again";

/// What a file that does not start with "GGUF" seems to be, as a hint.
std::string_view guess_format(std::string_view head) {
  const auto starts = [&](std::string_view prefix) {
    return head.substr(0, prefix.size()) == prefix;
  };
  if (starts("version https://git-lfs")) return "this is a Git LFS pointer; run 'git lfs pull'";
  if (starts("<!DOCTYPE") || starts("<!doctype") || starts("<html")) {
    return "this is a web page; use the file's direct download link";
  }
  if (starts("lmgg") || starts("tjgg") || starts("algg") || starts("fmgg")) {
    return "this is a GGML file from before GGUF; convert the model again";
  }
  if (starts("PK\x03\x04"))
    return "this is a zip archive, perhaps a PyTorch checkpoint; convert it";
  if (starts("\x1f\x8b")) return "this is a gzip archive; unpack it";
  if (head.size() > 8 && head[8] == '{') return "this looks like safetensors; convert it to GGUF";
  return "the file is not a GGUF model";
}

std::string dims_text(const GgufTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.ne, tensor.ne + tensor.n_dims, ", "));
}

class Parser {
 public:
  Parser(const uint8_t* data, uint64_t size, const std::string& path,
         const GgufFile::Options& options)
      : data_(data), size_(size), path_(path), where_(path), options_(options) {}

  Result<ParsedGguf> run() {
    MINFER_TRY(read_header());
    MINFER_TRY(read_metadata());
    MINFER_TRY(read_alignment());
    MINFER_TRY(read_tensor_infos());
    MINFER_TRY(place_tensors());
    MINFER_TRY(check_overlaps());
    return std::move(out_);
  }

 private:
  uint64_t left() const { return size_ - pos_; }

  tl::unexpected<Error> bad(std::string what, std::string_view hint = kAgain) const {
    return fail(ErrorCode::kBadModel, std::move(what), where_, std::string(hint));
  }
  tl::unexpected<Error> unsupported(std::string what, std::string hint) const {
    return fail(ErrorCode::kUnsupported, std::move(what), where_, std::move(hint));
  }
  /// `what` needs `need` bytes from here, and they are not there.
  tl::unexpected<Error> cut_short(std::string_view what, uint64_t need) const {
    return bad(
        fmt::format("the file is cut short: {} at byte {} needs {} bytes, the file ends after "
                    "{}, at least {} bytes are missing",
                    what, pos_, need, left(), need - left()),
        "the download is incomplete, or the length is damaged; download the file again");
  }

  template <class T>
  Result<T> read(std::string_view what) {
    if (left() < sizeof(T)) return cut_short(what, sizeof(T));
    T value;
    std::memcpy(&value, data_ + pos_, sizeof(T));
    pos_ += sizeof(T);
    return value;
  }

  Result<std::string_view> read_string(std::string_view what) {
    MINFER_ASSIGN(const uint64_t length, read<uint64_t>(what));
    if (length > left()) return cut_short(what, length);
    const std::string_view text(reinterpret_cast<const char*>(data_ + pos_), length);
    pos_ += length;
    return text;
  }

  Result<void> read_header();
  Result<void> check_version(uint32_t version) const;
  Result<void> read_metadata();
  Result<void> read_value(GgufValue& value);
  Result<void> read_array(GgufValue& value);
  Result<void> read_string_array(GgufValue& value, uint64_t count);
  Result<void> read_bool_array(GgufValue& value, uint64_t count);
  template <class Stored, class Wide>
  Result<void> read_number(GgufValue& value);
  template <class Stored, class Wide>
  Result<void> read_number_array(GgufValue& value, uint64_t count);
  Result<void> read_alignment();
  Result<void> read_tensor_infos();
  Result<void> read_tensor_info(GgufTensor& tensor);
  Result<void> check_type(uint32_t id) const;
  Result<void> measure(GgufTensor& tensor) const;
  Result<void> place_tensors();
  Result<void> check_overlaps();

  std::string tensor_where(const GgufTensor& tensor) const {
    return fmt::format("{}: tensor {}", path_, printable(tensor.name));
  }

  const uint8_t* data_;
  uint64_t size_;
  uint64_t pos_ = 0;
  const std::string& path_;
  std::string where_;
  GgufFile::Options options_;
  uint64_t n_tensors_ = 0;
  uint64_t n_keys_ = 0;
  uint64_t array_elements_ = 0;
  ParsedGguf out_;
};

Result<void> Parser::read_header() {
  const std::string_view head(reinterpret_cast<const char*>(data_), std::min<uint64_t>(size_, 64));
  const std::string_view magic = head.substr(0, 4);
  if (magic == "FUGG") {
    return unsupported("the file is big-endian, expected a little-endian GGUF file",
                       "convert the model again with little-endian output");
  }
  if (magic != std::string_view("GGUF").substr(0, magic.size())) {
    return bad(fmt::format("does not start with 'GGUF', found {}", printable(magic)),
               guess_format(head));
  }
  if (size_ < 4) return cut_short("the header", 24);
  pos_ = 4;
  MINFER_ASSIGN(out_.version, read<uint32_t>("the version"));
  MINFER_TRY(check_version(out_.version));
  MINFER_ASSIGN(n_tensors_, read<uint64_t>("the number of tensors"));
  MINFER_ASSIGN(n_keys_, read<uint64_t>("the number of keys"));
  if (n_tensors_ > GgufLimits::kMaxTensors) {
    return bad(fmt::format("declares {} tensors, expected at most {}", n_tensors_,
                           GgufLimits::kMaxTensors));
  }
  if (n_keys_ > GgufLimits::kMaxKeys) {
    return bad(fmt::format("declares {} metadata keys, expected at most {}", n_keys_,
                           GgufLimits::kMaxKeys));
  }
  return {};
}

Result<void> Parser::check_version(uint32_t version) const {
  if (version == 2 || version == 3) return {};
  // A big-endian file has the same magic; its version gives it away.
  if ((version & 0xffff) == 0 && version != 0) {
    return unsupported(
        fmt::format("the file is big-endian (version {}), expected a little-endian GGUF file",
                    __builtin_bswap32(version)),
        "convert the model again with little-endian output");
  }
  if (version == 1) {
    return unsupported("GGUF version 1 is not read, expected 2 or 3", "convert the model again");
  }
  return unsupported(fmt::format("GGUF version {} is unknown, expected 2 or 3", version),
                     version == 0 ? "the file is damaged" : "the file may need a newer minfer");
}

Result<void> Parser::read_metadata() {
  constexpr uint64_t kSmallestKey = 8 + 1 + 4 + 1;  // length, one byte, kind, smallest value
  if (n_keys_ * kSmallestKey > left()) {
    return cut_short(fmt::format("metadata of {} keys", n_keys_), n_keys_ * kSmallestKey);
  }
  out_.metadata.reserve(n_keys_);
  std::unordered_set<std::string_view> seen;
  seen.reserve(n_keys_);
  for (uint64_t i = 0; i < n_keys_; ++i) {
    where_ = fmt::format("{}: metadata key {} of {}", path_, i + 1, n_keys_);
    MINFER_ASSIGN(const std::string_view key, read_string("its name"));
    if (key.empty()) return bad("the name is empty");
    if (key.size() > GgufLimits::kMaxKeyBytes) {
      return bad(fmt::format("the name has {} bytes, expected at most {}", key.size(),
                             GgufLimits::kMaxKeyBytes));
    }
    where_ = fmt::format("{}: key {}", path_, printable(key));
    if (!seen.insert(key).second) return bad("is given twice");
    GgufValue value;
    MINFER_TRY(read_value(value));
    out_.metadata.emplace_back(std::string(key), std::move(value));
  }
  where_ = path_;
  return {};
}

template <class Stored, class Wide>
Result<void> Parser::read_number(GgufValue& value) {
  MINFER_ASSIGN(const Stored number, read<Stored>("its value"));
  value.data = static_cast<Wide>(number);
  return {};
}

Result<void> Parser::read_value(GgufValue& value) {
  MINFER_ASSIGN(const uint32_t kind, read<uint32_t>("its kind"));
  value.kind = static_cast<GgufKind>(kind);
  switch (value.kind) {
    case GgufKind::kU8:
      return read_number<uint8_t, uint64_t>(value);
    case GgufKind::kI8:
      return read_number<int8_t, int64_t>(value);
    case GgufKind::kU16:
      return read_number<uint16_t, uint64_t>(value);
    case GgufKind::kI16:
      return read_number<int16_t, int64_t>(value);
    case GgufKind::kU32:
      return read_number<uint32_t, uint64_t>(value);
    case GgufKind::kI32:
      return read_number<int32_t, int64_t>(value);
    case GgufKind::kU64:
      return read_number<uint64_t, uint64_t>(value);
    case GgufKind::kI64:
      return read_number<int64_t, int64_t>(value);
    case GgufKind::kF32:
      return read_number<float, double>(value);
    case GgufKind::kF64:
      return read_number<double, double>(value);
    case GgufKind::kArray:
      return read_array(value);
    case GgufKind::kBool: {
      MINFER_ASSIGN(const uint8_t byte, read<uint8_t>("its value"));
      if (byte > 1) return bad(fmt::format("is a bool with value {}, expected 0 or 1", byte));
      value.data = byte == 1;
      return {};
    }
    case GgufKind::kString: {
      MINFER_ASSIGN(value.data, read_string("its text"));
      return {};
    }
  }
  return bad(fmt::format("has value kind {}, expected 0 to 12", kind));
}

Result<void> Parser::read_array(GgufValue& value) {
  MINFER_ASSIGN(const uint32_t element, read<uint32_t>("its element kind"));
  MINFER_ASSIGN(const uint64_t count, read<uint64_t>("its element count"));
  array_elements_ += std::min(count, GgufLimits::kMaxArrayElements + 1);
  if (array_elements_ > GgufLimits::kMaxArrayElements) {
    return bad(fmt::format("is an array of {} elements, expected at most {} in all arrays together",
                           count, GgufLimits::kMaxArrayElements));
  }
  value.element = static_cast<GgufKind>(element);
  switch (value.element) {
    case GgufKind::kU8:
      return read_number_array<uint8_t, uint64_t>(value, count);
    case GgufKind::kI8:
      return read_number_array<int8_t, int64_t>(value, count);
    case GgufKind::kU16:
      return read_number_array<uint16_t, uint64_t>(value, count);
    case GgufKind::kI16:
      return read_number_array<int16_t, int64_t>(value, count);
    case GgufKind::kU32:
      return read_number_array<uint32_t, uint64_t>(value, count);
    case GgufKind::kI32:
      return read_number_array<int32_t, int64_t>(value, count);
    case GgufKind::kU64:
      return read_number_array<uint64_t, uint64_t>(value, count);
    case GgufKind::kI64:
      return read_number_array<int64_t, int64_t>(value, count);
    case GgufKind::kF32:
      return read_number_array<float, double>(value, count);
    case GgufKind::kF64:
      return read_number_array<double, double>(value, count);
    case GgufKind::kBool:
      return read_bool_array(value, count);
    case GgufKind::kString:
      return read_string_array(value, count);
    case GgufKind::kArray:
      return unsupported("is an array of arrays, expected a flat array",
                         "no known model needs nested arrays; convert the model again");
  }
  return bad(fmt::format("is an array of kind {}, expected 0 to 12", element));
}

template <class Stored, class Wide>
Result<void> Parser::read_number_array(GgufValue& value, uint64_t count) {
  if (count * sizeof(Stored) > left()) return cut_short("its array", count * sizeof(Stored));
  std::vector<Wide> numbers(count);
  for (uint64_t i = 0; i < count; ++i) {
    Stored number;
    std::memcpy(&number, data_ + pos_ + i * sizeof(Stored), sizeof(Stored));
    numbers[i] = static_cast<Wide>(number);
  }
  pos_ += count * sizeof(Stored);
  value.data = std::move(numbers);
  return {};
}

Result<void> Parser::read_bool_array(GgufValue& value, uint64_t count) {
  if (count > left()) return cut_short("its array", count);
  std::vector<bool> flags(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint8_t byte = data_[pos_ + i];
    if (byte > 1)
      return bad(fmt::format("element {} is a bool with value {}, expected 0 or 1", i, byte));
    flags[i] = byte == 1;
  }
  pos_ += count;
  value.data = std::move(flags);
  return {};
}

Result<void> Parser::read_string_array(GgufValue& value, uint64_t count) {
  constexpr uint64_t kLengthBytes = sizeof(uint64_t);
  if (count * kLengthBytes > left()) return cut_short("its array", count * kLengthBytes);
  std::vector<std::string_view> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (left() < kLengthBytes)
      return cut_short(fmt::format("string {} of {}", i, count), kLengthBytes);
    std::memcpy(&length, data_ + pos_, kLengthBytes);
    pos_ += kLengthBytes;
    if (length > left()) return cut_short(fmt::format("string {} of {}", i, count), length);
    strings.emplace_back(reinterpret_cast<const char*>(data_ + pos_), length);
    pos_ += length;
  }
  value.data = std::move(strings);
  return {};
}

Result<void> Parser::read_alignment() {
  out_.alignment = GgufLimits::kDefaultAlignment;
  const auto found =
      std::find_if(out_.metadata.begin(), out_.metadata.end(),
                   [](const auto& entry) { return entry.first == "general.alignment"; });
  if (found == out_.metadata.end()) return {};
  where_ = fmt::format("{}: key 'general.alignment'", path_);
  const auto* value = std::get_if<uint64_t>(&found->second.data);
  if (value == nullptr) return bad("is not an unsigned integer");
  if (!std::has_single_bit(*value) || *value < GgufLimits::kMinAlignment ||
      *value > GgufLimits::kMaxAlignment) {
    return bad(fmt::format("is {}, expected a power of two from {} to {}", *value,
                           GgufLimits::kMinAlignment, GgufLimits::kMaxAlignment));
  }
  out_.alignment = static_cast<uint32_t>(*value);
  where_ = path_;
  return {};
}

Result<void> Parser::read_tensor_infos() {
  constexpr uint64_t kSmallestInfo = 8 + 1 + 4 + 8 + 4 + 8;  // one-byte name, one dimension
  if (n_tensors_ * kSmallestInfo > left()) {
    return cut_short(fmt::format("the list of {} tensors", n_tensors_), n_tensors_ * kSmallestInfo);
  }
  out_.tensors.reserve(n_tensors_);
  std::unordered_set<std::string_view> seen;
  seen.reserve(n_tensors_);
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    where_ = fmt::format("{}: tensor {} of {}", path_, i + 1, n_tensors_);
    MINFER_ASSIGN(const std::string_view name, read_string("its name"));
    if (name.empty()) return bad("the name is empty");
    if (name.size() > GgufLimits::kMaxTensorNameBytes) {
      return bad(fmt::format("the name has {} bytes, expected at most {}", name.size(),
                             GgufLimits::kMaxTensorNameBytes));
    }
    GgufTensor tensor;
    tensor.name = name;
    where_ = tensor_where(tensor);
    if (!seen.insert(name).second) return bad("is given twice");
    MINFER_TRY(read_tensor_info(tensor));
    out_.tensors.push_back(std::move(tensor));
  }
  where_ = path_;
  return {};
}

Result<void> Parser::read_tensor_info(GgufTensor& tensor) {
  MINFER_ASSIGN(tensor.n_dims, read<uint32_t>("its number of dimensions"));
  if (tensor.n_dims < 1 || tensor.n_dims > 4) {
    return bad(fmt::format("has {} dimensions, expected 1 to 4", tensor.n_dims));
  }
  for (uint32_t d = 0; d < tensor.n_dims; ++d) {
    MINFER_ASSIGN(const uint64_t extent, read<uint64_t>("its dimensions"));
    if (extent == 0 || extent > INT64_MAX) {
      return bad(fmt::format("dimension {} is {}, expected 1 to {}", d, extent, INT64_MAX));
    }
    tensor.ne[d] = static_cast<int64_t>(extent);
  }
  MINFER_ASSIGN(const uint32_t type, read<uint32_t>("its type"));
  MINFER_ASSIGN(tensor.offset, read<uint64_t>("its offset"));
  MINFER_TRY(check_type(type));
  tensor.type = find_type(type);
  MINFER_TRY(measure(tensor));
  if (tensor.offset % out_.alignment != 0) {
    return bad(fmt::format("its offset is {}, expected a multiple of the alignment {}",
                           tensor.offset, out_.alignment));
  }
  return {};
}

Result<void> Parser::check_type(uint32_t id) const {
  const TypeInfo* type = find_type(id);
  if (type == nullptr) {
    return unsupported(fmt::format("has type {}, which is unknown (known are 0 to {}); minfer "
                                   "computes with {}",
                                   id, all_types().back().id, supported_type_names()),
                       "the file is damaged, or made for a newer engine");
  }
  if (is_removed_type(id)) {
    return unsupported(fmt::format("has type {} ({}), which ggml removed; minfer computes with {}",
                                   type->name, id, supported_type_names()),
                       removed_type_hint(id));
  }
  if (options_.require_supported_types && !type->supported) {
    return unsupported(
        fmt::format("has type {} ({}), expected one of {}", type->name, id, supported_type_names()),
        "get or quantise the model in a supported type");
  }
  return {};
}

/// Fills in `bytes`, with every product checked.
Result<void> Parser::measure(GgufTensor& tensor) const {
  const TypeInfo& type = *tensor.type;
  const auto row = static_cast<uint64_t>(tensor.ne[0]);
  if (row % type.block_elements != 0) {
    return bad(
        fmt::format("rows have {} elements, expected a multiple of {} for type {} (shape {})", row,
                    type.block_elements, type.name, dims_text(tensor)));
  }
  std::optional<uint64_t> elements = row;
  std::optional<uint64_t> bytes = checked_mul(type.block_bytes, row / type.block_elements);
  for (uint32_t d = 1; d < tensor.n_dims && elements && bytes; ++d) {
    elements = checked_mul(*elements, static_cast<uint64_t>(tensor.ne[d]));
    bytes = checked_mul(*bytes, static_cast<uint64_t>(tensor.ne[d]));
  }
  if (!elements || !bytes || *elements > INT64_MAX || *bytes > INT64_MAX) {
    return bad(
        fmt::format("shape {} of type {} is larger than any file", dims_text(tensor), type.name));
  }
  tensor.bytes = *bytes;
  return {};
}

/// Turns offsets into offsets from the start of the file, and checks that the data is there.
Result<void> Parser::place_tensors() {
  if (out_.tensors.empty()) return {};
  // pos_ <= size_ <= INT64_MAX, so rounding up cannot overflow.
  const uint64_t base = (pos_ + out_.alignment - 1) / out_.alignment * out_.alignment;
  uint64_t end_of_all = 0;
  const GgufTensor* last = nullptr;
  for (GgufTensor& tensor : out_.tensors) {
    const auto start = checked_add(base, tensor.offset);
    const auto end = start ? checked_add(*start, tensor.bytes) : std::nullopt;
    if (!end) {
      where_ = tensor_where(tensor);
      return bad(fmt::format("its offset {} lies beyond any file", tensor.offset));
    }
    tensor.offset = *start;
    if (*end > end_of_all) {
      end_of_all = *end;
      last = &tensor;
    }
  }
  if (end_of_all > size_) {
    where_ = tensor_where(*last);
    return bad(
        fmt::format("the file is cut short: this tensor ends at byte {}, the file has {}, {} "
                    "bytes are missing",
                    end_of_all, size_, end_of_all - size_),
        "the download is incomplete, or the offset is damaged; download the file again");
  }
  return {};
}

Result<void> Parser::check_overlaps() {
  std::vector<const GgufTensor*> order;
  order.reserve(out_.tensors.size());
  for (const GgufTensor& tensor : out_.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = *order[i - 1];
    if (before.offset + before.bytes <= order[i]->offset) continue;
    where_ = tensor_where(*order[i]);
    return bad(fmt::format("starts at byte {}, inside tensor {} (bytes {} to {})", order[i]->offset,
                           printable(before.name), before.offset, before.offset + before.bytes));
  }
  return {};
}

}  // namespace

Result<ParsedGguf> parse_gguf(const uint8_t* data, uint64_t size, const std::string& path,
                              const GgufFile::Options& options) {
  return Parser(data, size, path, options).run();
}

}  // namespace minfer
