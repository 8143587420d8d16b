// The spelling of bytes in byte-level vocabularies.
//
// GPT-2 and its successors spell every byte as one printable character: printable Latin-1 bytes
// stand for themselves, the other 68 are numbered from U+0100 upwards in byte order (so a space is
// U+0120). Immutable tables, safe from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace minfer::tok {

/// The character that spells `byte`, one or two bytes of UTF-8.
std::string_view byte_spelling(uint8_t byte);

/// Appends the spelling of all bytes of `bytes`.
void append_spelling(std::string_view bytes, std::string& out);

/// The bytes that a vocabulary entry spells. Characters that spell no byte are kept as they are.
std::string spelled_bytes(std::string_view spelling);

}  // namespace minfer::tok
