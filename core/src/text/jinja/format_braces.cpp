// str.format(): replacement fields and the format mini-language.
#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/format.h"
#include "text/jinja/number_text.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

constexpr Int kMaxWidth = Int{1} << 40;

/// A parsed format specification.
struct Spec {
  Text fill{" ", Origin::kTemplate};
  char align = 0;  ///< '<', '>', '^' or '='; 0 for the type's default
  bool zero = false;
  Int width = 0;
  Int precision = -1;
  NumberStyle style;
};

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

class SpecParser {
 public:
  explicit SpecParser(const Text& text) : text_(text), bytes_(text.view()) {}

  Spec run() {
    Spec spec;
    fill_and_align(spec);
    if (next_in("+- ")) spec.style.sign = bytes_[at_++];
    if (next_in("#")) spec.style.alternate = true, ++at_;
    if (next_in("0")) {
      ++at_;
      spec.zero = true;
      if (spec.align == 0) spec.align = '=';
      if (!filled_) spec.fill = Text("0", Origin::kTemplate);
    }
    spec.width = number();
    if (next_in(",_")) spec.style.grouping = bytes_[at_++];
    if (next_in(".")) {
      ++at_;
      if (!next_in("0123456789")) fail_template("format specifier missing precision");
      spec.precision = number();
    }
    if (at_ < bytes_.size()) spec.style.type = bytes_[at_++];
    if (at_ < bytes_.size())
      fail_template("invalid format specifier '" + std::string(bytes_) + "'");
    return spec;
  }

 private:
  bool next_in(std::string_view set) const {
    return at_ < bytes_.size() && set.find(bytes_[at_]) != std::string_view::npos;
  }

  void fill_and_align(Spec& spec) {
    if (bytes_.empty()) return;
    const size_t first = decode_char(bytes_, 0).size;
    if (first < bytes_.size() && is_align(bytes_[first])) {
      spec.fill = text_.substr(0, first);
      spec.align = bytes_[first];
      filled_ = true;
      at_ = first + 1;
    } else if (is_align(bytes_[0])) {
      spec.align = bytes_[0];
      at_ = 1;
    }
  }

  Int number() {
    Int value = 0;
    while (next_in("0123456789"))
      value = std::min<Int>(value * 10 + (bytes_[at_++] - '0'), kMaxWidth);
    return value;
  }

  const Text& text_;
  std::string_view bytes_;
  size_t at_ = 0;
  bool filled_ = false;  ///< the fill character was given
};

void append_padded(TextBuilder& out, const Spec& spec, char default_align, const Text& prefix,
                   const Text& text) {
  const Int size = static_cast<Int>(count_chars(prefix.view()) + count_chars(text.view()));
  const Int fill = std::max<Int>(spec.width - size, 0);
  const char align = spec.align == 0 ? default_align : spec.align;
  const Int before = align == '>' ? fill : align == '^' ? fill / 2 : 0;
  const Int inside = align == '=' ? fill : 0;
  out.repeat(spec.fill, before);
  out.append(prefix);
  out.repeat(spec.fill, inside);
  out.append(text);
  out.repeat(spec.fill, fill - before - inside);
}

void append_string(TextBuilder& out, const Text& text, const Spec& spec) {
  if (spec.style.type != 0 && spec.style.type != 's') {
    fail_template(std::string("unknown format code '") + spec.style.type + "' for a string");
  }
  if (spec.align == '=' && !spec.zero)
    fail_template("'=' alignment not allowed in a string format");
  const size_t end = spec.precision < 0
                         ? text.size()
                         : char_offset(text.view(), static_cast<size_t>(spec.precision));
  Spec adjusted = spec;
  if (spec.align == '=') adjusted.align = '<';
  append_padded(out, adjusted, '<', Text(), text.substr(0, end));
}

void append_number(TextBuilder& out, const Value& value, const Spec& spec) {
  NumberStyle style = spec.style;
  const std::string_view types = value.is_integral() ? "bcdoxXneEfFgG%" : "eEfFgGn%";
  if (style.type != 0 && types.find(style.type) == std::string_view::npos) {
    fail_template(std::string("unknown format code '") + style.type + "' for a number");
  }
  if (style.type == 'c') {
    if (value.as_int() < 0 || value.as_int() > 0x10FFFF)
      fail_template("%c arg not in range(0x110000)");
    std::string bytes;
    append_char(bytes, static_cast<uint32_t>(value.as_int()));
    return append_padded(out, spec, '<', Text(), Text(bytes, value.origin()));
  }
  if (value.is_integral() && style.type == 'n') style.type = 'd';
  const bool as_integer =
      value.is_integral() && std::string_view("eEfFgG%").find(style.type) == std::string_view::npos;
  if ((as_integer || style.type == 0) && value.is_integral()) {
    if (spec.precision >= 0) fail_template("precision not allowed in integer format specifier");
    if (style.type == 0) style.type = 'd';
  }
  style.precision = static_cast<int>(std::min<Int>(spec.precision, 1 << 20));
  const NumberParts parts = style_number(value, style);
  append_padded(out, spec, '>', Text(parts.prefix, value.origin()),
                Text(parts.digits, value.origin()));
}

// ---------------------------------------------------------------------------------------------------
// Replacement fields

class BracesFormatter {
 public:
  BracesFormatter(Runtime& runtime, const CallArgs& args) : runtime_(runtime), args_(args) {}

  void run(TextBuilder& out, const Text& format, int depth) {
    if (depth > 2) fail_template("max string recursion exceeded");
    const std::string_view bytes = format.view();
    size_t plain = 0;
    for (size_t at = bytes.find_first_of("{}"); at != std::string_view::npos;
         at = bytes.find_first_of("{}", plain)) {
      out.append(format, plain, at);
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
        out.append(format, at, at + 1);
        plain = at + 2;
        continue;
      }
      if (bytes[at] == '}') fail_template("single '}' encountered in format string");
      plain = field(out, format, at + 1, depth);
    }
    out.append(format, plain, bytes.size());
  }

 private:
  /// Formats the field whose text starts at `begin`; gives the position after its closing brace.
  size_t field(TextBuilder& out, const Text& format, size_t begin, int depth) {
    const std::string_view bytes = format.view();
    size_t end = begin;
    int open = 1;
    bool in_index = false;
    for (; end < bytes.size(); ++end) {
      if (bytes[end] == '[') in_index = true;
      if (bytes[end] == ']') in_index = false;
      if (in_index) continue;
      if (bytes[end] == '{') ++open;
      if (bytes[end] == '}' && --open == 0) break;
    }
    if (open > 0) fail_template("expected '}' before end of string");
    // The name ends at the first ':' or '!' outside of brackets.
    size_t name_end = begin;
    for (in_index = false; name_end < end; ++name_end) {
      const char c = bytes[name_end];
      if (c == '[') in_index = true;
      if (c == ']') in_index = false;
      if (!in_index && (c == ':' || c == '!')) break;
    }
    char conversion = 0;
    size_t spec_begin = name_end;
    if (name_end < end && bytes[name_end] == '!') {
      if (name_end + 1 >= end)
        fail_template("end of string while looking for conversion specifier");
      conversion = bytes[name_end + 1];
      spec_begin = name_end + 2;
      if (spec_begin < end && bytes[spec_begin] != ':') {
        fail_template("expected ':' after conversion specifier");
      }
    }
    Value value = lookup(bytes.substr(begin, name_end - begin));
    if (conversion != 0) value = convert(value, conversion);
    TextBuilder spec(runtime_);
    if (spec_begin < end) run(spec, format.substr(spec_begin + 1, end), depth + 1);
    append_formatted(runtime_, out, value, spec.text());
    return end + 1;
  }

  Value convert(const Value& value, char conversion) {
    if (conversion == 's') return to_string(runtime_, value);
    if (conversion != 'r' && conversion != 'a') {
      fail_template(std::string("unknown conversion specifier '") + conversion + "'");
    }
    TextBuilder text(runtime_);
    append_repr(runtime_, text, value);
    return text.finish();
  }

  Value first_value(std::string_view name) {
    const bool is_number =
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) {
      const bool automatic = name.empty();
      if (automatic ? manual_ : next_ > 0) {
        fail_template("cannot switch between manual and automatic field numbering");
      }
      manual_ |= !automatic;
      const Int index =
          automatic ? static_cast<Int>(next_++) : parse_integer(name, 10).value_or(-1);
      if (index < 0 || index >= static_cast<Int>(args_.positional.size())) {
        fail_template("replacement index out of range for positional arguments");
      }
      return args_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    fail_template("the format string needs the argument '" + std::string(name) + "'");
  }

  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = first_value(name.substr(0, first_end));
    name.remove_prefix(first_end);
    while (!name.empty()) {
      if (name[0] == '.') {
        const size_t end = std::min(name.find_first_of(".[", 1), name.size());
        if (end == 1) fail_template("empty attribute in format string");
        value = get_attribute(runtime_, value, name.substr(1, end - 1));
        name.remove_prefix(end);
      } else if (name[0] == '[') {
        const size_t end = name.find(']');
        if (end == std::string_view::npos) fail_template("missing ']' in format string");
        if (end == 1) fail_template("empty attribute in format string");
        const std::string_view key = name.substr(1, end - 1);
        const bool digits =
            std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
        const auto number = digits ? parse_integer(key, 10) : std::nullopt;
        value = get_item(runtime_, value, number ? Value::integer(*number) : runtime_.string(key));
        name.remove_prefix(end + 1);
      } else {
        fail_template("only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Runtime& runtime_;
  const CallArgs& args_;
  size_t next_ = 0;      ///< fields numbered automatically so far
  bool manual_ = false;  ///< some field had a number
};

}  // namespace

void append_formatted(Runtime& runtime, TextBuilder& out, const Value& value, const Text& spec) {
  if (spec.empty()) return append_str(runtime, out, value);
  const Spec parsed = SpecParser(spec).run();
  if (value.is_string()) return append_string(out, value.text(), parsed);
  if (value.is_number()) return append_number(out, value, parsed);
  fail_template("unsupported format string passed to " + std::string(type_name(value)) +
                ".__format__");
}

Value format_braces(Runtime& runtime, const Text& format, const CallArgs& args) {
  TextBuilder out(runtime);
  BracesFormatter(runtime, args).run(out, format, 0);
  return out.finish();
}

}  // namespace minfer::jinja
