// Unicode as Python's str sees it: code points in UTF-8, character classes, case mapping.
//
// Bytes that are not valid UTF-8 count as one character each and belong to no class, so that no
// input can make a cursor run past its end. Pure functions over constant tables, safe from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace minfer::jinja {

/// Bits that char_class() returns. Named after the str methods that test them.
enum CharClass : uint32_t {
  kAlpha = 1u << 0,
  kDecimal = 1u << 1,
  kDigit = 1u << 2,
  kNumeric = 1u << 3,
  kLower = 1u << 4,
  kUpper = 1u << 5,
  kTitle = 1u << 6,
  kSpace = 1u << 7,
  kPrintable = 1u << 8,
  kCased = 1u << 9,            ///< a letter that decides how a sigma before or after it is lowered
  kCaseTransparent = 1u << 10  ///< kCased, or skipped when looking for such a letter
};

/// A character found in a string: its code point and how many bytes it takes. A byte that is not
/// UTF-8 has the code kInvalidChar and size 1.
struct Char {
  uint32_t code;
  uint32_t size;
};
inline constexpr uint32_t kInvalidChar = 0xFFFFFFFF;

/// Decodes the character that starts at `position` (which must lie inside).
Char decode_char(std::string_view text, size_t position);
/// Start of the character that ends before `position` (> 0).
size_t previous_char(std::string_view text, size_t position);
/// Appends a code point in UTF-8; surrogates and values past U+10FFFF become U+FFFD.
void append_char(std::string& out, uint32_t code);

/// Number of characters.
size_t count_chars(std::string_view text);
/// Byte offset of the character with index `index`, or the size when there are fewer.
size_t char_offset(std::string_view text, size_t index);

uint32_t char_class(uint32_t code);
inline bool is_space(uint32_t code) {
  return char_class(code) & kSpace;
}
inline bool is_alnum(uint32_t code) {
  return char_class(code) & (kAlpha | kDecimal | kDigit | kNumeric);
}
/// Whether str.splitlines breaks after it.
bool is_line_break(uint32_t code);

/// Full case mappings of one character, appended in UTF-8. lower_char does not know about the final
/// sigma, which depends on the neighbours.
void upper_char(std::string& out, uint32_t code);
void lower_char(std::string& out, uint32_t code);
void title_char(std::string& out, uint32_t code);

/// Lower-cases the whole text, final sigmas included.
std::string lower_text(std::string_view text);
/// Whether the capital sigma at `position` is at the end of a word, where its lower case is U+03C2.
bool is_final_sigma(std::string_view text, size_t position);
inline constexpr uint32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

}  // namespace minfer::jinja
