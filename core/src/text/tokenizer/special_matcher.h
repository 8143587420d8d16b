// Finding special tokens in a prompt.
//
// A prompt is segments from a template and from messages. Control tokens are recognised only in
// text that the template put there; user-defined tokens are part of the vocabulary's text and are
// recognised everywhere. Leftmost match first, and of those the longest, as the tokenizers library
// does. Immutable after construction, safe from any thread.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocab.h"

namespace minfer::tok {

/// `text` with U+2581, which SentencePiece writes for a space, turned back into spaces.
std::string unescape_spaces(std::string_view text);

/// A stretch of the prompt: a special token, or text still to be tokenized.
struct Fragment {
  size_t begin = 0;
  size_t end = 0;
  TokenId id = -1;  ///< -1: text
};

/// A prompt as one string, and which ranges of it may hold control tokens. Joining the segments
/// first lets words run across their borders, as they did in training.
struct Prompt {
  explicit Prompt(std::span<const TextSegment> segments);

  std::string text;
  std::vector<std::pair<size_t, size_t>> template_ranges;  ///< maximal, in order
};

class SpecialMatcher {
 public:
  /// How a vocabulary spells its user-defined tokens.
  struct Options {
    /// Entries write U+2581 for a space (SentencePiece).
    bool escaped_spaces = false;
    /// White space after a special token belongs to it, for ids where this is set (Phi-3).
    std::vector<bool> strips_right;
  };
  SpecialMatcher(const Vocab& vocab, Options options);

  /// Fragments that cover the prompt in order, without empty ones. Control tokens take precedence
  /// over user-defined ones, so that no message can swallow the start of one.
  std::vector<Fragment> split(const Prompt& prompt) const;

 private:
  struct Entry {
    std::string text;
    TokenId id;
    bool reserved;
  };
  struct Match {
    size_t length = 0;
    const Entry* entry = nullptr;
  };
  Match longest_at(std::string_view text, bool with_reserved) const;
  template <class OnMatch>
  void scan(std::string_view text, bool with_reserved, OnMatch&& on_match) const;

  std::vector<Entry> entries_;  ///< sorted by text
  struct Range {
    uint32_t begin = 0, end = 0;
  };
  std::array<Range, 256> by_first_byte_;
  Options options_;
  bool has_user_defined_ = false;
};

}  // namespace minfer::tok
