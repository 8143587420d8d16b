// Growable structs of the ABI, whatever size the other side was built with (plugin_abi.h, Growth).
// Pure functions.
#pragma once

#include <cstdint>

#include "minfer/plugin_helper.h"

namespace minfer_cuda {

/// A copy of the struct at `from`: fields within its stated size, zero for the rest. A null pointer
/// reads as all zero.
template <class T>
T read_struct(const T* from) {
  T value{};
  minfer_read_struct(&value, sizeof value, from);
  return value;
}

/// Element `i` of an array whose elements are `stride` bytes apart, as read_struct.
template <class T>
T read_element(const T* first, uint32_t stride, uint32_t i) {
  const auto* bytes = reinterpret_cast<const char*>(first);
  return read_struct(reinterpret_cast<const T*>(bytes + uint64_t{i} * stride));
}

/// Writes as much of `value` as the struct at `to` holds; its struct_size stays.
template <class T>
void write_struct(T* to, const T& value) {
  minfer_write_struct(to, &value, sizeof value);
}

}  // namespace minfer_cuda
