#include "gguf/metadata.h"

#include <fmt/format.h>

#include "gguf/name_index.h"
#include "gguf/parser.h"

namespace minfer {
namespace {

// The readers below check a count against the bytes that are left before they allocate. A count is
// at most kMaxArrayElements, so that its product with an element's size cannot overflow.

template <class Stored, class Wide>
Result<void> read_number(GgufCursor& in, GgufValue& value) {
  MINFER_ASSIGN(const Stored number, in.read<Stored>("its value"));
  value.data = static_cast<Wide>(number);
  return {};
}

Result<void> read_bool_array(GgufCursor& in, GgufValue& value, uint64_t count) {
  if (count > in.left()) return in.cut_short("its array", count);
  std::vector<bool> flags(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint8_t byte = in.here()[i];
    if (byte > 1) {
      return in.bad(fmt::format("element {} is a bool with value {}, expected 0 or 1", i, byte));
    }
    flags[i] = byte == 1;
  }
  in.skip(count);
  value.data = std::move(flags);
  return {};
}

Result<void> read_string_array(GgufCursor& in, GgufValue& value, uint64_t count) {
  constexpr uint64_t kLengthBytes = sizeof(uint64_t);
  if (count * kLengthBytes > in.left()) return in.cut_short("its array", count * kLengthBytes);
  std::vector<std::string_view> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (in.left() < kLengthBytes) {
      return in.cut_short(fmt::format("string {} of {}", i, count), kLengthBytes);
    }
    std::memcpy(&length, in.here(), kLengthBytes);
    in.skip(kLengthBytes);
    if (length > in.left()) return in.cut_short(fmt::format("string {} of {}", i, count), length);
    strings.emplace_back(reinterpret_cast<const char*>(in.here()), length);
    in.skip(length);
  }
  value.data = std::move(strings);
  return {};
}

template <class Stored, class Wide>
Result<void> read_number_array(GgufCursor& in, GgufValue& value, uint64_t count) {
  if (count * sizeof(Stored) > in.left()) return in.cut_short("its array", count * sizeof(Stored));
  std::vector<Wide> numbers(count);
  for (uint64_t i = 0; i < count; ++i) {
    Stored number;
    std::memcpy(&number, in.here() + i * sizeof(Stored), sizeof(Stored));
    numbers[i] = static_cast<Wide>(number);
  }
  in.skip(count * sizeof(Stored));
  value.data = std::move(numbers);
  return {};
}

Result<void> read_array(GgufCursor& in, uint64_t& budget, GgufValue& value) {
  MINFER_ASSIGN(const uint32_t element, in.read<uint32_t>("its element kind"));
  MINFER_ASSIGN(const uint64_t count, in.read<uint64_t>("its element count"));
  if (count > budget) {
    return in.bad(
        fmt::format("is an array of {} elements, expected at most {} in all arrays "
                    "together, of which {} are left",
                    count, GgufLimits::kMaxArrayElements, budget));
  }
  budget -= count;
  value.element = static_cast<GgufKind>(element);
  switch (value.element) {
    case GgufKind::kU8:
      return read_number_array<uint8_t, uint64_t>(in, value, count);
    case GgufKind::kI8:
      return read_number_array<int8_t, int64_t>(in, value, count);
    case GgufKind::kU16:
      return read_number_array<uint16_t, uint64_t>(in, value, count);
    case GgufKind::kI16:
      return read_number_array<int16_t, int64_t>(in, value, count);
    case GgufKind::kU32:
      return read_number_array<uint32_t, uint64_t>(in, value, count);
    case GgufKind::kI32:
      return read_number_array<int32_t, int64_t>(in, value, count);
    case GgufKind::kU64:
      return read_number_array<uint64_t, uint64_t>(in, value, count);
    case GgufKind::kI64:
      return read_number_array<int64_t, int64_t>(in, value, count);
    case GgufKind::kF32:
      return read_number_array<float, double>(in, value, count);
    case GgufKind::kF64:
      return read_number_array<double, double>(in, value, count);
    case GgufKind::kBool:
      return read_bool_array(in, value, count);
    case GgufKind::kString:
      return read_string_array(in, value, count);
    case GgufKind::kArray:
      return in.unsupported("is an array of arrays, expected a flat array",
                            "no known model needs nested arrays; convert the model again");
  }
  return in.bad(fmt::format("is an array of kind {}, expected 0 to 12", element));
}

Result<void> read_value(GgufCursor& in, uint64_t& budget, GgufValue& value) {
  MINFER_ASSIGN(const uint32_t kind, in.read<uint32_t>("its kind"));
  value.kind = static_cast<GgufKind>(kind);
  switch (value.kind) {
    case GgufKind::kU8:
      return read_number<uint8_t, uint64_t>(in, value);
    case GgufKind::kI8:
      return read_number<int8_t, int64_t>(in, value);
    case GgufKind::kU16:
      return read_number<uint16_t, uint64_t>(in, value);
    case GgufKind::kI16:
      return read_number<int16_t, int64_t>(in, value);
    case GgufKind::kU32:
      return read_number<uint32_t, uint64_t>(in, value);
    case GgufKind::kI32:
      return read_number<int32_t, int64_t>(in, value);
    case GgufKind::kU64:
      return read_number<uint64_t, uint64_t>(in, value);
    case GgufKind::kI64:
      return read_number<int64_t, int64_t>(in, value);
    case GgufKind::kF32:
      return read_number<float, double>(in, value);
    case GgufKind::kF64:
      return read_number<double, double>(in, value);
    case GgufKind::kArray:
      return read_array(in, budget, value);
    case GgufKind::kBool: {
      MINFER_ASSIGN(const uint8_t byte, in.read<uint8_t>("its value"));
      if (byte > 1) return in.bad(fmt::format("is a bool with value {}, expected 0 or 1", byte));
      value.data = byte == 1;
      return {};
    }
    case GgufKind::kString: {
      MINFER_ASSIGN(value.data, in.read_string("its text"));
      return {};
    }
  }
  return in.bad(fmt::format("has value kind {}, expected 0 to 12", kind));
}

}  // namespace

Result<GgufMetadata> read_gguf_metadata(GgufCursor& in, uint64_t n_keys) {
  if (n_keys > GgufLimits::kMaxKeys) {
    return in.bad(fmt::format("declares {} metadata keys, expected at most {}", n_keys,
                              GgufLimits::kMaxKeys));
  }
  constexpr uint64_t kSmallestKey = 8 + 1 + 4 + 1;  // length, one byte, kind, smallest value
  if (n_keys * kSmallestKey > in.left()) {
    return in.cut_short(fmt::format("metadata of {} keys", n_keys), n_keys * kSmallestKey);
  }
  GgufMetadata metadata;
  metadata.reserve(n_keys);
  std::vector<std::string_view> names;
  names.reserve(n_keys);
  uint64_t budget = GgufLimits::kMaxArrayElements;
  for (uint64_t i = 0; i < n_keys; ++i) {
    in.enter_unnamed("metadata key", i, n_keys);
    MINFER_ASSIGN(const std::string_view key, in.read_string("its name"));
    if (key.empty()) return in.bad("the name is empty");
    if (key.size() > GgufLimits::kMaxKeyBytes) {
      return in.bad(fmt::format("the name has {} bytes, expected at most {}", key.size(),
                                GgufLimits::kMaxKeyBytes));
    }
    in.enter("key", key);
    names.push_back(key);
    GgufValue value;
    MINFER_TRY(read_value(in, budget, value));
    metadata.emplace_back(std::string(key), std::move(value));
  }
  if (const auto twice = NameIndex(names).repeated()) {
    in.enter("key", names[twice->first]);
    return in.bad("is given twice");
  }
  in.leave();
  return metadata;
}

}  // namespace minfer
