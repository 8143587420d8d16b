// Operations on text that filters and string methods share; each keeps the provenance of every
// piece.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

/// Maps every character: `map(std::string& out, uint32_t code, size_t position)` appends what it
/// becomes. Bytes that are not UTF-8 stay.
template <class Map>
Value map_chars(Runtime& runtime, const Text& text, Map map) {
  const std::string_view bytes = text.view();
  TextBuilder out(runtime);
  std::string piece;
  auto run = text.runs().begin();
  for (size_t at = 0; at < bytes.size();) {
    if (at >= run->end) {
      out.append(piece, run->origin);
      piece.clear();
      while (at >= run->end) ++run;
    }
    const Char ch = decode_char(bytes, at);
    if (ch.code == kInvalidChar) {
      piece += bytes[at];
    } else {
      map(piece, ch.code, at);
    }
    at += ch.size;
  }
  if (!bytes.empty()) out.append(piece, run->origin);
  return out.finish();
}

Value upper_case(Runtime& runtime, const Text& text);
Value lower_case(Runtime& runtime, const Text& text);
/// First character in title case, the rest in lower case.
Value capitalize(Runtime& runtime, const Text& text);

enum class Side { kLeft, kRight, kBoth };
/// Removes characters of `chars`, by default whitespace, from the ends.
Value strip(Runtime& runtime, const Text& text, const std::optional<Text>& chars, Side side);

/// Replaces up to `limit` occurrences, all when it is negative.
Value replace_text(Runtime& runtime, const Text& text, const Text& old, const Text& replacement,
                   Int limit);

/// Byte ranges of the lines of `text`; with their ends when `keep_ends`.
struct Piece {
  size_t begin, end;
};
std::vector<Piece> split_lines(Runtime& runtime, std::string_view text, bool keep_ends);

/// Fills with `fill` up to `width` characters.
Value pad(Runtime& runtime, const Text& text, Int width, const Text& fill, Side text_side);

/// separator.join(items): items are strings already.
Value join_texts(Runtime& runtime, const Text& separator, const std::vector<Value>& items);

}  // namespace minfer::jinja
