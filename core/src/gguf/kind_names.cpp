#include "gguf/kind_names.h"

#include <fmt/format.h>

namespace minfer {

std::string_view gguf_kind_name(GgufKind kind) {
  switch (kind) {
    case GgufKind::kU8:
      return "u8";
    case GgufKind::kI8:
      return "i8";
    case GgufKind::kU16:
      return "u16";
    case GgufKind::kI16:
      return "i16";
    case GgufKind::kU32:
      return "u32";
    case GgufKind::kI32:
      return "i32";
    case GgufKind::kF32:
      return "f32";
    case GgufKind::kBool:
      return "bool";
    case GgufKind::kString:
      return "string";
    case GgufKind::kArray:
      return "array";
    case GgufKind::kU64:
      return "u64";
    case GgufKind::kI64:
      return "i64";
    case GgufKind::kF64:
      return "f64";
  }
  return "unknown";
}

size_t gguf_element_count(const GgufValue& value) {
  return std::visit(
      [](const auto& data) -> size_t {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string_view>) {
          return 1;
        } else {
          return data.size();
        }
      },
      value.data);
}

std::string gguf_kind_text(const GgufValue& value) {
  if (value.kind != GgufKind::kArray) return std::string(gguf_kind_name(value.kind));
  return fmt::format("array of {} {}", gguf_element_count(value), gguf_kind_name(value.element));
}

}  // namespace minfer
