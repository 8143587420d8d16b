// Strings and structs that a plugin hands over: read within stated bounds, never trusted to end.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace minfer {

/// The text at `p`, or nothing when it does not end within `capacity` bytes or is not printable
/// UTF-8.
std::optional<std::string> checked_text(const char* p, size_t capacity);

/// The text at `p` for a message: cut at `capacity`, control bytes and broken UTF-8 replaced,
/// spaces trimmed. NULL gives an empty string.
std::string clean_text(const char* p, size_t capacity);

/// Copy of a growable struct that may be smaller or larger than ours; missing fields are zero.
/// `limit` bounds the bytes read where the struct lies in an array with a stride.
template <class T>
T read_struct(const void* p, size_t limit = SIZE_MAX) {
  T out{};
  uint32_t stated = 0;
  std::memcpy(&stated, p, sizeof(stated));
  size_t size = stated < sizeof(T) ? stated : sizeof(T);
  if (size > limit) size = limit;
  std::memcpy(&out, p, size);
  return out;
}

}  // namespace minfer
