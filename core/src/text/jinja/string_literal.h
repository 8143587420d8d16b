// Escapes in string literals, as Python reads them. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace minfer::jinja {

/// The text that a literal's inside stands for. Unknown escapes stay as written. Nothing, with the
/// reason in `error`, when a \x, \u, \U or \N escape is not valid.
std::optional<std::string> unescape(std::string_view literal, std::string& error);

}  // namespace minfer::jinja
