// Wrong metadata: each fault has a message that names the key and what was found.
#include <gtest/gtest.h>

#include <functional>

#include "metadata_file.h"
#include "minfer/log.h"
#include "minfer/tokenizer.h"

namespace minfer {
namespace {

using test::bpe_file;
using test::MetadataFile;
using test::spm_file;

struct Fault {
  const char* name;
  bool spm;
  std::function<void(MetadataFile&)> apply;
  std::vector<std::string> message;  ///< parts of the message
  ErrorCode code = ErrorCode::kTokenizer;

  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

const Fault kFaults[] = {
    {"NoModel",
     false,
     [](auto& f) { f.erase(test::kModelKey); },
     {"tokenizer.ggml.model", "missing"}},
    {"ModelIsANumber",
     false,
     [](auto& f) { f.set(test::kModelKey, uint64_t{1}); },
     {"tokenizer.ggml.model", "expected a string"}},
    {"UnknownModel",
     false,
     [](auto& f) { f.set(test::kModelKey, "bert"); },
     {"tokenizer.ggml.model", "'bert'", "gpt2", "llama"}},
    {"ModelNone",
     false,
     [](auto& f) { f.set(test::kModelKey, "none"); },
     {"tokenizer.ggml.model", "no vocabulary"},
     ErrorCode::kUnsupported},
    {"UnknownPreTokeniser",
     false,
     [](auto& f) { f.set(test::kPreKey, "klingon"); },
     {"tokenizer.ggml.pre", "'klingon'", "llama-bpe", "qwen2", "gpt-4o"}},
    {"NoTokens",
     false,
     [](auto& f) { f.erase(test::kTokensKey); },
     {"tokenizer.ggml.tokens", "missing"}},
    {"EmptyTokens",
     false,
     [](auto& f) { f.set(test::kTokensKey, std::vector<std::string>{}); },
     {"tokenizer.ggml.tokens", "empty"}},
    {"TokensAreNumbers",
     false,
     [](auto& f) {
       f.set(test::kTokensKey, std::vector<int64_t>{1, 2});
     },
     {"tokenizer.ggml.tokens", "array of strings"}},
    {"FewerTypesThanTokens",
     false,
     [](auto& f) {
       f.set(test::kTypesKey, std::vector<int64_t>{1, 1});
     },
     {"tokenizer.ggml.token_type", "2 entries", "257"}},
    {"TypeOutOfRange",
     false,
     [](auto& f) {
       std::vector<int64_t> types(257, 1);
       types[5] = 7;
       f.set(test::kTypesKey, std::move(types));
     },
     {"tokenizer.ggml.token_type", "entry 5 is 7", "0 to 6"}},
    {"NegativeType",
     false,
     [](auto& f) {
       std::vector<int64_t> types(257, 1);
       types[0] = -1;
       f.set(test::kTypesKey, std::move(types));
     },
     {"tokenizer.ggml.token_type", "entry 0 is -1"}},
    {"NoMerges",
     false,
     [](auto& f) { f.erase(test::kMergesKey); },
     {"tokenizer.ggml.merges", "missing"}},
    {"MergeWithoutSpace",
     false,
     [](auto& f) {
       f.set(test::kMergesKey, std::vector<std::string>{"a b", "ab"});
     },
     {"tokenizer.ggml.merges", "entry 1", "\"ab\""}},
    {"MergeWithoutLeft",
     false,
     [](auto& f) { f.set(test::kMergesKey, std::vector<std::string>{" b"}); },
     {"tokenizer.ggml.merges", "entry 0"}},
    {"MergeWithoutRight",
     false,
     [](auto& f) { f.set(test::kMergesKey, std::vector<std::string>{"a "}); },
     {"tokenizer.ggml.merges", "entry 0"}},
    {"MergeOfThree",
     false,
     [](auto& f) { f.set(test::kMergesKey, std::vector<std::string>{"a b c"}); },
     {"tokenizer.ggml.merges", "\"a b c\"", "two spellings"}},
    {"EmptyMerge",
     false,
     [](auto& f) { f.set(test::kMergesKey, std::vector<std::string>{""}); },
     {"tokenizer.ggml.merges", "entry 0"}},
    {"BosOutOfRange",
     false,
     [](auto& f) { f.set("tokenizer.ggml.bos_token_id", uint64_t{257}); },
     {"tokenizer.ggml.bos_token_id", "257", "257 tokens"}},
    {"EosIsAString",
     false,
     [](auto& f) { f.set("tokenizer.ggml.eos_token_id", "</s>"); },
     {"tokenizer.ggml.eos_token_id", "integer"}},
    {"EotOutOfRange",
     false,
     [](auto& f) { f.set("tokenizer.ggml.eot_token_id", uint64_t{1} << 40); },
     {"tokenizer.ggml.eot_token_id"}},
    {"AddsABosThatIsNotThere",
     false,
     [](auto& f) { f.set("tokenizer.ggml.add_bos_token", true); },
     {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id"}},
    {"AddsAnEosThatIsNotThere",
     false,
     [](auto& f) { f.set("tokenizer.ggml.add_eos_token", true); },
     {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id"}},
    {"FlagIsANumber",
     false,
     [](auto& f) { f.set("tokenizer.ggml.add_bos_token", uint64_t{1}); },
     {"tokenizer.ggml.add_bos_token", "bool"}},
    {"HugeSpecialToken",
     false,
     [](auto& f) {
       std::vector<std::string> tokens(257, "x");
       tokens[256] = std::string(2000, 'y');
       f.set(test::kTokensKey, tokens);
     },
     {"tokenizer.ggml.tokens", "entry 256", "2000 bytes"}},
    {"NoScores",
     true,
     [](auto& f) { f.erase(test::kScoresKey); },
     {"tokenizer.ggml.scores", "missing"}},
    {"FewerScoresThanTokens",
     true,
     [](auto& f) { f.set(test::kScoresKey, std::vector<double>{1}); },
     {"tokenizer.ggml.scores", "1 entries"}},
    {"ScoreIsNotANumber",
     true,
     [](auto& f) {
       std::vector<double> scores(260, 0);
       scores[9] = std::numeric_limits<double>::quiet_NaN();
       f.set(test::kScoresKey, std::move(scores));
     },
     {"tokenizer.ggml.scores", "element 9"}},
    {"PrefixFlagIsAString",
     true,
     [](auto& f) { f.set("tokenizer.ggml.add_space_prefix", "no"); },
     {"tokenizer.ggml.add_space_prefix", "bool"}},
};

class TokenizerFaults : public testing::TestWithParam<Fault> {};

TEST_P(TokenizerFaults, AreNamed) {
  const Fault& fault = GetParam();
  MetadataFile file = fault.spm ? spm_file({{"a", -1}}) : bpe_file({}, {{"<|x|>", 3}});
  ASSERT_TRUE(Tokenizer::create(file)) << "the file is good before the fault";
  fault.apply(file);
  const auto created = Tokenizer::create(file);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, fault.code);
  EXPECT_NE(created.error().where.find("test.gguf"), std::string::npos);
  for (const std::string& part : fault.message) {
    EXPECT_NE(created.error().message().find(part), std::string::npos)
        << "no \"" << part << "\" in: " << created.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Metadata, TokenizerFaults, testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

TEST(TokenizerMetadata, WithoutAPreTokeniserTheDefaultIsUsedWithAWarning) {
  auto file = bpe_file({});
  file.erase(test::kPreKey);
  std::string logged;
  set_log_sink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarn) logged += line;
  });
  EXPECT_TRUE(Tokenizer::create(file));
  set_log_sink({});
  EXPECT_NE(logged.find("tokenizer.ggml.pre"), std::string::npos) << logged;
}

TEST(TokenizerMetadata, TypesMayBeAbsentAndIdsMayBeNone) {
  auto file = bpe_file({});
  file.erase(test::kTypesKey);
  file.set("tokenizer.ggml.bos_token_id", uint64_t{UINT32_MAX});
  const auto created = Tokenizer::create(file);
  ASSERT_TRUE(created) << created.error().message();
  EXPECT_EQ((*created)->bos(), -1);
  EXPECT_EQ((*created)->vocab_size(), 256u);
}

TEST(TokenizerMetadata, OfDuplicatesTextUsesTheOneThatIsText) {
  auto file = bpe_file({}, {{"a", 3}});
  const auto created = Tokenizer::create(file);
  ASSERT_TRUE(created);
  EXPECT_EQ((*created)->encode("a", false, false), std::vector<TokenId>{'a'});
  EXPECT_EQ((*created)->encode("a", true, false), std::vector<TokenId>{256});
}

}  // namespace
}  // namespace minfer
