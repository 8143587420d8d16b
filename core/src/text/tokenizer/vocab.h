// The vocabulary that `tokenizer.ggml.*` describes, validated.
//
// What the two tokenizer models have in common: the pieces with their types, the ids that have a
// role, and what is put around a text. Immutable once loaded, except that the BPE model interns
// spellings that only its merges know while it is built.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "minfer/tokenizer.h"
#include "text/tokenizer/piece_map.h"

namespace minfer::tok {

/// Types of `tokenizer.ggml.token_type`.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// Ids without a key, and additions that the metadata leaves open, by tokenizer model.
struct VocabDefaults {
  TokenId bos = -1;
  TokenId eos = -1;
  TokenId unknown = -1;
  bool add_bos = false;
  bool needs_scores = false;
};

class Vocab {
 public:
  /// Reads tokens, types, scores and the ids with a role. Errors name the file, the key and the
  /// entry.
  static Result<Vocab> load(const GgufFile& file, const VocabDefaults& defaults);

  uint32_t size() const { return static_cast<uint32_t>(types_.size()); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<uint32_t>(id) < size(); }
  std::string_view text(TokenId id) const { return pieces_.text(id); }
  TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  float score(TokenId id) const { return scores_[static_cast<size_t>(id)]; }

  /// True for tokens that plain text must never turn into.
  bool is_reserved(TokenId id) const {
    return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown;
  }
  /// The token spelled `text`, or -1. Of duplicates the last one counts, as in llama.cpp, but a
  /// token that text may become is never hidden by a reserved one.
  TokenId find(std::string_view text) const {
    const TokenId id = pieces_.find(text);
    return contains(id) ? id : -1;
  }
  /// Tokens whose type is one of the special ones: control, unknown and user-defined, by id.
  const std::vector<TokenId>& special() const { return special_; }

  /// Pieces by number: tokens first, then the spellings that only merges know.
  PieceMap& pieces() { return pieces_; }
  const PieceMap& pieces() const { return pieces_; }

  TokenId bos() const { return bos_; }
  TokenId eos() const { return eos_; }
  /// What stands for text that nothing spells, or -1: then it is left out.
  TokenId unknown() const { return unknown_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  const std::vector<TokenId>& end_tokens() const { return end_tokens_; }

 private:
  Result<void> load_tokens(const GgufFile& file);
  Result<void> load_types(const GgufFile& file);
  Result<void> load_scores(const GgufFile& file);
  Result<TokenId> load_id(const GgufFile& file, std::string_view key, TokenId fallback) const;
  Result<void> load_roles(const GgufFile& file, const VocabDefaults& defaults);
  void index_pieces();
  void collect_end_tokens(TokenId eot, TokenId eom);

  PieceMap pieces_;
  std::vector<TokenType> types_;
  std::vector<float> scores_;
  std::vector<TokenId> special_;
  std::vector<TokenId> end_tokens_;
  TokenId bos_ = -1;
  TokenId eos_ = -1;
  TokenId unknown_ = -1;
  bool add_bos_ = false;
  bool add_eos_ = false;
};

/// "FILE: KEY", as errors about metadata say where.
std::string where(const GgufFile& file, std::string_view key);

}  // namespace minfer::tok
