// SentencePiece BPE with scores, `tokenizer.ggml.model` = "llama".
//
// Spaces are written U+2581; neighbouring pieces are merged into the vocabulary's piece of highest
// score until none is left (Llama 1 and 2, Mistral, Gemma, Phi-3). What is in no piece becomes byte
// tokens. O(n log n). Immutable, safe from any thread.
#pragma once

#include <array>
#include <memory>

#include "text/tokenizer/vocab_tokenizer.h"

namespace minfer::tok {

class SpmTokenizer final : public VocabTokenizer {
 public:
  static Result<std::shared_ptr<const Tokenizer>> create(const GgufFile& file);

  bool strips_leading_space() const override { return add_space_prefix_; }

 protected:
  void encode_text(std::string_view text, bool starts, std::vector<TokenId>& out) const override;
  std::string plain_bytes(TokenId id) const override;

 private:
  class Merger;
  SpmTokenizer(Vocab vocab, SpecialMatcher::Options options, bool add_space_prefix);
  /// The piece that text may become, or -1.
  TokenId find_piece(std::string_view text) const;

  std::array<TokenId, 256> byte_tokens_;  ///< -1 where the vocabulary has none
  size_t longest_piece_ = 0;              ///< bytes
  /// No piece runs from one word into the next, so each word can be merged alone, in a queue that
  /// stays within the cache. True for Llama's vocabulary.
  bool words_are_apart_ = true;
  bool add_space_prefix_;
};

}  // namespace minfer::tok
