#include "text/jinja/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "text/jinja/number_text.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

Value convert(Runtime& runtime, const boost::json::value& json, Origin origin, uint32_t depth) {
  // Checked on the way down: the nesting of values is only known on the way up.
  if (depth >= kMaxNesting) {
    fail_template("the context is nested deeper than " + std::to_string(kMaxNesting) + " levels");
  }
  runtime.work();
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::none();
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool(), origin);
    case boost::json::kind::int64:
      return Value::integer(json.get_int64(), origin);
    case boost::json::kind::uint64:
      return Value::integer(Int{json.get_uint64()}, origin);
    case boost::json::kind::double_:
      return Value::floating(json.get_double(), origin);
    case boost::json::kind::string:
      return runtime.string(json.get_string(), origin);
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (const auto& item : json.get_array()) {
        items.push_back(convert(runtime, item, origin, depth + 1));
      }
      return runtime.list(std::move(items), origin);
    }
    case boost::json::kind::object: {
      auto dict = runtime.new_dict();
      for (const auto& [key, item] : json.get_object()) {
        dict->set(runtime.string(key, origin), convert(runtime, item, origin, depth + 1));
      }
      return runtime.dict(std::move(dict), origin);
    }
  }
  return Value::none();
}

/// One json.dumps() in progress.
class Writer {
 public:
  Writer(Runtime& runtime, TextBuilder& out, const JsonStyle& style)
      : runtime_(runtime), out_(out), style_(style) {}

  void write(const Value& value) {
    runtime_.work();
    switch (value.kind()) {
      case Kind::kNone:
        return out_.append("null", value.origin());
      case Kind::kBool:
        return out_.append(value.as_bool() ? "true" : "false", value.origin());
      case Kind::kInt:
        return out_.append(integer_text(value.as_int()), value.origin());
      case Kind::kFloat:
        return out_.append(json_float(value.as_double()), value.origin());
      case Kind::kString:
        return write_string(value.text());
      case Kind::kList:
      case Kind::kTuple:
        return write_list(value);
      case Kind::kDict:
        return write_dict(value);
      default:
        fail_template("Object of type " + std::string(type_name(value)) +
                      " is not JSON serializable");
    }
  }

 private:
  static std::string json_float(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }

  /// A new line and the indentation of the current level, when there is any.
  void break_line(Origin origin) {
    if (!style_.indent) return;
    out_.append("\n", origin);
    out_.repeat(*style_.indent, level_);
  }

  template <class Item, class Write>
  void write_container(std::string_view brackets, const std::vector<Item>& items, Origin origin,
                       Write write_item) {
    if (items.empty()) return out_.append(brackets, origin);
    out_.append(brackets.substr(0, 1), origin);
    ++level_;
    bool first = true;
    for (const Item& item : items) {
      if (!first) append_separator(style_.item_separator, origin);
      first = false;
      break_line(origin);
      write_item(item);
    }
    --level_;
    break_line(origin);
    out_.append(brackets.substr(1), origin);
  }

  /// The punctuation inside the context's own data is the context's, whoever chose its spelling.
  void append_separator(const Text& separator, Origin origin) {
    if (origin == Origin::kContext) {
      out_.append(separator.view(), origin);
    } else {
      out_.append(separator);
    }
  }

  void write_list(const Value& value) {
    write_container("[]", value.items(), value.origin(),
                    [this](const Value& item) { write(item); });
  }

  void write_dict(const Value& value) {
    const Origin origin = value.origin();
    auto entries = value.dict().entries;
    runtime_.need_room(entries.size() * sizeof entries[0]);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto& a, const auto& b) {
        return less(runtime_, a.first, b.first);
      });
    }
    write_container("{}", entries, origin, [&](const std::pair<Value, Value>& entry) {
      write_key(entry.first, origin);
      append_separator(style_.key_separator, origin);
      write(entry.second);
    });
  }

  void write_key(const Value& key, Origin origin) {
    if (key.is_string()) return write_string(key.text());
    if (!key.is_number() && !key.is_none()) {
      fail_template("keys must be str, int, float, bool or None, not " +
                    std::string(type_name(key)));
    }
    out_.append("\"", origin);
    write(key);
    out_.append("\"", origin);
  }

  void write_string(const Text& text) {
    const std::string_view bytes = text.view();
    runtime_.work_on(bytes.size());
    const Origin first = text.empty() ? Origin::kTemplate : text.origin_at(0);
    const Origin last = text.empty() ? Origin::kTemplate : text.runs().back().origin;
    out_.append("\"", first);
    size_t plain = 0;
    for (size_t at = 0; at < bytes.size();) {
      const Char ch = decode_char(bytes, at);
      const std::string escaped = escape_char(ch.code);
      if (!escaped.empty()) {
        out_.append(text, plain, at);
        out_.append(escaped, text.origin_at(at));
        plain = at + ch.size;
      }
      at += ch.size;
    }
    out_.append(text, plain, bytes.size());
    out_.append("\"", last);
  }

  std::string escape_char(uint32_t code) const {
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    if (code == kInvalidChar || (code >= 0x20 && (!style_.ensure_ascii || code < 0x7F))) return {};
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    const uint32_t offset = code - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
  }

  Runtime& runtime_;
  TextBuilder& out_;
  const JsonStyle& style_;
  Int level_ = 0;
};

}  // namespace

Value from_json(Runtime& runtime, const boost::json::value& value, Origin origin) {
  return convert(runtime, value, origin, 0);
}

void append_json(Runtime& runtime, TextBuilder& out, const Value& value, const JsonStyle& style) {
  Writer(runtime, out, style).write(value);
}

}  // namespace minfer::jinja
