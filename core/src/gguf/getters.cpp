// Typed look-ups of metadata: kind and range are checked here, so that callers need not.
#include <fmt/format.h>

#include <cmath>

#include "gguf/kind_names.h"
#include "minfer/gguf.h"

namespace minfer {
namespace {

std::string where_of(const GgufFile& file, std::string_view key) {
  return fmt::format("{}: key '{}'", file.path().string(), key);
}

tl::unexpected<Error> wrong_kind(const GgufFile& file, std::string_view key, const GgufValue& value,
                                 std::string_view expected) {
  return fail(ErrorCode::kBadModel,
              fmt::format("is {}, expected {}", gguf_kind_text(value), expected),
              where_of(file, key), "convert the model again");
}

tl::unexpected<Error> out_of_range(const GgufFile& file, std::string_view key, std::string what) {
  return fail(ErrorCode::kBadModel, std::move(what), where_of(file, key),
              "convert the model again");
}

/// The value of a key that must be there.
template <class T>
Result<T> required(const GgufFile& file, std::string_view key, Result<std::optional<T>> found) {
  if (!found) return tl::make_unexpected(std::move(found).error());
  if (!*found) {
    return fail(ErrorCode::kBadModel, "is missing", where_of(file, key),
                "the file is not a complete model of its architecture; convert it again");
  }
  return std::move(**found);
}

}  // namespace

Result<std::optional<uint64_t>> GgufFile::get_uint(std::string_view key, uint64_t max) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  uint64_t number = 0;
  if (const auto* u = std::get_if<uint64_t>(&value->data)) {
    number = *u;
  } else if (const auto* i = std::get_if<int64_t>(&value->data)) {
    if (*i < 0) return out_of_range(*this, key, fmt::format("is {}, expected 0 to {}", *i, max));
    number = static_cast<uint64_t>(*i);
  } else {
    return wrong_kind(*this, key, *value, "an integer");
  }
  if (number > max) {
    return out_of_range(*this, key, fmt::format("is {}, expected 0 to {}", number, max));
  }
  return number;
}

Result<std::optional<double>> GgufFile::get_float(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* number = std::get_if<double>(&value->data);
  if (number == nullptr) return wrong_kind(*this, key, *value, "f32 or f64");
  if (!std::isfinite(*number)) {
    return out_of_range(*this, key, fmt::format("is {}, expected a finite number", *number));
  }
  return *number;
}

Result<std::optional<bool>> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* flag = std::get_if<bool>(&value->data);
  if (flag == nullptr) return wrong_kind(*this, key, *value, "bool");
  return *flag;
}

Result<std::optional<std::string_view>> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string_view>(&value->data);
  if (text == nullptr) return wrong_kind(*this, key, *value, "a string");
  return *text;
}

Result<std::optional<std::vector<std::string_view>>> GgufFile::get_strings(
    std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* strings = std::get_if<std::vector<std::string_view>>(&value->data);
  if (strings == nullptr) return wrong_kind(*this, key, *value, "an array of strings");
  return *strings;
}

Result<std::optional<std::vector<double>>> GgufFile::get_floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* numbers = std::get_if<std::vector<double>>(&value->data);
  if (numbers == nullptr) return wrong_kind(*this, key, *value, "an array of f32 or f64");
  for (size_t i = 0; i < numbers->size(); ++i) {
    if (std::isfinite((*numbers)[i])) continue;
    return out_of_range(
        *this, key, fmt::format("element {} is {}, expected a finite number", i, (*numbers)[i]));
  }
  return *numbers;
}

Result<std::optional<std::vector<int64_t>>> GgufFile::get_ints(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value->data)) return *numbers;
  const auto* numbers = std::get_if<std::vector<uint64_t>>(&value->data);
  if (numbers == nullptr) return wrong_kind(*this, key, *value, "an array of integers");
  std::vector<int64_t> out;
  out.reserve(numbers->size());
  for (const uint64_t number : *numbers) {
    if (number > INT64_MAX) {
      return out_of_range(
          *this, key,
          fmt::format("element {} is {}, expected at most {}", out.size(), number, INT64_MAX));
    }
    out.push_back(static_cast<int64_t>(number));
  }
  return out;
}

Result<uint64_t> GgufFile::require_uint(std::string_view key, uint64_t max) const {
  return required<uint64_t>(*this, key, get_uint(key, max));
}

Result<double> GgufFile::require_float(std::string_view key) const {
  return required<double>(*this, key, get_float(key));
}

Result<std::string_view> GgufFile::require_string(std::string_view key) const {
  return required<std::string_view>(*this, key, get_string(key));
}

}  // namespace minfer
