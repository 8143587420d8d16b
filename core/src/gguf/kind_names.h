// Names of metadata value kinds, for messages and listings. Pure, safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "minfer/gguf.h"

namespace minfer {

/// "u32", "string", "array", ...
std::string_view gguf_kind_name(GgufKind kind);

/// Number of elements of an array, 1 for other values.
size_t gguf_element_count(const GgufValue& value);

/// "u32", or "array of 3 string" for arrays.
std::string gguf_kind_text(const GgufValue& value);

}  // namespace minfer
