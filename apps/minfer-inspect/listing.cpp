#include "listing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "gguf/kind_names.h"
#include "text_util.h"

namespace minfer::inspect {
namespace {

constexpr size_t kMaxTextBytes = 72;
constexpr size_t kMaxArrayItems = 6;
constexpr size_t kMaxItemBytes = 24;

/// The first character of `text`, or its escape if it would disturb a terminal.
std::string shown_character(std::string_view text, size_t length) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first == '\n') return "\\n";
  if (first == '"' || first == '\\') return {'\\', text[0]};
  const bool c1_control =
      first == 0xc2 && length == 2 && static_cast<unsigned char>(text[1]) < 0xa0;
  if (length > 0 && first >= 0x20 && first != 0x7f && !c1_control)
    return std::string(text.substr(0, length));
  std::string out;
  for (const char c : text.substr(0, std::max<size_t>(length, 1))) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

/// One line in quotes, with at most `max_bytes` of the text.
std::string abbreviated(std::string_view text, size_t max_bytes) {
  std::string out;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t length = utf8_length(rest);
    const std::string piece = shown_character(rest, length);
    if (out.size() + piece.size() > max_bytes) {
      return fmt::format("\"{}\"... ({} bytes)", out, text.size());
    }
    out += piece;
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return fmt::format("\"{}\"", out);
}

/// A key or tensor name without quotes.
std::string name_text(std::string_view name) {
  constexpr size_t kMaxNameBytes = 255;
  const std::string quoted = abbreviated(name, kMaxNameBytes);
  return quoted.ends_with('"') ? quoted.substr(1, quoted.size() - 2) : quoted;
}

std::string item_text(std::string_view item) {
  return abbreviated(item, kMaxItemBytes);
}
std::string item_text(bool item) {
  return item ? "true" : "false";
}
template <class T>
std::string item_text(T item) {
  return fmt::format("{:.7}", item);
}
std::string item_text(uint64_t item) {
  return fmt::format("{}", item);
}
std::string item_text(int64_t item) {
  return fmt::format("{}", item);
}

template <class T>
std::string array_text(const std::vector<T>& items) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(items.size(), kMaxArrayItems); ++i) {
    shown.push_back(item_text(items[i]));
  }
  if (items.size() > kMaxArrayItems) shown.push_back("...");
  return fmt::format("[{}]", fmt::join(shown, ", "));
}

std::string value_text(const GgufValue& value) {
  return std::visit(
      [](const auto& data) -> std::string {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return abbreviated(data, kMaxTextBytes);
        } else if constexpr (std::is_arithmetic_v<T>) {
          return item_text(data);
        } else {
          return array_text(data);
        }
      },
      value.data);
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double scaled = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  while (scaled >= 1024 && unit + 1 < std::size(kUnits)) {
    scaled /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", scaled, kUnits[unit]);
}

std::string shape_text(const GgufTensor& tensor) {
  return fmt::format("{}", fmt::join(tensor.ne, tensor.ne + tensor.n_dims, " x "));
}

uint64_t element_count(const GgufTensor& tensor) {
  return tensor.bytes / tensor.type->block_bytes * tensor.type->block_elements;
}

std::string metadata_text(const GgufFile& file) {
  size_t key_width = 0;
  size_t kind_width = 0;
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [key, value] : file.metadata()) {
    names.emplace_back(name_text(key), gguf_kind_text(value));
    key_width = std::max(key_width, names.back().first.size());
    kind_width = std::max(kind_width, names.back().second.size());
  }
  std::string out = fmt::format("\nmetadata: {} keys\n", names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    out += fmt::format("  {:<{}}  {:<{}}  {}\n", names[i].first, key_width, names[i].second,
                       kind_width, value_text(file.metadata()[i].second));
  }
  return out;
}

std::string tensors_text(const GgufFile& file) {
  size_t name_width = 0;
  size_t shape_width = 0;
  uint64_t elements = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    name_width = std::max(name_width, name_text(tensor.name).size());
    shape_width = std::max(shape_width, shape_text(tensor).size());
    elements += element_count(tensor);
  }
  std::string out = fmt::format("\ntensors: {}, {} elements\n", file.tensors().size(), elements);
  const bool split = file.mappings().size() > 1;
  for (const GgufTensor& tensor : file.tensors()) {
    out += fmt::format("  {:<{}}  {:<7}  {:<{}}  {:>11}  at {}{}\n", name_text(tensor.name),
                       name_width, tensor.type->name, shape_text(tensor), shape_width,
                       bytes_text(tensor.bytes), tensor.offset,
                       split ? fmt::format(" of part {}", tensor.file + 1) : "");
  }
  return out;
}

std::string types_text(const GgufFile& file) {
  struct Total {
    uint64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<uint32_t, Total> totals;
  for (const GgufTensor& tensor : file.tensors()) {
    Total& total = totals[tensor.type->id];
    ++total.tensors;
    total.elements += element_count(tensor);
    total.bytes += tensor.bytes;
  }
  if (totals.empty()) return "";
  std::string out = "\ntypes\n";
  for (const auto& [id, total] : totals) {
    const TypeInfo& type = *find_type(id);
    out += fmt::format("  {:<7}  {:>5} tensors  {:>14} elements  {:>11}{}\n", type.name,
                       total.tensors, total.elements, bytes_text(total.bytes),
                       type.supported ? "" : "  (not supported by minfer)");
  }
  return out;
}

}  // namespace

std::string text_listing(const GgufFile& file) {
  std::string out;
  for (const GgufMapping& mapping : file.mappings()) {
    out += fmt::format("file: {} ({})\n", mapping.path.string(), bytes_text(mapping.bytes));
  }
  out += fmt::format("GGUF version {}, alignment {}\n", file.version(), file.alignment());
  return out + metadata_text(file) + tensors_text(file) + types_text(file);
}

}  // namespace minfer::inspect
