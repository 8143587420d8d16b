#include "text/jinja/unicode.h"

#include <algorithm>
#include <span>

#include "text/jinja/unicode_tables.h"

namespace minfer::jinja {

namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The one-to-one mapping of `code`, or `code` itself.
uint32_t map_simple(std::span<const CaseRange> ranges, uint32_t code) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                [](uint32_t c, const CaseRange& r) { return c < r.first; });
  if (after == ranges.begin()) return code;
  const CaseRange& range = *--after;
  if (code > range.last || (code - range.first) % range.stride != 0) return code;
  return code + static_cast<uint32_t>(range.delta);
}

void map_char(std::string& out, uint32_t code, std::span<const CaseRange> ranges,
              std::span<const CaseExpansion> expansions) {
  auto found = std::lower_bound(expansions.begin(), expansions.end(), code,
                                [](const CaseExpansion& e, uint32_t c) { return e.code < c; });
  if (found == expansions.end() || found->code != code) {
    append_char(out, map_simple(ranges, code));
    return;
  }
  for (const uint32_t mapped : found->mapped) {
    if (mapped != 0) append_char(out, mapped);
  }
}

}  // namespace

Char decode_char(std::string_view text, size_t position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  if (lead < 0x80) return {lead, 1};
  const uint32_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || position + size > text.size()) return {kInvalidChar, 1};
  uint32_t code = lead & (0xFFu >> (size + 1));
  for (uint32_t i = 1; i < size; ++i) {
    if (!is_continuation(text[position + i])) return {kInvalidChar, 1};
    code = code << 6 | (static_cast<unsigned char>(text[position + i]) & 0x3Fu);
  }
  static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[size] || code > 0x10FFFF || surrogate) return {kInvalidChar, 1};
  return {code, size};
}

size_t previous_char(std::string_view text, size_t position) {
  for (size_t back = 1; back <= 4 && back <= position; ++back) {
    const size_t start = position - back;
    if (is_continuation(text[start])) continue;
    return decode_char(text, start).size == back ? start : position - 1;
  }
  return position - 1;
}

void append_char(std::string& out, uint32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = 0xFFFD;
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

size_t count_chars(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += decode_char(text, at).size) ++count;
  return count;
}

size_t char_offset(std::string_view text, size_t index) {
  size_t at = 0;
  while (index > 0 && at < text.size()) {
    at += decode_char(text, at).size;
    --index;
  }
  return at;
}

uint32_t char_class(uint32_t code) {
  if (code > 0x10FFFF) return 0;
  const uint32_t key = code << 11 | 0x7FF;
  auto after = std::upper_bound(kClassRanges.begin(), kClassRanges.end(), key);
  return *--after & 0x7FF;
}

bool is_line_break(uint32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

void upper_char(std::string& out, uint32_t code) {
  map_char(out, code, kUpperRanges, kUpperExpansions);
}

void lower_char(std::string& out, uint32_t code) {
  map_char(out, code, kLowerRanges, kLowerExpansions);
}

void title_char(std::string& out, uint32_t code) {
  map_char(out, code, kTitleRanges, kTitleExpansions);
}

bool is_final_sigma(std::string_view text, size_t position) {
  bool letter_before = false;
  for (size_t at = position; at > 0;) {
    at = previous_char(text, at);
    const uint32_t bits = char_class(decode_char(text, at).code);
    letter_before = bits & kCased;
    if (letter_before || !(bits & kCaseTransparent)) break;
  }
  if (!letter_before) return false;
  for (size_t at = position + decode_char(text, position).size; at < text.size();) {
    const Char next = decode_char(text, at);
    const uint32_t bits = char_class(next.code);
    if (bits & kCased) return false;
    if (!(bits & kCaseTransparent)) break;
    at += next.size;
  }
  return true;
}

std::string lower_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Char ch = decode_char(text, at);
    if (ch.code == kInvalidChar) {
      out += text[at];
    } else if (ch.code == kCapitalSigma && is_final_sigma(text, at)) {
      append_char(out, kFinalSigma);
    } else {
      lower_char(out, ch.code);
    }
    at += ch.size;
  }
  return out;
}

}  // namespace minfer::jinja
