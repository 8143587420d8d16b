// Cutting a text into words by the regular expressions of a pre-tokeniser.
//
// PCRE2 with its JIT compiler, in linear time for the patterns of the table. Immutable once
// created, safe from any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "minfer/result.h"
#include "text/tokenizer/pre_rules.h"

struct pcre2_real_code_8;

namespace minfer::tok {

class PreSplitter {
 public:
  /// Compiles a rule; a pattern that does not compile is kInternal, since patterns are ours.
  static Result<PreSplitter> create(const PreRule& rule);

  /// Replaces `ends` by the offsets where the words of `text` end, in order, the last being the
  /// size of the text. Runs of bytes that are not UTF-8 are words of their own. Never fails: a
  /// piece on which matching gives up at a limit stays whole.
  void split(std::string_view text, std::vector<size_t>& ends) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };
  using Code = std::unique_ptr<pcre2_real_code_8, CodeDeleter>;
  class Matcher;

  std::vector<Code> codes_;
};

/// `pattern` with \s and \S written out as the Unicode property White_Space, which the tokenizers
/// library means by them. PCRE2's own \s also has U+180E, as Unicode before 6.3.
std::string expand_white_space(std::string_view pattern);

}  // namespace minfer::tok
