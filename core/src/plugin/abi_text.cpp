#include "plugin/abi_text.h"

namespace minfer {
namespace {

/// Length of the well-formed, printable UTF-8 character that `s` starts with, or 0.
size_t printable_length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || s.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates and values past U+10FFFF show in the second byte.
  const unsigned char second = byte(1);
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second > 0x9f) return 0;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second > 0x8f) return 0;
  return length;
}

}  // namespace

std::optional<std::string> checked_text(const char* p, size_t capacity) {
  if (!p) return std::nullopt;
  const std::string_view text(p, ::strnlen(p, capacity));
  if (text.size() == capacity) return std::nullopt;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = printable_length(rest);
    if (length == 0) return std::nullopt;
    rest.remove_prefix(length);
  }
  return std::string(text);
}

std::string clean_text(const char* p, size_t capacity) {
  if (!p) return {};
  std::string out;
  for (std::string_view rest(p, ::strnlen(p, capacity)); !rest.empty();) {
    const size_t length = printable_length(rest);
    if (length > 0)
      out += rest.substr(0, length);
    else
      out += rest[0] == '\n' || rest[0] == '\t' || rest[0] == '\r' ? ' ' : '?';
    rest.remove_prefix(length > 0 ? length : 1);
  }
  const size_t first = out.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return out.substr(first, out.find_last_not_of(' ') - first + 1);
}

}  // namespace minfer
