// Pre-tokenisers: every row of the table compiles, covers the text, and cuts it as its model does.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>

#include "text/tokenizer/pre_splitter.h"

namespace minfer::tok {
namespace {

using Words = std::vector<std::string>;

PreSplitter splitter(std::string_view name) {
  const PreRule* rule = find_pre_rule(name);
  if (rule == nullptr) throw std::invalid_argument(std::string(name));
  auto created = PreSplitter::create(*rule);
  if (!created) throw std::runtime_error(created.error().message());
  return std::move(*created);
}

Words words(std::string_view name, std::string_view text) {
  std::vector<size_t> ends;
  splitter(name).split(text, ends);
  Words out;
  size_t begin = 0;
  for (const size_t end : ends) {
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

TEST(PreRules, NamesAreUniqueAndListedOnce) {
  std::set<std::string_view> names;
  for (const PreRule& rule : all_pre_rules()) {
    ASSERT_FALSE(rule.names.empty());
    ASSERT_FALSE(rule.patterns.empty());
    for (const std::string_view name : rule.names) {
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_EQ(find_pre_rule(name), &rule);
    }
    EXPECT_NE(pre_rule_names().find(rule.names[0]), std::string::npos);
  }
  EXPECT_EQ(find_pre_rule("qwen"), nullptr);
}

TEST(PreRules, KnowsTheNamesInUse) {
  for (const char* name :
       {"default", "gpt-2", "qwen2", "llama-bpe", "llama3", "llama-v3", "smollm", "deepseek-llm",
        "deepseek-coder", "deepseek-r1-qwen", "deepseek-v3", "falcon", "starcoder", "refact", "mpt",
        "command-r", "gpt-4o", "tekken", "qwen35"}) {
    EXPECT_NE(find_pre_rule(name), nullptr) << name;
  }
}

TEST(PreSplitter, CutsAsTheModelDoes) {
  const std::string_view text = "I'LL pay  1234€\n\n it's";
  EXPECT_EQ(words("gpt-2", text),
            (Words{"I", "'", "LL", " pay", " ", " 1234", "€", "\n\n", " it", "'s"}));
  EXPECT_EQ(words("smollm", text),
            (Words{"I", "'", "LL", " pay", "  ", "1", "2", "3", "4", "€", "\n\n", " it", "'s"}));
  EXPECT_EQ(words("llama-bpe", text),
            (Words{"I", "'LL", " pay", " ", " ", "123", "4", "€\n\n", " it", "'s"}));
  EXPECT_EQ(words("qwen2", "a 12"), (Words{"a", " ", "1", "2"}));
  EXPECT_EQ(words("gpt-4o", "CamelCase'S 1234/\n"),
            (Words{"Camel", "Case'S", " ", "123", "4", "/\n"}));
  EXPECT_EQ(words("tekken", "CamelCase's12"), (Words{"Camel", "Case", "'s", "1", "2"}));
  EXPECT_EQ(words("falcon", "a,b 12345"), (Words{"a", ",", "b", " ", "123", "45"}));
  EXPECT_EQ(words("deepseek-coder", "x = 12\n"), (Words{"x", " = ", "1", "2", "\n"}));
  EXPECT_EQ(words("deepseek-llm", "é你好 a!  "), (Words{"é", "你好", " a", "!", "  "}));
  // U+212A is the Kelvin sign, one of the letters; U+2129 is none.
  EXPECT_EQ(words("deepseek-llm", "\u212A\u2129"), (Words{"\u212A", "\u2129"}));
  EXPECT_EQ(words("bloom", "one two,three"), (Words{"one", " two", ",", "three"}));
}

TEST(PreSplitter, WhiteSpaceIsTheUnicodeProperty) {
  // U+0085 and U+3000 are white space, U+180E is not any more.
  EXPECT_EQ(words("gpt-2", "a\u0085\u3000b"), (Words{"a", "\u0085", "\u3000", "b"}));
  EXPECT_EQ(words("gpt-2", "a\u180E!b"), (Words{"a", "\u180E!", "b"}));
  EXPECT_EQ(expand_white_space(R"([^\s\p{L}])").find('s'), std::string::npos);
}

TEST(PreSplitter, BrokenBytesAreWordsOfTheirOwn) {
  EXPECT_EQ(words("gpt-2", "ab\xFF\xC3 cd\xE2\x82"), (Words{"ab", "\xFF\xC3", " cd", "\xE2\x82"}));
  EXPECT_EQ(words("gpt-2", ""), Words{});
}

TEST(PreSplitter, EveryRuleCoversTheTextAndCompiles) {
  std::mt19937 rng(6);
  for (const PreRule& rule : all_pre_rules()) {
    const auto created = PreSplitter::create(rule);
    ASSERT_TRUE(created) << rule.names[0] << ": " << created.error().message();
    std::vector<size_t> ends;
    for (int i = 0; i < 200; ++i) {
      std::string text(rng() % 100, '\0');
      for (char& c : text) c = static_cast<char>(rng() % (i % 2 == 0 ? 128 : 256));
      created->split(text, ends);
      size_t previous = 0;
      for (const size_t end : ends) {
        ASSERT_GT(end, previous);
        previous = end;
      }
      ASSERT_EQ(previous, text.size());
    }
  }
}

TEST(PreSplitter, LongRunsTakeTimeInProportion) {
  const std::vector<std::string> units{" ",       "a",  "A",  "1",    "\n",  "\r\n",
                                       " \n",     "'",  "!",  "é",    "中",  "\u3000",
                                       "e\u0301", "aA", " a", "\xFF", "\xC3"};
  for (const PreRule& rule : all_pre_rules()) {
    const auto created = PreSplitter::create(rule);
    ASSERT_TRUE(created);
    std::vector<size_t> ends;
    for (const std::string& unit : units) {
      std::string text;
      while (text.size() < 200'000) text += unit;
      for (const char* tail : {"中", "x"}) {
        const auto start = std::chrono::steady_clock::now();
        created->split(text + tail, ends);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        // Quadratic matching takes minutes at this length.
        ASSERT_LT(seconds.count(), 10) << rule.names[0] << " on " << unit << "... " << tail;
      }
    }
  }
}

}  // namespace
}  // namespace minfer::tok
