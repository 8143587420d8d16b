#include "config/fields.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "minfer/nearest.h"

namespace minfer {

Result<void> FieldReader::map(const YamlNode& node, std::string_view path,
                              const std::vector<Field>& fields) const {
  if (node.kind == YamlNode::Kind::kNull) return {};
  if (node.kind != YamlNode::Kind::kMap)
    return wrong(node, path.empty() ? "the config" : path, "a group of keys");
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const YamlNode& key = node.keys[i];
    const Field* known = nullptr;
    for (const Field& field : fields)
      if (field.key == key.text) known = &field;
    if (!known) {
      std::vector<std::string> names;
      for (const Field& field : fields) names.push_back(field.key);
      return fail(ErrorCode::kConfig,
                  fmt::format("unknown key {}{}", describe(key),
                              path.empty() ? std::string() : fmt::format(" under '{}'", path)),
                  place_of(key, origin_), did_you_mean(key.text, names));
    }
    MINFER_TRY(known->read(node.items[i]));
  }
  return {};
}

std::optional<int64_t> FieldReader::as_integer(const YamlNode& node, int64_t low, int64_t high) {
  if (node.kind != YamlNode::Kind::kScalar || node.quoted) return std::nullopt;
  int64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto [stop, ec] = std::from_chars(node.text.data(), end, value);
  if (ec != std::errc() || stop != end || value < low || value > high) return std::nullopt;
  return value;
}

std::optional<float> FieldReader::as_number(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar || node.quoted) return std::nullopt;
  if (node.text == "-inf" || node.text == "-.inf") return -std::numeric_limits<float>::infinity();
  float value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto [stop, ec] = std::from_chars(node.text.data(), end, value);
  if (ec != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

Field FieldReader::integer(std::string key, int32_t& out, Range<int32_t> range) const {
  return {key, [this, key, &out, range](const YamlNode& node) -> Result<void> {
            const auto value = as_integer(node, range.low, range.high);
            if (!value)
              return wrong(node, key,
                           fmt::format("an integer from {} to {}", range.low, range.high));
            out = static_cast<int32_t>(*value);
            return {};
          }};
}

Field FieldReader::unsigned_integer(std::string key, uint32_t& out, Range<uint32_t> range) const {
  return {key, [this, key, &out, range](const YamlNode& node) -> Result<void> {
            const auto value = as_integer(node, range.low, range.high);
            if (!value)
              return wrong(node, key,
                           fmt::format("an integer from {} to {}", range.low, range.high));
            out = static_cast<uint32_t>(*value);
            return {};
          }};
}

Field FieldReader::number(std::string key, float& out, Range<float> range) const {
  return {key, [this, key, &out, range](const YamlNode& node) -> Result<void> {
            const auto value = as_number(node);
            if (!value || !range.contains(*value))
              return wrong(node, key, fmt::format("a number from {} to {}", range.low, range.high));
            out = *value;
            return {};
          }};
}

Field FieldReader::text(std::string key, std::string& out) const {
  return {key, [this, key, &out](const YamlNode& node) -> Result<void> {
            if (node.kind != YamlNode::Kind::kScalar) return wrong(node, key, "text");
            out = node.text;
            return {};
          }};
}

tl::unexpected<Error> FieldReader::wrong(const YamlNode& node, std::string_view key,
                                         std::string_view expected, std::string hint) const {
  return fail(ErrorCode::kConfig,
              fmt::format("'{}' must be {}; found {}", key, expected, describe(node)),
              place_of(node, origin_), std::move(hint));
}

}  // namespace minfer
