// Stepping through bytes that may or may not be UTF-8.
//
// Texts and tokens are byte strings here: nothing may be lost because a byte is not part of a valid
// character. Pure functions, safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace minfer::tok {

enum class Utf8Kind : uint8_t {
  kChar,        ///< a well-formed character
  kIncomplete,  ///< the text ends within a character that more bytes could complete
  kInvalid,     ///< bytes that no continuation can make valid
};

struct Utf8Step {
  Utf8Kind kind;
  /// Bytes it takes. Of an invalid sequence this is the longest part that began like a character,
  /// so that each such part becomes one U+FFFD (Unicode 15, 3.9, "maximal subparts").
  uint32_t length;
};

/// What stands at the front of `text`, which must not be empty. Overlong forms, surrogates and
/// values above U+10FFFF are invalid.
Utf8Step utf8_step(std::string_view text);

/// Length of the longest prefix of `text` that is valid UTF-8.
size_t utf8_valid_prefix(std::string_view text);

}  // namespace minfer::tok
