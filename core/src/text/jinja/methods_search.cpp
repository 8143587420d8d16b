// Methods of str that look into text: searching, counting, character classes.
#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/search.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

/// The byte range that the optional start and end arguments of find, count and startswith select.
struct Window {
  size_t begin, end, first_char;
  bool valid = true;  ///< false when start lies past the end, where even "" is not found
};

Window select_window(Runtime& rt, std::string_view text, const BoundArgs& bound) {
  rt.work_on(text.size());
  const Value start = bound.has(1) ? bound[1] : Value::none();
  const Value end = bound.has(2) ? bound[2] : Value::none();
  if (start.is_none() && end.is_none()) return {0, text.size(), 0};
  const auto length = static_cast<Int>(count_chars(text));
  if (start.is_integral() && start.as_int() > length) return {0, 0, 0, false};
  const SliceRange slice = settle_slice(start, end, Value::none(), length);
  const size_t first = static_cast<size_t>(slice.start);
  const size_t begin = char_offset(text, first);
  const size_t end_at = begin + char_offset(text.substr(begin), static_cast<size_t>(slice.count));
  // With start behind end there is no text to look at, not even an empty piece.
  const Int stop = settle_slice(Value::none(), end, Value::none(), length).count;
  return {begin, end_at, first, slice.start <= stop};
}

Int find_index(Runtime& rt, const Value& self, const BoundArgs& bound, bool from_right) {
  const std::string_view text = self.view(), pattern = bound.text(0).view();
  const Window window = select_window(rt, text, bound);
  if (!window.valid) return -1;
  const std::string_view inside = text.substr(window.begin, window.end - window.begin);
  const size_t found = from_right ? find_last_text(rt, inside, pattern, inside.size())
                                  : find_text(rt, inside, pattern, 0);
  if (found == kNotFound) return -1;
  return static_cast<Int>(window.first_char + count_chars(inside.substr(0, found)));
}

Value find(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("find", args, {"sub", "start", "end"}, 1);
  return Value::integer(find_index(rt, self, bound, false));
}

Value rfind(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("rfind", args, {"sub", "start", "end"}, 1);
  return Value::integer(find_index(rt, self, bound, true));
}

Value index(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("index", args, {"sub", "start", "end"}, 1);
  const Int found = find_index(rt, self, bound, false);
  if (found < 0) fail_template("substring not found");
  return Value::integer(found);
}

Value rindex(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("rindex", args, {"sub", "start", "end"}, 1);
  const Int found = find_index(rt, self, bound, true);
  if (found < 0) fail_template("substring not found");
  return Value::integer(found);
}

Value count(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("count", args, {"sub", "start", "end"}, 1);
  const std::string_view text = self.view(), pattern = bound.text(0).view();
  const Window window = select_window(rt, text, bound);
  if (!window.valid) return Value::integer(0);
  const std::string_view inside = text.substr(window.begin, window.end - window.begin);
  if (pattern.empty()) return Value::integer(static_cast<Int>(count_chars(inside)) + 1);
  Int matches = 0;
  for (size_t at = 0; (at = find_text(rt, inside, pattern, at)) != kNotFound;
       at += pattern.size()) {
    ++matches;
  }
  return Value::integer(matches);
}

Value has_affix(Runtime& rt, const Value& self, const CallArgs& args, bool at_start) {
  const std::string_view name = at_start ? "startswith" : "endswith";
  const BoundArgs bound(name, args, {at_start ? "prefix" : "suffix", "start", "end"}, 1);
  const Window window = select_window(rt, self.view(), bound);
  const std::string_view inside = self.view().substr(window.begin, window.end - window.begin);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      fail_template(std::string(name) + " needs a string or a tuple of strings, got " +
                    std::string(type_name(affix)));
    }
    rt.work_on(affix.text().size());
    return window.valid &&
           (at_start ? inside.starts_with(affix.view()) : inside.ends_with(affix.view()));
  };
  if (!bound[0].is(Kind::kTuple)) return Value::boolean(matches(bound[0]));
  const auto& affixes = bound[0].items();
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

Value startswith(Runtime& rt, const Value& self, const CallArgs& args) {
  return has_affix(rt, self, args, true);
}
Value endswith(Runtime& rt, const Value& self, const CallArgs& args) {
  return has_affix(rt, self, args, false);
}

// ---------------------------------------------------------------------------------------------------
// Character classes

/// Whether every character has one of the classes; `if_empty` for the empty string.
bool all_chars(Runtime& rt, const Value& self, uint32_t classes, bool if_empty) {
  const std::string_view text = self.view();
  rt.work_on(text.size());
  for (size_t at = 0; at < text.size();) {
    const Char ch = decode_char(text, at);
    if (!(char_class(ch.code) & classes)) return false;
    at += ch.size;
  }
  return !text.empty() || if_empty;
}

template <uint32_t kClasses, bool kIfEmpty>
Value is_all(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("is...", args, {});
  return Value::boolean(all_chars(rt, self, kClasses, kIfEmpty));
}

Value isascii(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("isascii", args, {});
  rt.work_on(self.text().size());
  return Value::boolean(std::none_of(self.view().begin(), self.view().end(),
                                     [](char c) { return static_cast<unsigned char>(c) >= 0x80; }));
}

Value is_case(Runtime& rt, const Value& self, std::string_view test) {
  return Value::boolean(apply_test(rt, test, self, {}));
}

Value islower(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("islower", args, {});
  return is_case(rt, self, "lower");
}

Value isupper(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("isupper", args, {});
  return is_case(rt, self, "upper");
}

Value istitle(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("istitle", args, {});
  const std::string_view text = self.view();
  rt.work_on(text.size());
  bool any = false, inside_word = false;
  for (size_t at = 0; at < text.size();) {
    const Char ch = decode_char(text, at);
    const uint32_t bits = char_class(ch.code);
    const bool starts = bits & (kUpper | kTitle), continues = bits & kLower;
    if (starts && inside_word) return Value::boolean(false);
    if (continues && !inside_word) return Value::boolean(false);
    inside_word = starts || continues;
    any |= inside_word;
    at += ch.size;
  }
  return Value::boolean(any);
}

Value isidentifier(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("isidentifier", args, {});
  const std::string_view text = self.view();
  rt.work_on(text.size());
  for (size_t at = 0; at < text.size();) {
    const Char ch = decode_char(text, at);
    const uint32_t bits = char_class(ch.code);
    const bool fits = ch.code == '_' || (bits & kAlpha) || (at > 0 && (bits & kDecimal));
    if (!fits) return Value::boolean(false);
    at += ch.size;
  }
  return Value::boolean(!text.empty());
}

constexpr Named<MethodFn> kMethods[] = {
    {"count", count},
    {"endswith", endswith},
    {"find", find},
    {"index", index},
    {"isalnum", is_all<kAlpha | kDecimal | kDigit | kNumeric, false>},
    {"isalpha", is_all<kAlpha, false>},
    {"isascii", isascii},
    {"isdecimal", is_all<kDecimal, false>},
    {"isdigit", is_all<kDigit, false>},
    {"isidentifier", isidentifier},
    {"islower", islower},
    {"isnumeric", is_all<kNumeric, false>},
    {"isprintable", is_all<kPrintable, true>},
    {"isspace", is_all<kSpace, false>},
    {"istitle", istitle},
    {"isupper", isupper},
    {"rfind", rfind},
    {"rindex", rindex},
    {"startswith", startswith},
};

}  // namespace

std::span<const Named<MethodFn>> string_search_methods() {
  return kMethods;
}

}  // namespace minfer::jinja
