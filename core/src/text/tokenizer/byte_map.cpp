#include "text/tokenizer/byte_map.h"

#include "text/tokenizer/utf8.h"

namespace minfer::tok {
namespace {

/// Spellings end at U+0143.
constexpr uint32_t kSpellings = 0x144;

struct ByteMap {
  struct Spelling {
    char bytes[2];
    uint8_t length;
  };
  std::array<Spelling, 256> spelling;
  std::array<int16_t, kSpellings> byte;  ///< by code point; -1 where it spells nothing

  ByteMap() {
    byte.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      const uint32_t point = printable ? b : next++;
      byte[point] = static_cast<int16_t>(b);
      if (point < 0x80) {
        spelling[b] = {{static_cast<char>(point), 0}, 1};
      } else {
        spelling[b] = {
            {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))}, 2};
      }
    }
  }
};

const ByteMap& byte_map() {
  static const ByteMap map;
  return map;
}

/// Code point of a character of one or two bytes; others are past every spelling.
uint32_t short_code_point(std::string_view character) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(character[i]); };
  if (character.size() == 1) return at(0);
  if (character.size() == 2) return (at(0) & 0x1Fu) << 6 | (at(1) & 0x3Fu);
  return kSpellings;
}

}  // namespace

std::string_view byte_spelling(uint8_t byte) {
  const auto& spelling = byte_map().spelling[byte];
  return {spelling.bytes, spelling.length};
}

void append_spelling(std::string_view bytes, std::string& out) {
  for (const char c : bytes) out += byte_spelling(static_cast<uint8_t>(c));
}

std::string spelled_bytes(std::string_view spelling) {
  std::string out;
  out.reserve(spelling.size());
  while (!spelling.empty()) {
    const Utf8Step step = utf8_step(spelling);
    const std::string_view part = spelling.substr(0, step.length);
    const uint32_t point = step.kind == Utf8Kind::kChar ? short_code_point(part) : kSpellings;
    const int16_t byte = point < kSpellings ? byte_map().byte[point] : int16_t{-1};
    if (byte >= 0) {
      out += static_cast<char>(byte);
    } else {
      out += part;
    }
    spelling.remove_prefix(step.length);
  }
  return out;
}

}  // namespace minfer::tok
