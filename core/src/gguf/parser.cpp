#include "gguf/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "gguf/cursor.h"
#include "gguf/metadata.h"
#include "gguf/name_index.h"
#include "gguf/printable.h"
#include "gguf/types.h"
#include "support/checked.h"

namespace minfer {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read in host byte order");

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
  if (starts("PK\x03\x04")) return "this is a zip archive or a PyTorch checkpoint, not GGUF";
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
      : in_(data, size, path), options_(options) {}

  Result<ParsedGguf> run() {
    MINFER_TRY(read_header());
    MINFER_ASSIGN(out_.metadata, read_gguf_metadata(in_, n_keys_));
    MINFER_TRY(read_alignment());
    MINFER_TRY(read_tensor_infos());
    MINFER_TRY(place_tensors());
    MINFER_TRY(check_overlaps());
    return std::move(out_);
  }

 private:
  Result<void> read_header();
  Result<void> check_version(uint32_t version) const;
  Result<void> read_alignment();
  Result<void> read_tensor_infos();
  Result<void> read_tensor_info(GgufTensor& tensor);
  Result<void> check_type(uint32_t id) const;
  Result<void> measure(GgufTensor& tensor) const;
  Result<void> place_tensors();
  Result<void> check_overlaps();

  GgufCursor in_;
  GgufFile::Options options_;
  uint64_t n_tensors_ = 0;
  uint64_t n_keys_ = 0;
  ParsedGguf out_;
};

Result<void> Parser::read_header() {
  const std::string_view head(reinterpret_cast<const char*>(in_.here()),
                              std::min<uint64_t>(in_.left(), 64));
  const std::string_view magic = head.substr(0, 4);
  if (magic == "FUGG") {
    return in_.unsupported("the file is big-endian, expected a little-endian GGUF file",
                           "convert the model again with little-endian output");
  }
  if (magic != std::string_view("GGUF").substr(0, magic.size())) {
    return in_.bad(fmt::format("does not start with 'GGUF', found {}", printable(magic)),
                   std::string(guess_format(head)));
  }
  if (in_.left() < 4) return in_.cut_short("the header", 24);
  in_.skip(4);
  MINFER_ASSIGN(out_.version, in_.read<uint32_t>("the version"));
  MINFER_TRY(check_version(out_.version));
  MINFER_ASSIGN(n_tensors_, in_.read<uint64_t>("the number of tensors"));
  MINFER_ASSIGN(n_keys_, in_.read<uint64_t>("the number of keys"));
  if (n_tensors_ > GgufLimits::kMaxTensors) {
    return in_.bad(fmt::format("declares {} tensors, expected at most {}", n_tensors_,
                               GgufLimits::kMaxTensors));
  }
  return {};
}

Result<void> Parser::check_version(uint32_t version) const {
  if (version == 2 || version == 3) return {};
  // A big-endian file has the same magic; its version gives it away.
  if ((version & 0xffff) == 0 && version != 0) {
    return in_.unsupported(
        fmt::format("the file is big-endian (version {}), expected a little-endian GGUF file",
                    __builtin_bswap32(version)),
        "convert the model again with little-endian output");
  }
  if (version == 1) {
    return in_.unsupported("GGUF version 1 is not read, expected 2 or 3",
                           "convert the model again");
  }
  return in_.unsupported(fmt::format("GGUF version {} is unknown, expected 2 or 3", version),
                         version == 0 ? "the file is damaged" : "the file may need a newer minfer");
}

Result<void> Parser::read_alignment() {
  out_.alignment = GgufLimits::kDefaultAlignment;
  const auto found =
      std::find_if(out_.metadata.begin(), out_.metadata.end(),
                   [](const auto& entry) { return entry.first == "general.alignment"; });
  if (found == out_.metadata.end()) return {};
  in_.enter("key", "general.alignment");
  const auto* value = std::get_if<uint64_t>(&found->second.data);
  if (value == nullptr) return in_.bad("is not an unsigned integer");
  if (!std::has_single_bit(*value) || *value < GgufLimits::kMinAlignment ||
      *value > GgufLimits::kMaxAlignment) {
    return in_.bad(fmt::format("is {}, expected a power of two from {} to {}", *value,
                               GgufLimits::kMinAlignment, GgufLimits::kMaxAlignment));
  }
  out_.alignment = static_cast<uint32_t>(*value);
  in_.leave();
  return {};
}

Result<void> Parser::read_tensor_infos() {
  constexpr uint64_t kSmallestInfo = 8 + 1 + 4 + 8 + 4 + 8;  // one-byte name, one dimension
  if (n_tensors_ * kSmallestInfo > in_.left()) {
    return in_.cut_short(fmt::format("the list of {} tensors", n_tensors_),
                         n_tensors_ * kSmallestInfo);
  }
  out_.tensors.reserve(n_tensors_);
  std::vector<std::string_view> names;
  names.reserve(n_tensors_);
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    in_.enter_unnamed("tensor", i, n_tensors_);
    MINFER_ASSIGN(const std::string_view name, in_.read_string("its name"));
    if (name.empty()) return in_.bad("the name is empty");
    if (name.size() > GgufLimits::kMaxTensorNameBytes) {
      return in_.bad(fmt::format("the name has {} bytes, expected at most {}", name.size(),
                                 GgufLimits::kMaxTensorNameBytes));
    }
    GgufTensor tensor;
    tensor.name = name;
    in_.enter("tensor", tensor.name);
    names.push_back(name);
    MINFER_TRY(read_tensor_info(tensor));
    out_.tensors.push_back(std::move(tensor));
  }
  if (const auto twice = NameIndex(names).repeated()) {
    in_.enter("tensor", names[twice->first]);
    return in_.bad("is given twice");
  }
  in_.leave();
  return {};
}

Result<void> Parser::read_tensor_info(GgufTensor& tensor) {
  MINFER_ASSIGN(tensor.n_dims, in_.read<uint32_t>("its number of dimensions"));
  if (tensor.n_dims < 1 || tensor.n_dims > 4) {
    return in_.bad(fmt::format("has {} dimensions, expected 1 to 4", tensor.n_dims));
  }
  for (uint32_t d = 0; d < tensor.n_dims; ++d) {
    MINFER_ASSIGN(const uint64_t extent, in_.read<uint64_t>("its dimensions"));
    if (extent == 0 || extent > INT64_MAX) {
      return in_.bad(fmt::format("dimension {} is {}, expected 1 to {}", d, extent, INT64_MAX));
    }
    tensor.ne[d] = static_cast<int64_t>(extent);
  }
  MINFER_ASSIGN(const uint32_t type, in_.read<uint32_t>("its type"));
  MINFER_ASSIGN(tensor.offset, in_.read<uint64_t>("its offset"));
  MINFER_TRY(check_type(type));
  tensor.type = find_type(type);
  MINFER_TRY(measure(tensor));
  if (tensor.offset % out_.alignment != 0) {
    return in_.bad(fmt::format("its offset is {}, expected a multiple of the alignment {}",
                               tensor.offset, out_.alignment));
  }
  return {};
}

Result<void> Parser::check_type(uint32_t id) const {
  const TypeInfo* type = find_type(id);
  if (type == nullptr) {
    return in_.unsupported(fmt::format("has type {}, which is unknown (known are 0 to {}); minfer "
                                       "computes with {}",
                                       id, all_types().back().id, supported_type_names()),
                           "the file is damaged, or made for a newer engine");
  }
  if (is_removed_type(id)) {
    return in_.unsupported(
        fmt::format("has type {} ({}), which ggml removed; minfer computes with {}", type->name, id,
                    supported_type_names()),
        removed_type_hint(id));
  }
  if (options_.require_supported_types && !type->supported) {
    return in_.unsupported(
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
    return in_.bad(
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
    return in_.bad(
        fmt::format("shape {} of type {} is larger than any file", dims_text(tensor), type.name));
  }
  tensor.bytes = *bytes;
  return {};
}

/// Turns offsets into offsets from the start of the file, and checks that the data is there.
Result<void> Parser::place_tensors() {
  if (out_.tensors.empty()) return {};
  // A position is below 2^63, so rounding up cannot overflow.
  const uint64_t base = (in_.position() + out_.alignment - 1) / out_.alignment * out_.alignment;
  uint64_t end_of_all = 0;
  const GgufTensor* last = nullptr;
  for (GgufTensor& tensor : out_.tensors) {
    const auto start = checked_add(base, tensor.offset);
    const auto end = start ? checked_add(*start, tensor.bytes) : std::nullopt;
    if (!end) {
      in_.enter("tensor", tensor.name);
      return in_.bad(fmt::format("its offset {} lies beyond any file", tensor.offset));
    }
    tensor.offset = *start;
    if (*end > end_of_all) {
      end_of_all = *end;
      last = &tensor;
    }
  }
  if (end_of_all > in_.size()) {
    in_.enter("tensor", last->name);
    return in_.bad(
        fmt::format("the file is cut short: this tensor ends at byte {}, the file has {}, {} "
                    "bytes are missing",
                    end_of_all, in_.size(), end_of_all - in_.size()),
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
    in_.enter("tensor", order[i]->name);
    return in_.bad(fmt::format("starts at byte {}, inside tensor {} (bytes {} to {})",
                               order[i]->offset, printable(before.name), before.offset,
                               before.offset + before.bytes));
  }
  return {};
}

}  // namespace

Result<ParsedGguf> parse_gguf(const uint8_t* data, uint64_t size, const std::string& path,
                              const GgufFile::Options& options) {
  return Parser(data, size, path, options).run();
}

}  // namespace minfer
