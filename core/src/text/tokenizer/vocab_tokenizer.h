// What both tokenizer models share: special tokens, BOS and EOS, and the metadata queries.
//
// A model supplies only how text between special tokens becomes ids and how a plain token becomes
// bytes. Immutable after construction, safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "minfer/tokenizer.h"
#include "text/tokenizer/special_matcher.h"
#include "text/tokenizer/vocab.h"

namespace minfer::tok {

class VocabTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::span<const TextSegment> segments, bool add_special) const final;
  using Tokenizer::encode;
  std::string token_bytes(TokenId id, bool special) const final;
  std::string_view token_text(TokenId id) const final;
  TokenId find_token(std::string_view text) const final { return vocab_.find(text); }
  uint32_t vocab_size() const final { return vocab_.size(); }
  TokenId bos() const final { return vocab_.bos(); }
  TokenId eos() const final { return vocab_.eos(); }
  bool adds_bos() const final { return vocab_.add_bos(); }
  std::span<const TokenId> end_tokens() const final { return vocab_.end_tokens(); }
  bool is_control(TokenId id) const final;

 protected:
  VocabTokenizer(Vocab vocab, SpecialMatcher::Options options)
      : vocab_(std::move(vocab)), matcher_(vocab_, std::move(options)) {}

  /// Appends the ids of text without special tokens; never empty. `starts` is set at the start of
  /// the prompt and after a special token.
  virtual void encode_text(std::string_view text, bool starts, std::vector<TokenId>& out) const = 0;
  /// Bytes of a token that is neither control nor unknown.
  virtual std::string plain_bytes(TokenId id) const = 0;

  const Vocab& vocab() const { return vocab_; }

 private:
  Vocab vocab_;
  SpecialMatcher matcher_;
};

/// White space after special tokens is part of them for these ids, in files of models whose
/// tokenizer.json says so. GGUF has no field for it, so the model is known by `general.name`.
Result<std::vector<bool>> tokens_that_strip_right(const GgufFile& file, const Vocab& vocab);

}  // namespace minfer::tok
