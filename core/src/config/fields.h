// Typed readers of config values. Each takes a node and writes one field, or says what the key
// expects.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml_tree.h"
#include "minfer/result.h"
#include "sampling/ranges.h"

namespace minfer {

/// One key of the schema.
struct Field {
  std::string key;
  std::function<Result<void>(const YamlNode& value)> read;
};

/// Reads values of one document; every error carries the place and the key.
class FieldReader {
 public:
  explicit FieldReader(std::string origin) : origin_(std::move(origin)) {}

  const std::string& origin() const { return origin_; }

  /// Reads each entry of a map with its field. `path` is the map's own key ("sampling"), "" at the
  /// top.
  Result<void> map(const YamlNode& node, std::string_view path,
                   const std::vector<Field>& fields) const;

  // Makers of fields.
  Field integer(std::string key, int32_t& out, Range<int32_t> range) const;
  Field unsigned_integer(std::string key, uint32_t& out, Range<uint32_t> range) const;
  Field number(std::string key, float& out, Range<float> range) const;
  Field text(std::string key, std::string& out) const;

  /// The integer that a scalar spells, when it is one within the range.
  static std::optional<int64_t> as_integer(const YamlNode& node, int64_t low, int64_t high);
  /// The number that a scalar spells ("-inf" included); nothing for NaN and for text.
  static std::optional<float> as_number(const YamlNode& node);

  /// "'key' must be EXPECTED; found X", at the node.
  tl::unexpected<Error> wrong(const YamlNode& node, std::string_view key, std::string_view expected,
                              std::string hint = {}) const;

 private:
  std::string origin_;
};

}  // namespace minfer
