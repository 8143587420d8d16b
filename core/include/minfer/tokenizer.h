// Tokenizers from GGUF metadata: byte-level BPE and SentencePiece.
//
// A Tokenizer is immutable after creation and safe to use from any thread. It owns copies of what
// it needs; the GGUF file may be closed. Streaming decoders are per-sequence values.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "minfer/gguf.h"
#include "minfer/result.h"

namespace minfer {

using TokenId = int32_t;

/// A piece of a rendered prompt. Special tokens are recognised only where `parse_special` is set,
/// which is where the template's own text stands; text from messages never turns into control
/// tokens.
struct TextSegment {
  std::string text;
  bool parse_special = false;
};

class Tokenizer {
 public:
  /// Builds the tokenizer that `tokenizer.ggml.*` describes. Fails with kTokenizer and the key's
  /// name on missing or contradicting metadata, and on an unknown model or pre-tokeniser. A file
  /// whose `tokenizer.ggml.model` is "none" fails with kUnsupported.
  static Result<std::shared_ptr<const Tokenizer>> create(const GgufFile& file);
  virtual ~Tokenizer() = default;

  /// Ids of the segments in order. With `add_special`, the vocabulary's BOS (and EOS where the
  /// metadata asks for it) is put around them; a BOS is not doubled when the text already starts
  /// with it.
  virtual std::vector<TokenId> encode(std::span<const TextSegment> segments,
                                      bool add_special) const = 0;
  std::vector<TokenId> encode(std::string_view text, bool parse_special, bool add_special) const {
    const TextSegment segment{std::string(text), parse_special};
    return encode(std::span(&segment, 1), add_special);
  }

  /// Bytes of one token as generation prints them. Control tokens give an empty string unless
  /// `special` is set. Not necessarily whole UTF-8 characters.
  virtual std::string token_bytes(TokenId id, bool special = false) const = 0;
  /// The vocabulary's own spelling of a token, e.g. "<|im_end|>".
  virtual std::string_view token_text(TokenId id) const = 0;
  /// The id spelled exactly `text` in the vocabulary, or -1.
  virtual TokenId find_token(std::string_view text) const = 0;

  virtual uint32_t vocab_size() const = 0;
  virtual TokenId bos() const = 0;  ///< -1 when there is none
  virtual TokenId eos() const = 0;  ///< -1 when there is none
  virtual bool adds_bos() const = 0;
  /// Every token that ends generation (EOS, EOT, EOM and their spellings in known vocabularies).
  virtual std::span<const TokenId> end_tokens() const = 0;
  virtual bool is_control(TokenId id) const = 0;
  /// True when encoding puts a space before a text, which decoding takes away again.
  virtual bool strips_leading_space() const { return false; }
};

/// Turns generated tokens into text without splitting a UTF-8 character.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool special = false);
  /// Text that is complete after this token; an unfinished character is kept back. Bytes that can
  /// never become valid UTF-8 come out as U+FFFD.
  std::string push(TokenId id);
  /// What is still kept back, with U+FFFD for an unfinished character.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string pending_;
  bool special_;
  bool first_ = true;
};

}  // namespace minfer
