// Byte-level BPE, `tokenizer.ggml.model` = "gpt2".
//
// Text is cut into words by the pre-tokeniser; the bytes of a word are merged pair by pair in the
// order of `tokenizer.ggml.merges`. O(n log n) in the length of a word. Every byte string survives
// encoding and decoding unchanged. Immutable, safe from any thread.
#pragma once

#include <array>
#include <memory>

#include "text/tokenizer/pre_splitter.h"
#include "text/tokenizer/vocab_tokenizer.h"

namespace minfer::tok {

class BpeTokenizer final : public VocabTokenizer {
 public:
  static Result<std::shared_ptr<const Tokenizer>> create(const GgufFile& file);

 protected:
  void encode_text(std::string_view text, bool starts, std::vector<TokenId>& out) const override;
  std::string plain_bytes(TokenId id) const override;

 private:
  struct Parts;
  class Merger;
  explicit BpeTokenizer(Parts parts);

  MergeMap merges_;
  std::array<int32_t, 256> byte_pieces_;  ///< piece that spells each byte
  PreSplitter splitter_;
  bool ignore_merges_ = false;
};

}  // namespace minfer::tok
