#include "text/jinja/print.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/escape.h"
#include "text/jinja/number_text.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

/// One repr() in progress.
class Printer {
 public:
  Printer(Runtime& runtime, TextBuilder& out) : runtime_(runtime), out_(out) {}

  void print(const Value& value) {
    runtime_.work();
    const Origin origin = value.origin();
    switch (value.kind()) {
      case Kind::kUndefined:
        return out_.append("Undefined", origin);
      case Kind::kNone:
        return out_.append("None", origin);
      case Kind::kBool:
        return out_.append(value.as_bool() ? "True" : "False", origin);
      case Kind::kInt:
        return out_.append(integer_text(value.as_int()), origin);
      case Kind::kFloat:
        return out_.append(float_text(value.as_double()), origin);
      case Kind::kString:
        return print_string_value(value);
      case Kind::kList:
        return print_items(value, "[", "]");
      case Kind::kTuple:
        return print_items(value, "(", ")");
      case Kind::kView:
        return print_items(value, std::string(type_name(value)) + "([", "])");
      case Kind::kDict:
        return print_entries(value, "{", value.dict().entries, "}");
      case Kind::kRange:
        return print_range(value.range(), origin);
      case Kind::kIterator:
        return out_.append("<generator object>", origin);
      case Kind::kObject:
        return print_object(value);
    }
  }

 private:
  /// Prints a container with `body`, or, inside of itself, as its brackets around dots. Only
  /// namespaces can close such a circle, or be nested without a bound.
  template <class Body>
  void print_once(const Value& value, std::string_view open, std::string_view close, Body body) {
    const Data* data = value.data().get();
    const bool inside_itself = std::find(active_.begin(), active_.end(), data) != active_.end();
    if (active_.size() > 2 * kMaxNesting) fail_template("values nested too deeply to print");
    out_.append(open, value.origin());
    if (inside_itself) {
      out_.append("...", value.origin());
    } else {
      active_.push_back(data);
      body();
      active_.pop_back();
    }
    out_.append(close, value.origin());
  }

  void print_items(const Value& value, std::string_view open, std::string_view close) {
    print_once(value, open, close, [&] {
      for (size_t i = 0; i < value.items().size(); ++i) {
        if (i > 0) out_.append(", ", value.origin());
        print(value.items()[i]);
      }
      if (value.is(Kind::kTuple) && value.items().size() == 1) out_.append(",", value.origin());
    });
  }

  void print_entries(const Value& value, std::string_view open,
                     const std::vector<std::pair<Value, Value>>& entries, std::string_view close) {
    print_once(value, open, close, [&] {
      for (size_t i = 0; i < entries.size(); ++i) {
        if (i > 0) out_.append(", ", value.origin());
        print(entries[i].first);
        out_.append(": ", value.origin());
        print(entries[i].second);
      }
    });
  }

  void print_range(const RangeData& range, Origin origin) {
    std::string text = "range(" + integer_text(range.start) + ", " + integer_text(range.stop);
    if (range.step != 1) text += ", " + integer_text(range.step);
    out_.append(text + ")", origin);
  }

  void print_object(const Value& value) {
    if (const auto* space = value.object_as<NamespaceData>()) {
      print_entries(value, "<Namespace {", space->attributes, "}>");
    } else {
      out_.append(value.object().repr(), value.origin());
    }
  }

  void print_string_value(const Value& value) {
    const Text& text = value.text();
    if (!is_markup(value)) return print_string(text);
    out_.append("Markup(", Origin::kTemplate);
    print_string(text);
    out_.append(")", Origin::kTemplate);
  }

  void print_string(const Text& text) {
    const std::string_view bytes = text.view();
    runtime_.work_on(bytes.size());
    const bool has_single = bytes.find('\'') != std::string_view::npos;
    const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
    const std::string_view quote_text(&quote, 1);
    const Origin first = text.empty() ? Origin::kTemplate : text.origin_at(0);
    const Origin last = text.empty() ? Origin::kTemplate : text.runs().back().origin;
    out_.append(quote_text, first);
    size_t plain = 0;  // start of what is copied as it is
    for (size_t at = 0; at < bytes.size();) {
      const Char ch = decode_char(bytes, at);
      const std::string escaped = escape_char(ch.code, quote);
      if (!escaped.empty()) {
        out_.append(text, plain, at);
        out_.append(escaped, text.origin_at(at));
        plain = at + ch.size;
      }
      at += ch.size;
    }
    out_.append(text, plain, bytes.size());
    out_.append(quote_text, last);
  }

  /// What repr() writes for a character, or nothing when it stands for itself.
  static std::string escape_char(uint32_t code, char quote) {
    if (code == static_cast<unsigned char>(quote) || code == '\\') {
      return {'\\', static_cast<char>(code)};
    }
    if (code == '\n') return "\\n";
    if (code == '\r') return "\\r";
    if (code == '\t') return "\\t";
    if (code == kInvalidChar || (char_class(code) & kPrintable)) return {};
    if (code < 0x100) return fmt::format("\\x{:02x}", code);
    return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
  }

  Runtime& runtime_;
  TextBuilder& out_;
  std::vector<const Data*> active_;  ///< containers being printed, outermost first
};

}  // namespace

void append_repr(Runtime& runtime, TextBuilder& out, const Value& value) {
  Printer(runtime, out).print(value);
}

void append_str(Runtime& runtime, TextBuilder& out, const Value& value) {
  if (value.is_string()) {
    runtime.work_on(value.text().size());
    out.append(value.text());
  } else if (!value.is_undefined()) {
    append_repr(runtime, out, value);
  }
}

Value to_string(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value;
  TextBuilder out(runtime);
  append_str(runtime, out, value);
  return out.finish();
}

}  // namespace minfer::jinja
