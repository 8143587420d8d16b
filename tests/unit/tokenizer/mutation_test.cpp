// Random and randomly broken metadata: a tokenizer or an error, never a crash. The libFuzzer target
// does the same for longer.
#include <gtest/gtest.h>

#include <random>

#include "random_metadata.h"

namespace minfer::test {
namespace {

std::string random_bytes(std::mt19937& rng, size_t size) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(rng());
  return out;
}

TEST(TokenizerMutation, ArbitraryVocabulariesGiveATokenizerOrAnError) {
  std::mt19937 rng(1);
  for (int i = 0; i < 4000; ++i) {
    const std::string bytes = random_bytes(rng, rng() % 800);
    ByteReader in(bytes);
    const MetadataFile file = metadata_from(in);
    exercise(file, in.rest());
  }
}

TEST(TokenizerMutation, BrokenCopiesOfGoodVocabulariesGiveATokenizerOrAnError) {
  std::mt19937 rng(2);
  for (int i = 0; i < 1500; ++i) {
    MetadataFile file =
        i % 2 == 0 ? bpe_file({"a a", "Ġ a", "aa aa"}, {{"<|im_end|>", 3}, {"aab", 4}})
                   : spm_file({{"▁", -1}, {"a", -2}, {"aa", -1}, {"▁aa", -3}}, {{"▁▁", 4}});
    const std::string bytes = random_bytes(rng, 600);
    ByteReader in(bytes);
    for (size_t n = 1 + rng() % 3; n > 0; --n) mutate(file, in);
    exercise(file, "aa aaab <|im_end|></s>  a" + random_bytes(rng, rng() % 60));
  }
}

}  // namespace
}  // namespace minfer::test
