// Streaming: whole UTF-8 characters, and U+FFFD for what can never be one.
#include <gtest/gtest.h>

#include <random>

#include "metadata_file.h"
#include "minfer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace minfer {
namespace {

std::shared_ptr<const Tokenizer> bytes_tokenizer() {
  return *Tokenizer::create(test::bpe_file({}, {{"<|x|>", 3}}));
}

/// What a decoder gives after each byte, and at the end.
std::vector<std::string> stream(std::string_view bytes) {
  StreamDecoder decoder(bytes_tokenizer());
  std::vector<std::string> out;
  // Ids 0 to 255 of the test vocabulary are the bytes.
  for (const char c : bytes) out.push_back(decoder.push(static_cast<uint8_t>(c)));
  out.push_back(decoder.finish());
  return out;
}

using Parts = std::vector<std::string>;

TEST(StreamDecoder, KeepsAnUnfinishedCharacterBack) {
  EXPECT_EQ(stream("a\xC3\xA9"), (Parts{"a", "", "é", ""}));
  EXPECT_EQ(stream("\xF0\x9F\x9A\x80!"), (Parts{"", "", "", "🚀", "!", ""}));
}

TEST(StreamDecoder, BrokenBytesComeOutAsReplacementCharacters) {
  EXPECT_EQ(stream("\xFF"), (Parts{"\uFFFD", ""}));
  EXPECT_EQ(stream("\x80x"), (Parts{"\uFFFD", "x", ""}));
  EXPECT_EQ(stream("\xE2\x82"
                   "A"),
            (Parts{"", "",
                   "\uFFFD"
                   "A",
                   ""}));
  EXPECT_EQ(stream("\xE2\x82"), (Parts{"", "", "\uFFFD"})) << "cut short";
  EXPECT_EQ(stream("\xED\xA0\x80"), (Parts{"", "\uFFFD\uFFFD", "\uFFFD", ""})) << "a surrogate";
  EXPECT_EQ(stream("\xC0\xAF"), (Parts{"\uFFFD", "\uFFFD", ""})) << "overlong";
  EXPECT_EQ(stream("\xF4\x90"), (Parts{"", "\uFFFD\uFFFD", ""})) << "past U+10FFFF";
}

TEST(StreamDecoder, IsTheSameHoweverTheBytesArrive) {
  std::mt19937 rng(4);
  for (int i = 0; i < 500; ++i) {
    std::string bytes(rng() % 40, '\0');
    constexpr std::string_view kLikely = "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x9A\x80\xED\xA0\xF4\x8F a";
    for (char& c : bytes) c = kLikely[rng() % kLikely.size()];
    std::string whole;
    for (std::string_view rest = bytes; !rest.empty();) {
      const tok::Utf8Step step = tok::utf8_step(rest);
      whole += step.kind == tok::Utf8Kind::kChar ? rest.substr(0, step.length) : "\uFFFD";
      rest.remove_prefix(step.length);
    }
    std::string streamed;
    for (const std::string& part : stream(bytes)) {
      EXPECT_EQ(tok::utf8_valid_prefix(part), part.size());
      streamed += part;
    }
    EXPECT_EQ(streamed, whole);
  }
}

TEST(StreamDecoder, ShowsControlTokensOnlyWhenAsked) {
  StreamDecoder plain(bytes_tokenizer()), special(bytes_tokenizer(), true);
  EXPECT_EQ(plain.push(256), "");
  EXPECT_EQ(special.push(256), "<|x|>");
}

TEST(StreamDecoder, TakesOnlyTheFirstSpaceAway) {
  const auto tokenizer = *Tokenizer::create(test::spm_file({{"▁", -1}, {"▁a", -2}}));
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(1), "") << "a control token is no text";
  EXPECT_EQ(decoder.push(260), "a");
  EXPECT_EQ(decoder.push(260), " a");
  EXPECT_EQ(decoder.push(259), " ");
}

TEST(Utf8, ClassifiesEveryTwoByteSequence) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(first), static_cast<char>(second)};
      const tok::Utf8Step step = tok::utf8_step(text);
      const bool continues = second >= 0x80 && second <= 0xBF;
      if (first < 0x80) {
        EXPECT_EQ(step.kind, tok::Utf8Kind::kChar);
        EXPECT_EQ(step.length, 1u);
      } else if (first >= 0xC2 && first <= 0xDF && continues) {
        EXPECT_EQ(step.kind, tok::Utf8Kind::kChar);
        EXPECT_EQ(step.length, 2u);
      } else {
        EXPECT_NE(step.kind, tok::Utf8Kind::kChar) << first << ' ' << second;
        EXPECT_GE(step.length, 1u);
        EXPECT_LE(step.length, 2u);
      }
    }
  }
}

}  // namespace
}  // namespace minfer
