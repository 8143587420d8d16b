#include "text/tokenizer/utf8.h"

#include <cstring>

namespace minfer::tok {
namespace {

/// What a lead byte asks for: its length, and the range of the byte that follows (Unicode 15, table
/// 3-7). Later bytes are always 80..BF.
struct Lead {
  uint32_t length;
  uint8_t low, high;
};

Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return {Utf8Kind::kChar, 1};
  const Lead lead = lead_of(byte(0));
  if (lead.length == 0) return {Utf8Kind::kInvalid, 1};
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i};
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kChar, lead.length};
}

size_t utf8_valid_prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    // Most text is ASCII: eight bytes at a time while no high bit is set.
    uint64_t word = 0;
    if (text.size() - pos >= sizeof word) {
      std::memcpy(&word, text.data() + pos, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        pos += sizeof word;
        continue;
      }
    }
    const Utf8Step step = utf8_step(text.substr(pos));
    if (step.kind != Utf8Kind::kChar) break;
    pos += step.length;
  }
  return pos;
}

}  // namespace minfer::tok
