// Numbers as text, the way Python reads and prints them. Pure functions, independent of the locale.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace minfer::jinja {

/// int(text, base): surrounding whitespace, a sign, underscores between digits; base 0 reads the
/// prefixes 0x, 0o and 0b. Nothing when malformed or beyond 127 bits.
std::optional<Int> parse_integer(std::string_view text, int base);

/// float(text), "inf" and "nan" included. Nothing when malformed.
std::optional<double> parse_float(std::string_view text);

/// str() of an integer.
std::string integer_text(Int value);

/// repr() of a float: the shortest digits that read back the same.
std::string float_text(double value);

}  // namespace minfer::jinja
