// Checks a JSON value against a JSON Schema, for the words that schemas here use: type, properties,
// required, additionalProperties (false), items, minimum, maximum, enum and $ref into $defs. A word
// that is not known fails, so that a schema cannot ask for what is not checked.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <string>
#include <vector>

namespace minfer {

class JsonSchema {
 public:
  explicit JsonSchema(boost::json::value schema) : root_(std::move(schema)) {}

  /// What is wrong, a line for each fault; empty: the value fits.
  std::vector<std::string> faults(const boost::json::value& value) const {
    std::vector<std::string> out;
    check(root_.as_object(), value, "$", out);
    return out;
  }

 private:
  using Value = boost::json::value;
  using Object = boost::json::object;
  using Faults = std::vector<std::string>;

  static bool is(const Value& value, std::string_view type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_bool();
    if (type == "null") return value.is_null();
    if (type == "integer") return value.is_int64() || value.is_uint64();
    return type == "number" && value.is_number();
  }

  static bool is_any(const Value& value, const Value& types) {
    if (types.is_string()) return is(value, types.get_string());
    return std::any_of(types.as_array().begin(), types.as_array().end(),
                       [&](const Value& type) { return is(value, type.as_string()); });
  }

  void check(const Object& schema, const Value& value, const std::string& at, Faults& out) const {
    for (const auto& [word, rule] : schema) {
      if (word == "$schema" || word == "title" || word == "description" || word == "$defs")
        continue;
      if (!check_word(word, rule, schema, value, at, out))
        out.push_back(at + ": the schema's word '" + std::string(word) + "' is not known here");
    }
  }

  bool check_word(std::string_view word, const Value& rule, const Object& schema,
                  const Value& value, const std::string& at, Faults& out) const {
    const auto expect = [&](bool holds, const std::string& what) {
      if (!holds) out.push_back(at + ": " + what + ", found " + boost::json::serialize(value));
    };
    if (word == "$ref") {
      const std::string name(rule.as_string().subview(std::string_view("#/$defs/").size()));
      check(root_.at("$defs").at(name).as_object(), value, at, out);
    } else if (word == "type") {
      expect(is_any(value, rule), "expected " + boost::json::serialize(rule));
    } else if (word == "enum") {
      const auto& values = rule.as_array();
      expect(std::find(values.begin(), values.end(), value) != values.end(),
             "expected one of " + boost::json::serialize(rule));
    } else if (word == "minimum" || word == "maximum") {
      if (!value.is_number()) return true;
      const auto bound = rule.to_number<double>();
      const auto found = value.to_number<double>();
      expect(word == "minimum" ? found >= bound : found <= bound, std::string(word));
    } else if (word == "items") {
      if (!value.is_array()) return true;
      size_t i = 0;
      for (const Value& item : value.get_array())
        check(rule.as_object(), item, at + "[" + std::to_string(i++) + "]", out);
    } else if (word == "required") {
      for (const Value& name : rule.as_array())
        expect(!value.is_object() || value.get_object().contains(name.as_string()),
               "no '" + std::string(name.as_string()) + "'");
    } else if (word == "properties") {
      if (!value.is_object()) return true;
      for (const auto& [name, property] : rule.as_object())
        if (const Value* found = value.get_object().if_contains(name))
          check(property.as_object(), *found, at + "." + std::string(name), out);
    } else if (word == "additionalProperties") {
      if (!value.is_object()) return true;
      for (const auto& [name, found] : value.get_object())
        expect(schema.at("properties").as_object().contains(name),
               "'" + std::string(name) + "' is not in the schema");
    } else {
      return false;
    }
    return true;
  }

  Value root_;
};

}  // namespace minfer
