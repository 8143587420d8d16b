// Substring search whose cost is charged and linear in the text, whatever the pattern.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace minfer::jinja {

inline constexpr size_t kNotFound = std::string_view::npos;

/// Byte offset of the first `pattern` at or after `from`, or kNotFound.
size_t find_text(Runtime& runtime, std::string_view text, std::string_view pattern, size_t from);

/// Byte offset of the last `pattern` that ends at or before `end`, or kNotFound.
size_t find_last_text(Runtime& runtime, std::string_view text, std::string_view pattern,
                      size_t end);

}  // namespace minfer::jinja
