#include "text/jinja/text_ops.h"

#include <algorithm>

#include "text/jinja/search.h"

namespace minfer::jinja {

Value upper_case(Runtime& runtime, const Text& text) {
  return map_chars(runtime, text,
                   [](std::string& out, uint32_t code, size_t) { upper_char(out, code); });
}

namespace {

void lower_in_place(std::string& out, std::string_view bytes, uint32_t code, size_t at) {
  if (code == kCapitalSigma && is_final_sigma(bytes, at)) {
    append_char(out, kFinalSigma);
  } else {
    lower_char(out, code);
  }
}

}  // namespace

Value lower_case(Runtime& runtime, const Text& text) {
  return map_chars(runtime, text, [&](std::string& out, uint32_t code, size_t at) {
    lower_in_place(out, text.view(), code, at);
  });
}

Value capitalize(Runtime& runtime, const Text& text) {
  return map_chars(runtime, text, [&](std::string& out, uint32_t code, size_t at) {
    if (at == 0) {
      title_char(out, code);
    } else {
      lower_in_place(out, text.view(), code, at);
    }
  });
}

Value strip(Runtime& runtime, const Text& text, const std::optional<Text>& chars, Side side) {
  const std::string_view bytes = text.view();
  const auto strippable = [&](size_t at) {
    const Char ch = decode_char(bytes, at);
    if (!chars) return is_space(ch.code);
    runtime.work_on(chars->size());
    return chars->view().find(bytes.substr(at, ch.size)) != std::string_view::npos;
  };
  size_t begin = 0, end = bytes.size();
  if (side != Side::kRight) {
    while (begin < end && strippable(begin)) begin += decode_char(bytes, begin).size;
  }
  if (side != Side::kLeft) {
    while (end > begin) {
      const size_t last = previous_char(bytes, end);
      if (!strippable(last)) break;
      end = last;
    }
  }
  TextBuilder out(runtime);
  out.append(text, begin, end);
  return out.finish();
}

Value replace_text(Runtime& runtime, const Text& text, const Text& old, const Text& replacement,
                   Int limit) {
  const std::string_view bytes = text.view();
  TextBuilder out(runtime);
  size_t plain = 0;
  for (size_t at = 0; limit != 0; --limit) {
    const size_t found = old.empty() ? at : find_text(runtime, bytes, old.view(), at);
    if (found == kNotFound) break;
    runtime.work();
    out.append(text, plain, found);
    out.append(replacement);
    plain = found + old.size();
    if (!old.empty()) {
      at = plain;
    } else if (found < bytes.size()) {
      at = found + decode_char(bytes, found).size;
    } else {
      break;
    }
  }
  out.append(text, plain, bytes.size());
  return out.finish();
}

std::vector<Piece> split_lines(Runtime& runtime, std::string_view text, bool keep_ends) {
  runtime.work_on(text.size());
  std::vector<Piece> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Char ch = decode_char(text, at);
    size_t next = at + ch.size;
    if (is_line_break(ch.code)) {
      if (ch.code == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back({begin, keep_ends ? next : at});
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

Value pad(Runtime& runtime, const Text& text, Int width, const Text& fill, Side text_side) {
  const Int missing = std::max<Int>(width - static_cast<Int>(count_chars(text.view())), 0);
  Int before = 0;
  if (text_side == Side::kRight) before = missing;
  // Python puts the odd one of an uneven centering on the left when the width is odd too.
  if (text_side == Side::kBoth) before = missing / 2 + (missing & width & 1);
  TextBuilder out(runtime);
  out.repeat(fill, before);
  out.append(text);
  out.repeat(fill, missing - before);
  return out.finish();
}

Value join_texts(Runtime& runtime, const Text& separator, const std::vector<Value>& items) {
  TextBuilder out(runtime);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(items[i].text());
  }
  return out.finish();
}

}  // namespace minfer::jinja
