// tokenizer_batch FILE.gguf < FRAMES: ids of many texts, for comparing with another implementation.
//
// A frame is the length of a text as 4 bytes little-endian, a byte of flags (1: parse special
// tokens, 2: add BOS and EOS), and the text. For each frame a line of ids, and a line with the
// decoded text in hexadecimal. tests/golden/compare_tokenizer.py drives it.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "minfer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: tokenizer_batch FILE.gguf < FRAMES\n");
    return 2;
  }
  const auto file = minfer::GgufFile::open(argv[1]);
  if (!file) {
    fmt::print(stderr, "{}\n", file.error().message());
    return 1;
  }
  const auto tokenizer = minfer::Tokenizer::create(**file);
  if (!tokenizer) {
    fmt::print(stderr, "{}\n", tokenizer.error().message());
    return 1;
  }
  unsigned char head[5];
  while (std::cin.read(reinterpret_cast<char*>(head), sizeof head)) {
    const uint32_t size = head[0] | head[1] << 8 | head[2] << 16 | uint32_t{head[3]} << 24;
    std::string text(size, '\0');
    std::cin.read(text.data(), size);
    const auto ids = (*tokenizer)->encode(text, (head[4] & 1) != 0, (head[4] & 2) != 0);
    std::string line, hex;
    for (const minfer::TokenId id : ids) line += fmt::format("{} ", id);
    for (const minfer::TokenId id : ids) {
      for (const unsigned char c : (*tokenizer)->token_bytes(id, true)) {
        hex += fmt::format("{:02x}", c);
      }
    }
    fmt::print("{}\n{}\n", line, hex);
  }
}
