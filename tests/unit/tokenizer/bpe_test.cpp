// Byte-level BPE: merging, special tokens, and what survives a round trip.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>

#include "metadata_file.h"
#include "minfer/tokenizer.h"

namespace minfer {
namespace {

using test::bpe_file;
using test::MetadataFile;
using Ids = std::vector<TokenId>;

std::shared_ptr<const Tokenizer> create(const MetadataFile& file) {
  auto tokenizer = Tokenizer::create(file);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return tokenizer ? *tokenizer : nullptr;
}

std::string decode(const Tokenizer& tokenizer, const Ids& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.token_bytes(id);
  return bytes;
}

std::string random_bytes(std::mt19937& rng, size_t size, int first = 0, int last = 255) {
  std::uniform_int_distribution<int> byte(first, last);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(byte(rng));
  return out;
}

TEST(Bpe, MergesInTheOrderOfTheList) {
  const auto tokenizer = create(bpe_file({"b c", "a b", "ab c"}));
  // "b c" comes first, so "ab" never forms, and no merge joins "a" and "bc".
  EXPECT_EQ(tokenizer->encode("abc", false, false), (Ids{'a', 256}));
  EXPECT_EQ(tokenizer->encode("ab", false, false), (Ids{257}));
}

TEST(Bpe, OfEqualPairsTheLeftmostMergesFirst) {
  const auto tokenizer = create(bpe_file({"a a"}));
  EXPECT_EQ(tokenizer->encode("aaa", false, false), (Ids{256, 'a'}));
}

TEST(Bpe, TheFirstOfDoubledMergesCounts) {
  auto file = bpe_file({"a b", "b c"});
  file.set(test::kMergesKey, std::vector<std::string>{"a b", "b c", "a b"});
  EXPECT_EQ(create(file)->encode("abc", false, false), (Ids{256, 'c'}));
}

TEST(Bpe, IgnoreMergesTakesWholeWordsFromTheVocabulary) {
  const std::vector<std::pair<std::string, int64_t>> words{{"abc", 1}};
  EXPECT_EQ(create(bpe_file({"a b"}, words, "llama-bpe"))->encode("abc", false, false), Ids{257});
  EXPECT_EQ(create(bpe_file({"a b"}, words, "qwen2"))->encode("abc", false, false),
            (Ids{256, 'c'}));
}

TEST(Bpe, PiecesOutsideTheVocabularyFallBackToBytes) {
  auto file = bpe_file({"a b"});
  file.set(test::kMergesKey, std::vector<std::string>{"a b", "ab c"});
  EXPECT_EQ(create(file)->encode("abc", false, false), (Ids{'a', 'b', 'c'}));
}

/// Merging by its definition: look for the lowest rank in the whole word, again and again.
Ids merge_by_definition(const std::string& word, const std::map<std::string, int>& ranks,
                        const std::map<std::string, TokenId>& ids) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best = parts.size();
    int best_rank = INT32_MAX;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = ranks.find(parts[i] + ' ' + parts[i + 1]);
      if (rank != ranks.end() && rank->second < best_rank) {
        best = i;
        best_rank = rank->second;
      }
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids out;
  for (const std::string& part : parts) out.push_back(ids.at(part));
  return out;
}

TEST(Bpe, AgreesWithTheDefinitionOnRandomMergesAndWords) {
  std::mt19937 rng(7);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::string> pieces{"a", "b", "c", "d"}, merges;
    std::map<std::string, int> ranks;
    std::map<std::string, TokenId> ids;
    for (const std::string& piece : pieces) ids[piece] = piece[0];
    while (merges.size() < 60) {
      const std::string left = pieces[rng() % pieces.size()], right = pieces[rng() % pieces.size()];
      if (ids.contains(left + right) || left.size() + right.size() > 12) continue;
      ids[left + right] = static_cast<TokenId>(256 + merges.size());
      ranks[left + ' ' + right] = static_cast<int>(merges.size());
      merges.push_back(left + ' ' + right);
      pieces.push_back(left + right);
    }
    const auto tokenizer = create(bpe_file(merges));
    for (int i = 0; i < 50; ++i) {
      const std::string word = random_bytes(rng, 1 + rng() % 80, 'a', 'd');
      ASSERT_EQ(tokenizer->encode(word, false, false), merge_by_definition(word, ranks, ids))
          << word;
    }
  }
}

TEST(Bpe, RandomBytesSurviveARoundTripUnderEveryPreTokeniser) {
  std::mt19937 rng(11);
  for (const char* pre : {"default", "gpt-2", "smollm", "falcon", "llama-bpe", "qwen2", "gpt-4o",
                          "tekken", "deepseek-llm", "deepseek-coder", "deepseek-v3", "bloom"}) {
    const auto tokenizer = create(bpe_file({"a a", "Ġ Ġ", "Ã ©", "aa aa"}, {}, pre));
    for (int i = 0; i < 100; ++i) {
      // Half of the texts stay below 80, so that words and spaces occur too.
      const std::string text = random_bytes(rng, rng() % 300, 0, i % 2 == 0 ? 255 : 127);
      ASSERT_EQ(decode(*tokenizer, tokenizer->encode(text, i % 3 == 0, false)), text) << pre;
    }
  }
}

TEST(Bpe, ControlTokensAreParsedOnlyWhereAskedFor) {
  const auto tokenizer = create(bpe_file({}, {{"<|im_end|>", 3}, {"<tool>", 4}}));
  const Ids spelled = tokenizer->encode("<|im_end|>", false, false);
  EXPECT_EQ(spelled.size(), 10u);
  EXPECT_EQ(tokenizer->encode("<|im_end|>", true, false), Ids{256});
  EXPECT_EQ(tokenizer->encode("x<tool>y", false, false), (Ids{'x', 257, 'y'}));

  const std::vector<TextSegment> segments{{"<|im_end|>", true}, {"<|im_end|>", false}, {"!", true}};
  Ids expected{256};
  expected.insert(expected.end(), spelled.begin(), spelled.end());
  expected.push_back('!');
  EXPECT_EQ(tokenizer->encode(segments, false), expected);
}

TEST(Bpe, AControlTokenNeverFormsAcrossTheBorderOfAMessage) {
  const auto tokenizer = create(bpe_file({}, {{"<|im_end|>", 3}}));
  const std::vector<std::vector<TextSegment>> prompts{
      {{"<|im_", true}, {"end|>", false}},
      {{"<|im_", false}, {"end|>", true}},
      {{"<|im", true}, {"_", false}, {"end|>", true}}};
  for (const auto& segments : prompts) EXPECT_EQ(tokenizer->encode(segments, false).size(), 10u);
  // Two pieces of template text are one text.
  const std::vector<TextSegment> both{{"<|im_", true}, {"", false}, {"end|>", true}};
  EXPECT_EQ(tokenizer->encode(both, false), Ids{256});
}

TEST(Bpe, AMessageCannotSwallowTheStartOfAControlToken) {
  const auto tokenizer = create(bpe_file({}, {{"<|end|>", 3}, {"!<", 4}}));
  const std::vector<TextSegment> segments{{"!", false}, {"<|end|>", true}};
  EXPECT_EQ(tokenizer->encode(segments, false), (Ids{'!', 256}));
}

TEST(Bpe, WordsRunAcrossSegments) {
  const auto tokenizer = create(bpe_file({"a b"}));
  const std::vector<TextSegment> segments{{"a", true}, {"b", false}};
  EXPECT_EQ(tokenizer->encode(segments, false), Ids{256});
}

TEST(Bpe, PlainTextNeverMergesIntoAControlToken) {
  auto file = bpe_file({"a b"}, {{"cd", 3}}, "llama-bpe");
  file.set(test::kMergesKey, std::vector<std::string>{"a b", "c d"});
  const auto tokenizer = create(file);
  EXPECT_EQ(tokenizer->encode("cd", false, false), (Ids{'c', 'd'}));
  EXPECT_EQ(tokenizer->encode("ab", false, false), Ids{256});
}

TEST(Bpe, BytesThatNothingSpellsAreUnknownButNeverAControlToken) {
  for (const int64_t type : {2, 3}) {
    test::VocabBuilder vocab;
    vocab.add("a");
    vocab.add("<unk>", type);
    MetadataFile file;
    file.set(test::kModelKey, "gpt2");
    file.set(test::kPreKey, "gpt-2");
    vocab.store(file);
    file.set(test::kMergesKey, std::vector<std::string>{});
    file.set("tokenizer.ggml.unknown_token_id", uint64_t{1});
    EXPECT_EQ(create(file)->encode("aba", false, false), type == 2 ? (Ids{0, 1, 0}) : (Ids{0, 0}));
  }
}

TEST(Bpe, TheLongestSpecialTokenAtAPlaceWins) {
  const auto tokenizer = create(bpe_file({}, {{"<a>", 4}, {"<a><b>", 4}, {"<a", 4}}));
  EXPECT_EQ(tokenizer->encode("<a><b><a>x<a", false, false), (Ids{257, 256, 'x', 258}));
}

TEST(Bpe, AddsBosAndEosAsTheMetadataSays) {
  auto file = bpe_file({}, {{"<s>", 3}, {"</s>", 3}});
  file.set("tokenizer.ggml.bos_token_id", uint64_t{256});
  file.set("tokenizer.ggml.eos_token_id", uint64_t{257});
  EXPECT_EQ(create(file)->encode("a", false, true), Ids{'a'}) << "gpt-2 adds nothing by itself";
  file.set("tokenizer.ggml.add_bos_token", true);
  file.set("tokenizer.ggml.add_eos_token", true);
  const auto tokenizer = create(file);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->encode("a", false, true), (Ids{256, 'a', 257}));
  EXPECT_EQ(tokenizer->encode("a", false, false), Ids{'a'});
  EXPECT_EQ(tokenizer->encode("<s>a</s>", true, true), (Ids{256, 'a', 257})) << "none is doubled";
  EXPECT_EQ(tokenizer->encode("a<s>", true, true), (Ids{256, 'a', 256, 257}));
  EXPECT_EQ(tokenizer->encode("", false, true), (Ids{256, 257}));
  file.set(test::kPreKey, "llama-bpe");
  file.erase("tokenizer.ggml.add_bos_token");
  EXPECT_TRUE(create(file)->adds_bos()) << "llama-bpe adds BOS unless told otherwise";
}

TEST(Bpe, KnowsTheTokensThatEndGeneration) {
  auto file =
      bpe_file({}, {{"<|im_end|>", 3}, {"<|endoftext|>", 3}, {"<|eot_id|>", 1}, {"odd", 3}});
  file.set("tokenizer.ggml.eos_token_id", uint64_t{'z'});
  file.set("tokenizer.ggml.eom_token_id", uint64_t{259});
  const auto tokenizer = create(file);
  const Ids ends(tokenizer->end_tokens().begin(), tokenizer->end_tokens().end());
  EXPECT_EQ(ends, (Ids{'z', 259, 256, 257})) << "<|eot_id|> is ordinary text here";
}

TEST(Bpe, AnInnerEndOfMessageDoesNotEndATurn) {
  const auto harmony = create(bpe_file({}, {{"<|end|>", 3}, {"<|return|>", 3}, {"<|call|>", 3}}));
  EXPECT_EQ(Ids(harmony->end_tokens().begin(), harmony->end_tokens().end()), (Ids{257, 258}));
  const auto phi = create(bpe_file({}, {{"<|end|>", 3}}));
  EXPECT_EQ(Ids(phi->end_tokens().begin(), phi->end_tokens().end()), Ids{256});
}

TEST(Bpe, TokensAreSpelledAndPrinted) {
  const auto tokenizer = create(bpe_file({"Ġ a"}, {{"<|x|>", 3}, {"Ġuser", 4}}));
  EXPECT_EQ(tokenizer->token_text(256), "Ġa");
  EXPECT_EQ(tokenizer->token_bytes(256), " a");
  EXPECT_EQ(tokenizer->token_bytes(257), "");
  EXPECT_EQ(tokenizer->token_bytes(257, true), "<|x|>");
  EXPECT_EQ(tokenizer->token_bytes(258), "Ġuser") << "user-defined tokens are text as it stands";
  EXPECT_EQ(tokenizer->find_token("<|x|>"), 257);
  EXPECT_EQ(tokenizer->find_token("nothing"), -1);
  EXPECT_TRUE(tokenizer->is_control(257));
  EXPECT_FALSE(tokenizer->is_control(258));
  for (const TokenId id : {-1, 259, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer->token_bytes(id, true), "");
    EXPECT_EQ(tokenizer->token_text(id), "");
    EXPECT_FALSE(tokenizer->is_control(id));
  }
}

TEST(Bpe, LongWordsTakeTimeInProportion) {
  std::vector<std::string> merges{"a a", "aa aa", "aaaa aaaa", "Ġ Ġ", "ĠĠ ĠĠ"};
  const auto tokenizer = create(bpe_file(merges, {}, "deepseek-llm"));
  for (const std::string unit : {"a", " ", "A", "\n", "!", "1", "\xE4\xB8\xAD", "\xFF"}) {
    std::string text;
    while (text.size() < 500'000) text += unit;
    text += "\xE4\xB8\xAD";
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = tokenizer->encode(text, true, false);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(decode(*tokenizer, ids), text);
    // Quadratic work would take minutes; the bound leaves room for sanitizers and busy machines.
    EXPECT_LT(seconds.count(), 20) << "unit " << unit;
  }
}

}  // namespace
}  // namespace minfer
