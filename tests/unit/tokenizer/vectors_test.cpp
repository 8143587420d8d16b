// Texts and ids recorded from the tokenizers of real models.
//
// ../shared/data/vocab has the texts and ids, and most vocabularies. Those of qwen2 and llama-bpe
// are made by tests/golden/tokenizer_vocab.py; what is not there is skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "minfer/tokenizer.h"

namespace minfer {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<std::string> split(const std::string& text, std::string_view separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != text.npos;) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::filesystem::path built_vocab_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::filesystem::path(cache) / "minfer/vocab";
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) / ".cache/minfer/vocab";
}

class TokenizerVectors : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerVectors, GiveTheRecordedIdsAndDecodeToTheText) {
  const std::string name = std::string("ggml-vocab-") + GetParam() + ".gguf";
  const std::filesystem::path shared = MINFER_SOURCE_DIR "/../shared/data/vocab";
  if (!exists(shared / (name + ".inp"))) GTEST_SKIP() << "no " << shared / (name + ".inp");
  std::filesystem::path vocab = shared / name;
  if (!exists(vocab)) vocab = built_vocab_folder() / name;
  if (!exists(vocab)) {
    GTEST_SKIP() << "no " << vocab << "; tests/golden/tokenizer_vocab.py " << GetParam()
                 << " makes it";
  }
  const auto file = GgufFile::open(vocab);
  ASSERT_TRUE(file) << file.error().message();
  const auto tokenizer = Tokenizer::create(**file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();

  const auto texts = split(read_file(shared / (name + ".inp")), "\n__ggml_vocab_test__\n");
  const auto lines = split(read_file(shared / (name + ".out")), "\n");
  ASSERT_GE(texts.size(), 40u);
  ASSERT_EQ(texts.size(), lines.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::vector<TokenId> expected;
    std::istringstream numbers(lines[i]);
    for (TokenId id; numbers >> id;) expected.push_back(id);
    const std::vector<TokenId> ids = (*tokenizer)->encode(texts[i], false, false);
    EXPECT_EQ(ids, expected) << "text " << i << ": \"" << texts[i] << "\"";

    StreamDecoder decoder(*tokenizer);
    std::string decoded;
    for (const TokenId id : ids) decoded += decoder.push(id);
    EXPECT_EQ(decoded + decoder.finish(), texts[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocab, TokenizerVectors,
                         testing::Values("deepseek-coder", "deepseek-llm", "gpt-2", "llama-bpe",
                                         "llama-spm", "phi-3", "qwen2"),
                         [](const auto& vocab) {
                           std::string name = vocab.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace minfer
