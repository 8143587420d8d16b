// The pre-tokenisers of byte-level BPE vocabularies, as one table.
//
// `tokenizer.ggml.pre` names how a text is cut into words before merging. Each name stands for the
// splitting rules of the tokenizer.json that its model was published with. A new pre-tokeniser is a
// new row in pre_rules.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace minfer::tok {

struct PreRule {
  /// Names in `tokenizer.ggml.pre`; the first is the usual one.
  std::span<const std::string_view> names;
  /// Regular expressions, applied one after the other to the pieces that the one before left.
  /// Matches become pieces, and so does what lies between them.
  std::span<const std::string_view> patterns;
  /// A word that is in the vocabulary is taken whole, whatever the merges say.
  bool ignore_merges = false;
  /// BOS is put before a text when the metadata does not say.
  bool add_bos = false;
};

/// The rule of that name, or nullptr.
const PreRule* find_pre_rule(std::string_view name);

/// Usual names of all rules, "a, b, c", for error messages.
std::string pre_rule_names();

std::span<const PreRule> all_pre_rules();

}  // namespace minfer::tok
