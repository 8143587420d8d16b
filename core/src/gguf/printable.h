// Names from files, made fit for an error message. Pure, safe from any thread.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace minfer {

/// `text` in single quotes, with control bytes, quotes and non-ASCII bytes as \xNN, cut at
/// `max_bytes`: file contents must not reach a terminal raw.
inline std::string printable(std::string_view text, size_t max_bytes = 96) {
  std::string out = "'";
  for (const char c : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\'' || c == '\\') {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += text.size() > max_bytes ? "...'" : "'";
  return out;
}

}  // namespace minfer
