// Suggestions for mistyped names: flags, config keys, gates, devices, model files. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace minfer {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`, ignoring case and
/// taking '-' and '_' for equal. Stops counting past `limit` and then returns limit + 1.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit);

/// The known name closest to `typed`, or an empty string when none is close enough to be meant: at
/// most a third of its letters differ, or one is the start of the other.
std::string nearest_name(std::string_view typed, std::span<const std::string> known);

/// "did you mean 'x'?", or an empty string.
std::string did_you_mean(std::string_view typed, std::span<const std::string> known);

}  // namespace minfer
