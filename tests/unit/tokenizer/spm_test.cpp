// SentencePiece: merging by score, spaces, byte fallback, and special tokens.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "metadata_file.h"
#include "minfer/tokenizer.h"

namespace minfer {
namespace {

using test::MetadataFile;
using test::spm_file;
using Ids = std::vector<TokenId>;

constexpr TokenId kFirstByte = 3, kFirstPiece = 259;

std::shared_ptr<const Tokenizer> create(const MetadataFile& file) {
  auto tokenizer = Tokenizer::create(file);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return tokenizer ? *tokenizer : nullptr;
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, bool special = false) {
  return tokenizer.encode(text, special, false);
}

std::string decode(std::shared_ptr<const Tokenizer> tokenizer, const Ids& ids) {
  StreamDecoder decoder(std::move(tokenizer));
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

TEST(Spm, MergesTheHighestScoreFirst) {
  auto file = spm_file({{"a", -1}, {"b", -1}, {"c", -1}, {"ab", -5}, {"bc", -4}, {"abc", -9}});
  file.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = create(file);
  EXPECT_EQ(encode(*tokenizer, "abc"), Ids{kFirstPiece + 5}) << "a + bc";
  EXPECT_EQ(encode(*tokenizer, "abab"), (Ids{kFirstPiece + 3, kFirstPiece + 3}));
}

TEST(Spm, PutsASpaceBeforeTheTextAndTakesItAway) {
  const auto tokenizer = create(spm_file({{"▁", -1}, {"a", -2}, {"▁a", -3}}));
  EXPECT_TRUE(tokenizer->strips_leading_space());
  EXPECT_EQ(encode(*tokenizer, "a a"), (Ids{kFirstPiece + 2, kFirstPiece + 2}));
  EXPECT_EQ(decode(tokenizer, encode(*tokenizer, "a a")), "a a");
  EXPECT_EQ(encode(*tokenizer, " a"), (Ids{kFirstPiece, kFirstPiece + 2}));
  EXPECT_EQ(decode(tokenizer, encode(*tokenizer, " a")), " a");
  EXPECT_EQ(encode(*tokenizer, ""), Ids{});
}

TEST(Spm, WithoutThePrefixTheTextStaysAsItIs) {
  auto file = spm_file({{"▁", -1}, {"a", -2}, {"▁a", -3}});
  file.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = create(file);
  EXPECT_EQ(encode(*tokenizer, "a a"), (Ids{kFirstPiece + 1, kFirstPiece + 2}));
  EXPECT_EQ(decode(tokenizer, encode(*tokenizer, " a")), " a");
}

TEST(Spm, UnknownCharactersBecomeBytes) {
  auto file = spm_file({{"a", -1}});
  file.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = create(file);
  EXPECT_EQ(encode(*tokenizer, "a\xC3\xA9"),
            (Ids{kFirstPiece, kFirstByte + 0xC3, kFirstByte + 0xA9}));
  EXPECT_EQ(decode(tokenizer, encode(*tokenizer, "a\xC3\xA9")), "a\xC3\xA9");
}

TEST(Spm, WithoutByteTokensTheyBecomeUnknown) {
  test::VocabBuilder vocab;
  vocab.add("<unk>", 2);
  vocab.add("a", 1, -1);
  MetadataFile file;
  file.set(test::kModelKey, "llama");
  vocab.store(file);
  file.set("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(encode(*create(file), "aé"), (Ids{1, 0, 0}));
}

TEST(Spm, PlainTextNeverMergesIntoControlOrByteTokens) {
  auto file = spm_file({{"<", -1},
                        {"s>", -2},
                        {"s", -3},
                        {">", -4},
                        {"<0", -5},
                        {"x41>", -6},
                        {"x", -7},
                        {"4", -8},
                        {"1", -9},
                        {"0", -9},
                        {"x4", -9},
                        {"1>", -9}});
  file.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = create(file);
  EXPECT_EQ(encode(*tokenizer, "<s>"), (Ids{kFirstPiece, kFirstPiece + 1}));
  EXPECT_EQ(encode(*tokenizer, "<0x41>"), (Ids{kFirstPiece + 4, kFirstPiece + 5}));
  EXPECT_EQ(encode(*tokenizer, "<s>", true), Ids{1});
}

TEST(Spm, UnusedPiecesServeOnlyAsSteps) {
  // 4 is an unused piece ("ab") on the way to "abc".
  auto file = spm_file({{"a", -1}, {"b", -1}, {"c", -1}, {"abc", -3}}, {{"ab", 5}});
  file.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = create(file);
  EXPECT_EQ(encode(*tokenizer, "abc"), Ids{kFirstPiece + 3});
  EXPECT_EQ(encode(*tokenizer, "ab"), (Ids{kFirstPiece, kFirstPiece + 1}));
}

TEST(Spm, UserDefinedTokensAreFoundWithTheirSpaces) {
  auto file = spm_file({{"▁", -1}, {"a", -2}}, {{"▁▁", 4}, {"\n\n", 4}});
  file.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = create(file);
  EXPECT_EQ(encode(*tokenizer, "a   a\n\n"),
            (Ids{kFirstPiece + 1, kFirstPiece + 2, kFirstPiece, kFirstPiece + 1, kFirstPiece + 3}));
  EXPECT_EQ(decode(tokenizer, encode(*tokenizer, "a   a\n\n")), "a   a\n\n");
}

TEST(Spm, APrefixFollowsEverySpecialToken) {
  const auto tokenizer = create(spm_file({{"▁", -1}, {"a", -2}, {"▁a", -3}}));
  EXPECT_EQ(encode(*tokenizer, "a</s>a", true), (Ids{kFirstPiece + 2, 2, kFirstPiece + 2}));
}

TEST(Spm, DefaultsToTheIdsOfSentencePiece) {
  const auto tokenizer = create(spm_file({{"a", -1}}));
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->end_tokens().size(), 1u);
}

TEST(Spm, Phi3TokensTakeTheSpaceAfterThem) {
  auto file = spm_file({{"▁", -1}, {"a", -2}, {"▁a", -3}}, {{"<|user|>", 3}, {"<|endoftext|>", 3}});
  file.set("general.name", "Phi-3 mini");
  const auto tokenizer = create(file);
  const TokenId user = kFirstPiece + 3, text_end = kFirstPiece + 4, a = kFirstPiece + 2;
  EXPECT_EQ(encode(*tokenizer, "<|user|>\n \ta", true), (Ids{user, a}));
  EXPECT_EQ(encode(*tokenizer, "<|endoftext|> a", true), (Ids{text_end, kFirstPiece, a}));
  const std::vector<TextSegment> segments{{"<|user|>\n", true}, {"\n a", false}};
  EXPECT_EQ(tokenizer->encode(segments, false), (Ids{user, a})) << "also into a message";
}

/// Merging by its definition.
Ids merge_by_definition(const std::vector<std::string>& characters,
                        const std::map<std::string, std::pair<TokenId, double>>& pieces) {
  std::vector<std::string> parts = characters;
  while (true) {
    size_t best = parts.size();
    double best_score = -1e30;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto piece = pieces.find(parts[i] + parts[i + 1]);
      if (piece != pieces.end() && piece->second.second > best_score) {
        best = i;
        best_score = piece->second.second;
      }
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids out;
  for (const std::string& part : parts) out.push_back(pieces.at(part).first);
  return out;
}

TEST(Spm, AgreesWithTheDefinitionOnRandomPiecesAndTexts) {
  std::mt19937 rng(5);
  for (int round = 0; round < 40; ++round) {
    // In odd rounds a piece may hold a space within, so that words cannot be merged alone.
    const bool spaces_within = round % 2 == 1;
    std::vector<std::pair<std::string, double>> list{{"a", -99}, {"b", -99}, {"▁", -99}};
    std::map<std::string, std::pair<TokenId, double>> pieces;
    for (size_t i = 0; i < list.size(); ++i) {
      pieces[list[i].first] = {kFirstPiece + static_cast<TokenId>(i), list[i].second};
    }
    for (int tries = 0; tries < 120; ++tries) {
      const std::string left = list[rng() % list.size()].first;
      const std::string right = list[rng() % list.size()].first;
      const bool joins_words = right.starts_with("▁") && !left.ends_with("▁");
      if (pieces.contains(left + right) || left.size() + right.size() > 16) continue;
      if (joins_words && !spaces_within) continue;
      // Few distinct scores, so that ties are common.
      const double score = -static_cast<double>(rng() % 12);
      pieces[left + right] = {kFirstPiece + static_cast<TokenId>(list.size()), score};
      list.emplace_back(left + right, score);
    }
    auto file = spm_file(list);
    file.set("tokenizer.ggml.add_space_prefix", false);
    const auto tokenizer = create(file);
    for (int i = 0; i < 40; ++i) {
      std::string text;
      std::vector<std::string> characters;
      for (size_t n = 1 + rng() % 60; n > 0; --n) {
        const char c = "ab "[rng() % 3];
        text += c;
        characters.emplace_back(c == ' ' ? "▁" : std::string(1, c));
      }
      ASSERT_EQ(encode(*tokenizer, text), merge_by_definition(characters, pieces)) << text;
    }
  }
}

TEST(Spm, RandomBytesSurviveARoundTrip) {
  std::mt19937 rng(3);
  const auto tokenizer = create(spm_file({{"▁", -1}, {"a", -2}, {"▁a", -3}, {"é", -4}}));
  for (int i = 0; i < 300; ++i) {
    std::string text(rng() % 200, '\0');
    for (char& c : text) c = static_cast<char>(rng() % (i % 2 == 0 ? 256 : 128));
    std::string bytes;
    for (const TokenId id : encode(*tokenizer, text)) bytes += tokenizer->token_bytes(id);
    ASSERT_EQ(bytes, text.empty() ? "" : " " + text);
  }
}

}  // namespace
}  // namespace minfer
