#include "text/jinja/string_literal.h"

#include <fmt/format.h>

#include <charconv>

#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

/// Value of exactly `count` hexadecimal digits at `at`.
std::optional<uint32_t> hex_digits(std::string_view text, size_t at, size_t count) {
  if (at + count > text.size()) return std::nullopt;
  uint32_t value = 0;
  const char* end = text.data() + at + count;
  const auto [stop, status] = std::from_chars(text.data() + at, end, value, 16);
  if (status != std::errc() || stop != end) return std::nullopt;
  return value;
}

constexpr std::string_view kSimple = "ntrabfv\\'\"";
constexpr std::string_view kSimpleValues = "\n\t\r\a\b\f\v\\'\"";

/// Python escapes non-ASCII characters before it looks for escapes, so a backslash in front of one
/// is followed by that character's own escape, spelled out.
void append_spelled_out(std::string& out, uint32_t code) {
  out += code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

}  // namespace

std::optional<std::string> unescape(std::string_view literal, std::string& error) {
  std::string out;
  out.reserve(literal.size());
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\' || at + 1 >= literal.size()) {
      out += literal[at++];
      continue;
    }
    const char c = literal[at + 1];
    if (const size_t simple = kSimple.find(c); simple != std::string_view::npos) {
      out += kSimpleValues[simple];
      at += 2;
    } else if (c == '\n') {
      at += 2;
    } else if (c >= '0' && c <= '7') {
      uint32_t value = 0;
      size_t end = at + 1;
      while (end < literal.size() && end < at + 4 && literal[end] >= '0' && literal[end] <= '7') {
        value = value * 8 + static_cast<uint32_t>(literal[end++] - '0');
      }
      append_char(out, value);
      at = end;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const auto value = hex_digits(literal, at + 2, count);
      if (!value || *value > 0x10FFFF) {
        error = fmt::format("the escape \\{} needs {} hexadecimal digits of a character", c, count);
        return std::nullopt;
      }
      append_char(out, *value);
      at += 2 + count;
    } else if (c == 'N') {
      error = "the escape \\N is not supported; write the character itself";
      return std::nullopt;
    } else {
      const Char ch = decode_char(literal, at + 1);
      if (ch.code >= 0x80 && ch.code != kInvalidChar) {
        append_spelled_out(out, ch.code);
      } else {
        out += literal.substr(at, 1 + ch.size);
      }
      at += 1 + ch.size;
    }
  }
  return out;
}

}  // namespace minfer::jinja
