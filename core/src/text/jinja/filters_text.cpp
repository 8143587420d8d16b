// Filters on text.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/escape.h"
#include "text/jinja/format.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"
#include "text/jinja/search.h"
#include "text/jinja/text_ops.h"

namespace minfer::jinja {

namespace {

Value upper(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("upper", args, {});
  return upper_case(rt, to_string(rt, input).text());
}

Value lower(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("lower", args, {});
  return lower_case(rt, to_string(rt, input).text());
}

Value capitalize_filter(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("capitalize", args, {});
  return capitalize(rt, to_string(rt, input).text());
}

/// Unlike str.title(), words begin after whitespace, hyphens and opening brackets only.
Value title(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("title", args, {});
  const Value value = to_string(rt, input);
  bool starts_word = true;
  return map_chars(rt, value.text(), [&](std::string& out, uint32_t code, size_t) {
    const bool separates =
        code == '-' || code == '(' || code == '{' || code == '[' || code == '<' || is_space(code);
    starts_word && !separates ? upper_char(out, code) : lower_char(out, code);
    starts_word = separates;
  });
}

Value trim(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("trim", args, {"chars"});
  const Value value = to_string(rt, input);
  std::optional<Text> chars;
  if (!bound.none_or_absent(0)) chars = bound.text(0);
  return strip(rt, value.text(), chars, Side::kBoth);
}

Value replace(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("replace", args, {"old", "new", "count"}, 2);
  const Value value = to_string(rt, input);
  const Value old = to_string(rt, bound[0]), replacement = to_string(rt, bound[1]);
  const Int limit = bound.none_or_absent(2) ? -1 : bound.integer_or(2, -1);
  return replace_text(rt, value.text(), old.text(), replacement.text(), limit);
}

Value indent(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("indent", args, {"width", "first", "blank"});
  if (input.is_undefined()) fail_template(std::string(undefined_message(input)));
  if (!input.is_string()) {
    fail_template("indent needs a string, got " + std::string(type_name(input)));
  }
  const Text& text = input.text();
  const bool first = bound.truthy_or(1, false), blank = bound.truthy_or(2, false);
  TextBuilder prefix(rt);
  if (bound.has(0) && bound[0].is_string()) {
    prefix.append(bound[0].text());
  } else {
    prefix.repeat(' ', bound.integer_or(0, 4), Origin::kTemplate);
  }
  // The filter ends the text with a newline before splitting it, so that an empty last line counts.
  std::string with_end(text.view());
  with_end += '\n';
  const std::vector<Piece> lines = split_lines(rt, with_end, false);
  TextBuilder out(rt);
  for (size_t i = 0; i < lines.size(); ++i) {
    const Piece& line = lines[i];
    if (i > 0) out.append("\n", text.origin_at(std::min(line.begin, text.size()) - 1));
    const bool is_blank = line.begin == line.end;
    if (i == 0 ? first : blank || !is_blank) out.append(prefix.text());
    out.append(text, line.begin, line.end);
  }
  return out.finish();
}

Value center(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("center", args, {"width"});
  const Value value = to_string(rt, input);
  return pad(rt, value.text(), bound.integer_or(0, 80), Text(" ", Origin::kTemplate), Side::kBoth);
}

Value truncate(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const Int length = bound.integer_or(0, 255);
  const bool kill_words = bound.truthy_or(1, false);
  const Text end = bound.has(2) ? bound.text(2) : Text("...", Origin::kTemplate);
  const Int leeway = bound.none_or_absent(3) ? 5 : bound.integer_or(3, 5);
  const auto end_chars = static_cast<Int>(count_chars(end.view()));
  if (length < end_chars) {
    fail_template("truncate: expected length >= " +
                  std::to_string(static_cast<int64_t>(end_chars)));
  }
  if (leeway < 0) fail_template("truncate: expected leeway >= 0");
  if (static_cast<Int>(length_of(rt, input)) <= length + leeway) return input;
  if (!input.is_string()) fail_template("truncate needs a string");
  const Text& text = input.text();
  size_t cut = char_offset(text.view(), static_cast<size_t>(length - end_chars));
  if (!kill_words) {
    const size_t space = find_last_text(rt, text.view(), " ", cut);
    if (space != kNotFound) cut = space;
  }
  TextBuilder out(rt);
  out.append(text, 0, cut);
  out.append(end);
  return out.finish();
}

Value wordcount(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("wordcount", args, {});
  const Value value = to_string(rt, input);
  const std::string_view text = value.view();
  rt.work_on(text.size());
  Int words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Char ch = decode_char(text, at);
    const bool is_word = ch.code == '_' || is_alnum(ch.code);
    if (is_word && !inside) ++words;
    inside = is_word;
    at += ch.size;
  }
  return Value::integer(words);
}

void append_quoted(TextBuilder& out, const Text& text, bool for_query) {
  const std::string_view safe = for_query ? "_.-~" : "_.-~/";
  const std::string_view bytes = text.view();
  for (size_t at = 0; at < bytes.size(); ++at) {
    const auto c = static_cast<unsigned char>(bytes[at]);
    const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                       safe.find(bytes[at]) != std::string_view::npos;
    const Origin origin = text.origin_at(at);
    if (plain) {
      out.append(bytes.substr(at, 1), origin);
    } else if (for_query && c == ' ') {
      out.append("+", origin);
    } else {
      out.append(fmt::format("%{:02X}", c), origin);
    }
  }
}

Value urlencode(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("urlencode", args, {});
  TextBuilder out(rt);
  if (input.is_string() || !is_iterable(input)) {
    append_quoted(out, to_string(rt, input).text(), false);
    return out.finish();
  }
  std::vector<Value> pairs;
  if (input.is(Kind::kDict)) {
    for (const auto& [key, value] : input.dict().entries) pairs.push_back(rt.tuple({key, value}));
  } else {
    pairs = to_vector(rt, input);
  }
  bool first = true;
  for (const Value& pair : pairs) {
    const std::vector<Value> parts = to_vector(rt, pair);
    if (parts.size() != 2) fail_template("urlencode needs pairs of key and value");
    if (!first) out.append("&", Origin::kTemplate);
    first = false;
    append_quoted(out, to_string(rt, parts[0]).text(), true);
    out.append("=", Origin::kTemplate);
    append_quoted(out, to_string(rt, parts[1]).text(), true);
  }
  return out.finish();
}

Value format(Runtime& rt, const Value& input, const CallArgs& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    fail_template("format cannot handle positional and keyword arguments at the same time");
  }
  const Value value = to_string(rt, input);
  if (args.named.empty()) return format_percent(rt, value.text(), rt.tuple(args.positional));
  auto mapping = rt.new_dict();
  for (const auto& [name, argument] : args.named) mapping->set(rt.string(name), argument);
  return format_percent(rt, value.text(), rt.dict(std::move(mapping)));
}

Value escape(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("escape", args, {});
  if (is_markup(input)) return input;
  TextBuilder out(rt);
  append_escaped(out, to_string(rt, input).text());
  return out.finish(true);
}

Value force_escape(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("forceescape", args, {});
  TextBuilder out(rt);
  append_escaped(out, to_string(rt, input).text());
  return out.finish(true);
}

Value safe(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("safe", args, {});
  return rt.string(to_string(rt, input).text(), true);
}

Value string(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("string", args, {});
  return to_string(rt, input);
}

constexpr Named<FilterFn> kFilters[] = {
    {"capitalize", capitalize_filter},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"lower", lower},
    {"replace", replace},
    {"safe", safe},
    {"string", string},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", upper},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
};

}  // namespace

std::span<const Named<FilterFn>> text_filters() {
  return kFilters;
}

}  // namespace minfer::jinja
