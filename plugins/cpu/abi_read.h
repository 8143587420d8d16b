// Safe reading and writing of the ABI's growable structs, whatever size the other side was built
// with. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "failure.h"
#include "minfer/plugin_abi.h"

namespace minfer_cpu {

/// A copy of the struct at `from`: fields that lie within its stated size, zero for the rest.
/// Throws Failure(MINFER_INVALID) when the pointer is NULL or the size is not one at all.
template <class T>
T read_struct(const void* from, const char* what) {
  static_assert(std::is_trivially_copyable_v<T>);
  uint32_t size = 0;
  if (from == nullptr) throw Failure(MINFER_INVALID, "%s: the pointer is NULL", what);
  std::memcpy(&size, from, sizeof size);
  if (size < sizeof size) {
    throw Failure(MINFER_INVALID, "%s: struct_size is %u, at least %zu was expected", what, size,
                  sizeof size);
  }
  T value{};
  std::memcpy(&value, from, size < sizeof(T) ? size : sizeof(T));
  value.struct_size = static_cast<uint32_t>(sizeof(T));
  return value;
}

/// Writes as much of `value` as the caller's struct holds, leaving its struct_size as it was.
template <class T>
void write_struct(void* to, const T& value, const char* what) {
  static_assert(std::is_trivially_copyable_v<T>);
  uint32_t size = 0;
  if (to == nullptr) throw Failure(MINFER_INVALID, "%s: the pointer is NULL", what);
  std::memcpy(&size, to, sizeof size);
  if (size < sizeof size) {
    throw Failure(MINFER_INVALID, "%s: struct_size is %u, at least %zu was expected", what, size,
                  sizeof size);
  }
  const size_t end = size < sizeof(T) ? size : sizeof(T);
  std::memcpy(static_cast<uint8_t*>(to) + sizeof size,
              reinterpret_cast<const uint8_t*>(&value) + sizeof size, end - sizeof size);
}

/// Element `index` of an array with a stride.
inline const uint8_t* element(const void* array, uint32_t stride, uint64_t index) {
  return static_cast<const uint8_t*>(array) + static_cast<uint64_t>(stride) * index;
}

}  // namespace minfer_cpu
