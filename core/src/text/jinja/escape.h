// HTML escaping, the little that survives of it where nothing is escaped by itself.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// Whether a value is a string marked by `safe` or `escape`.
inline bool is_markup(const Value& value) {
  return value.is_string() && static_cast<const StringData&>(*value.data()).markup;
}

/// Appends text with & < > ' " replaced by entities.
inline void append_escaped(TextBuilder& out, const Text& text) {
  const std::string_view bytes = text.view();
  size_t plain = 0;
  for (size_t at = bytes.find_first_of("&<>'\""); at != std::string_view::npos;
       at = bytes.find_first_of("&<>'\"", at + 1)) {
    const char c = bytes[at];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '\'' ? "&#39;"
                                                : "&#34;";
    out.append(text, plain, at);
    out.append(entity, text.origin_at(at));
    plain = at + 1;
  }
  out.append(text, plain, bytes.size());
}

}  // namespace minfer::jinja
