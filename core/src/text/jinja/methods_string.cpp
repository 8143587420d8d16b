// Methods of str that make new text: case, stripping, splitting, joining, padding, format.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/iteration.h"
#include "text/jinja/search.h"
#include "text/jinja/text_ops.h"

namespace minfer::jinja {

namespace {

Value upper(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("upper", args, {});
  return upper_case(rt, self.text());
}

Value lower(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("lower", args, {});
  return lower_case(rt, self.text());
}

Value capitalize_method(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("capitalize", args, {});
  return capitalize(rt, self.text());
}

/// Unlike the filter, every letter after a character without case begins a word.
Value title(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("title", args, {});
  bool after_cased = false;
  return map_chars(rt, self.text(), [&](std::string& out, uint32_t code, size_t at) {
    if (!after_cased) {
      title_char(out, code);
    } else if (code == kCapitalSigma && is_final_sigma(self.view(), at)) {
      append_char(out, kFinalSigma);
    } else {
      lower_char(out, code);
    }
    after_cased = char_class(code) & kCased;
  });
}

Value swapcase(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("swapcase", args, {});
  return map_chars(rt, self.text(), [&](std::string& out, uint32_t code, size_t) {
    const uint32_t bits = char_class(code);
    if (bits & kUpper) {
      lower_char(out, code);
    } else if (bits & kLower) {
      upper_char(out, code);
    } else {
      append_char(out, code);
    }
  });
}

Value strip_side(Runtime& rt, const Value& self, const CallArgs& args, Side side) {
  const BoundArgs bound("strip", args, {"chars"});
  std::optional<Text> chars;
  if (!bound.none_or_absent(0)) chars = bound.text(0);
  return strip(rt, self.text(), chars, side);
}

Value strip_both(Runtime& rt, const Value& self, const CallArgs& args) {
  return strip_side(rt, self, args, Side::kBoth);
}
Value lstrip(Runtime& rt, const Value& self, const CallArgs& args) {
  return strip_side(rt, self, args, Side::kLeft);
}
Value rstrip(Runtime& rt, const Value& self, const CallArgs& args) {
  return strip_side(rt, self, args, Side::kRight);
}

Value replace(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("replace", args, {"old", "new", "count"}, 2);
  return replace_text(rt, self.text(), bound.text(0), bound.text(1), bound.integer_or(2, -1));
}

Value removeprefix(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("removeprefix", args, {"prefix"}, 1);
  const std::string_view prefix = bound.text(0).view();
  if (!self.view().starts_with(prefix)) return self;
  return rt.string(self.text().substr(prefix.size(), self.text().size()));
}

Value removesuffix(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("removesuffix", args, {"suffix"}, 1);
  const std::string_view suffix = bound.text(0).view();
  if (!self.view().ends_with(suffix)) return self;
  return rt.string(self.text().substr(0, self.text().size() - suffix.size()));
}

// ---------------------------------------------------------------------------------------------------
// Splitting and joining

Value pieces_list(Runtime& rt, const Text& text, const std::vector<Piece>& pieces) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const Piece& piece : pieces) items.push_back(rt.string(text.substr(piece.begin, piece.end)));
  return rt.list(std::move(items));
}

size_t next_space(std::string_view text, size_t at, bool wanted) {
  while (at < text.size()) {
    const Char ch = decode_char(text, at);
    if (is_space(ch.code) == wanted) break;
    at += ch.size;
  }
  return at;
}

std::vector<Piece> split_on_space(std::string_view text, Int limit) {
  std::vector<Piece> pieces;
  for (size_t at = next_space(text, 0, false); at < text.size();) {
    if (limit >= 0 && static_cast<Int>(pieces.size()) >= limit) {
      size_t end = text.size();
      while (end > at && is_space(decode_char(text, previous_char(text, end)).code)) {
        end = previous_char(text, end);
      }
      // The rest is kept whole, its trailing whitespace included, as Python's split keeps it.
      pieces.push_back({at, text.size()});
      break;
    }
    const size_t end = next_space(text, at, true);
    pieces.push_back({at, end});
    at = next_space(text, end, false);
  }
  return pieces;
}

std::vector<Piece> rsplit_on_space(std::string_view text, Int limit) {
  const auto before = [&](size_t end, bool wanted) {
    while (end > 0) {
      const size_t last = previous_char(text, end);
      if (is_space(decode_char(text, last).code) == wanted) break;
      end = last;
    }
    return end;
  };
  std::vector<Piece> pieces;
  for (size_t end = before(text.size(), false); end > 0;) {
    if (limit >= 0 && static_cast<Int>(pieces.size()) >= limit) {
      pieces.push_back({0, end});
      break;
    }
    const size_t begin = before(end, true);
    pieces.push_back({begin, end});
    end = before(begin, false);
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<Piece> split_on(Runtime& rt, std::string_view text, std::string_view separator,
                            Int limit) {
  std::vector<Piece> pieces;
  size_t begin = 0;
  while (limit < 0 || static_cast<Int>(pieces.size()) < limit) {
    const size_t found = find_text(rt, text, separator, begin);
    if (found == kNotFound) break;
    pieces.push_back({begin, found});
    begin = found + separator.size();
  }
  pieces.push_back({begin, text.size()});
  return pieces;
}

std::vector<Piece> rsplit_on(Runtime& rt, std::string_view text, std::string_view separator,
                             Int limit) {
  std::vector<Piece> pieces;
  size_t end = text.size();
  while (limit < 0 || static_cast<Int>(pieces.size()) < limit) {
    const size_t found = find_last_text(rt, text, separator, end);
    if (found == kNotFound) break;
    pieces.push_back({found + separator.size(), end});
    end = found;
  }
  pieces.push_back({0, end});
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Value split_from(Runtime& rt, const Value& self, const CallArgs& args, bool from_right) {
  const BoundArgs bound(from_right ? "rsplit" : "split", args, {"sep", "maxsplit"});
  const Int limit = bound.integer_or(1, -1);
  const std::string_view text = self.view();
  rt.work_on(text.size());
  if (bound.none_or_absent(0)) {
    return pieces_list(rt, self.text(),
                       from_right ? rsplit_on_space(text, limit) : split_on_space(text, limit));
  }
  const std::string_view separator = bound.text(0).view();
  if (separator.empty()) fail_template("empty separator");
  return pieces_list(
      rt, self.text(),
      from_right ? rsplit_on(rt, text, separator, limit) : split_on(rt, text, separator, limit));
}

Value split(Runtime& rt, const Value& self, const CallArgs& args) {
  return split_from(rt, self, args, false);
}
Value rsplit(Runtime& rt, const Value& self, const CallArgs& args) {
  return split_from(rt, self, args, true);
}

Value splitlines(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("splitlines", args, {"keepends"});
  return pieces_list(rt, self.text(), split_lines(rt, self.view(), bound.truthy_or(0, false)));
}

Value partition_at(Runtime& rt, const Value& self, const CallArgs& args, bool from_right) {
  const BoundArgs bound(from_right ? "rpartition" : "partition", args, {"sep"}, 1);
  const Text& separator = bound.text(0);
  if (separator.empty()) fail_template("empty separator");
  const Text& text = self.text();
  const size_t found = from_right ? find_last_text(rt, text.view(), separator.view(), text.size())
                                  : find_text(rt, text.view(), separator.view(), 0);
  const Value empty = rt.string(Text());
  if (found == kNotFound) {
    return from_right ? rt.tuple({empty, empty, self}) : rt.tuple({self, empty, empty});
  }
  const size_t after = found + separator.size();
  return rt.tuple({rt.string(text.substr(0, found)), rt.string(text.substr(found, after)),
                   rt.string(text.substr(after, text.size()))});
}

Value partition(Runtime& rt, const Value& self, const CallArgs& args) {
  return partition_at(rt, self, args, false);
}
Value rpartition(Runtime& rt, const Value& self, const CallArgs& args) {
  return partition_at(rt, self, args, true);
}

Value join(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("join", args, {"iterable"}, 1);
  const std::vector<Value> items = to_vector(rt, bound[0]);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_string()) continue;
    fail_template("sequence item " + std::to_string(i) + ": expected str instance, " +
                  std::string(type_name(items[i])) + " found");
  }
  return join_texts(rt, self.text(), items);
}

// ---------------------------------------------------------------------------------------------------
// Padding and formatting

Value justify(Runtime& rt, const Value& self, const CallArgs& args, Side side) {
  const BoundArgs bound("center", args, {"width", "fillchar"}, 1);
  const Text fill = bound.has(1) ? bound.text(1) : Text(" ", Origin::kTemplate);
  if (count_chars(fill.view()) != 1) {
    fail_template("the fill character must be exactly one character long");
  }
  return pad(rt, self.text(), bound.integer_or(0, 0), fill, side);
}

Value center(Runtime& rt, const Value& self, const CallArgs& args) {
  return justify(rt, self, args, Side::kBoth);
}
Value ljust(Runtime& rt, const Value& self, const CallArgs& args) {
  return justify(rt, self, args, Side::kLeft);
}
Value rjust(Runtime& rt, const Value& self, const CallArgs& args) {
  return justify(rt, self, args, Side::kRight);
}

Value zfill(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("zfill", args, {"width"}, 1);
  const Text& text = self.text();
  const Int zeros = bound.integer_or(0, 0) - static_cast<Int>(count_chars(text.view()));
  const size_t sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+') ? 1 : 0;
  TextBuilder out(rt);
  out.append(text, 0, sign);
  out.repeat('0', zeros, Origin::kTemplate);
  out.append(text, sign, text.size());
  return out.finish();
}

Value expandtabs(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("expandtabs", args, {"tabsize"});
  const Int size = bound.integer_or(0, 8);
  const Text& text = self.text();
  TextBuilder out(rt);
  Int column = 0;
  for (size_t at = 0; at < text.size();) {
    const Char ch = decode_char(text.view(), at);
    if (ch.code == '\t') {
      const Int spaces = size > 0 ? size - column % size : 0;
      out.repeat(' ', spaces, text.origin_at(at));
      column += spaces;
    } else {
      out.append(text, at, at + ch.size);
      column = ch.code == '\n' || ch.code == '\r' ? 0 : column + 1;
    }
    at += ch.size;
  }
  return out.finish();
}

Value format(Runtime& rt, const Value& self, const CallArgs& args) {
  return format_braces(rt, self.text(), args);
}

Value format_map(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("format_map", args, {"mapping"}, 1);
  if (!bound[0].is(Kind::kDict)) fail_template("format_map() needs a mapping");
  CallArgs named;
  for (const auto& [key, value] : bound[0].dict().entries) {
    if (key.is_string()) named.named.emplace_back(std::string(key.view()), value);
  }
  return format_braces(rt, self.text(), named);
}

constexpr Named<MethodFn> kMethods[] = {
    {"capitalize", capitalize_method},
    {"casefold", lower},
    {"center", center},
    {"expandtabs", expandtabs},
    {"format", format},
    {"format_map", format_map},
    {"join", join},
    {"ljust", ljust},
    {"lower", lower},
    {"lstrip", lstrip},
    {"partition", partition},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"replace", replace},
    {"rjust", rjust},
    {"rpartition", rpartition},
    {"rsplit", rsplit},
    {"rstrip", rstrip},
    {"split", split},
    {"splitlines", splitlines},
    {"strip", strip_both},
    {"swapcase", swapcase},
    {"title", title},
    {"upper", upper},
    {"zfill", zfill},
};

}  // namespace

std::span<const Named<MethodFn>> string_methods() {
  return kMethods;
}

}  // namespace minfer::jinja
