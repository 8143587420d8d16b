#include "text/tokenizer/vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace minfer::tok {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";

/// The largest vocabularies in use have 262,144 entries.
constexpr size_t kMaxTokens = size_t{1} << 22;
/// Special tokens are searched for at every position of a text, so their length bounds that work.
/// The longest in use are runs of a hundred spaces or so.
constexpr size_t kMaxSpecialBytes = 1024;

/// Spellings that end a turn or a text in known vocabularies. They count only where the vocabulary
/// has them as control tokens.
constexpr std::array kEndSpellings = std::to_array<std::string_view>({
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<turn|>",
    "<|end_of_turn|>",
    "<|endofturn|>",
    "<|role_end|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_utterance>",
    "<|EOT|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<eos>",
    "<｜end▁of▁sentence｜>",
});

tl::unexpected<Error> wrong_length(const GgufFile& file, std::string_view key, size_t found,
                                   size_t expected) {
  return fail(ErrorCode::kTokenizer,
              fmt::format("has {} entries, but {} has {}", found, kTokensKey, expected),
              where(file, key), "the two belong together; convert the model again");
}

}  // namespace

std::string where(const GgufFile& file, std::string_view key) {
  return fmt::format("{}: key '{}'", file.path().string(), key);
}

Result<Vocab> Vocab::load(const GgufFile& file, const VocabDefaults& defaults) {
  Vocab vocab;
  MINFER_TRY(vocab.load_tokens(file));
  MINFER_TRY(vocab.load_types(file));
  if (defaults.needs_scores) MINFER_TRY(vocab.load_scores(file));
  vocab.index_pieces();
  MINFER_TRY(vocab.load_roles(file, defaults));
  return vocab;
}

Result<void> Vocab::load_tokens(const GgufFile& file) {
  MINFER_ASSIGN(const auto tokens, file.get_strings(kTokensKey));
  if (!tokens || tokens->empty()) {
    return fail(ErrorCode::kTokenizer, tokens ? "is empty" : "is missing", where(file, kTokensKey),
                "the file has no vocabulary; convert the model again");
  }
  if (tokens->size() > kMaxTokens) {
    return fail(ErrorCode::kTokenizer,
                fmt::format("has {} entries, expected at most {}", tokens->size(), kMaxTokens),
                where(file, kTokensKey));
  }
  size_t bytes = 0;
  for (const std::string_view token : *tokens) bytes += token.size();
  pieces_.reserve(tokens->size(), bytes);
  for (const std::string_view token : *tokens) pieces_.add(token);
  types_.assign(tokens->size(), TokenType::kNormal);
  return {};
}

Result<void> Vocab::load_types(const GgufFile& file) {
  MINFER_ASSIGN(const auto types, file.get_ints(kTypesKey));
  if (!types) return {};
  if (types->size() != size()) return wrong_length(file, kTypesKey, types->size(), size());
  for (size_t i = 0; i < types->size(); ++i) {
    const int64_t type = (*types)[i];
    if (type < 0 || type > static_cast<int64_t>(TokenType::kByte)) {
      return fail(ErrorCode::kTokenizer, fmt::format("entry {} is {}, expected 0 to 6", i, type),
                  where(file, kTypesKey), "convert the model again");
    }
    types_[i] = static_cast<TokenType>(type);
    const auto id = static_cast<TokenId>(i);
    if (!is_reserved(id) && types_[i] != TokenType::kUserDefined) continue;
    special_.push_back(id);
    if (text(id).size() > kMaxSpecialBytes) {
      return fail(ErrorCode::kTokenizer,
                  fmt::format("entry {} is a special token of {} bytes, expected at most {}", i,
                              text(id).size(), kMaxSpecialBytes),
                  where(file, kTokensKey));
    }
  }
  return {};
}

Result<void> Vocab::load_scores(const GgufFile& file) {
  MINFER_ASSIGN(const auto scores, file.get_floats(kScoresKey));
  if (!scores) {
    return fail(ErrorCode::kTokenizer, "is missing", where(file, kScoresKey),
                "a SentencePiece vocabulary needs scores to merge by; convert the model again");
  }
  if (scores->size() != size()) return wrong_length(file, kScoresKey, scores->size(), size());
  scores_.assign(scores->begin(), scores->end());
  return {};
}

void Vocab::index_pieces() {
  // Reserved tokens first, so that a piece of the same spelling takes their place.
  for (const bool reserved : {true, false}) {
    for (TokenId id = 0; contains(id); ++id) {
      if (is_reserved(id) == reserved && !text(id).empty()) pieces_.index(id);
    }
  }
}

Result<TokenId> Vocab::load_id(const GgufFile& file, std::string_view key, TokenId fallback) const {
  MINFER_ASSIGN(const auto id, file.get_uint(key));
  if (!id) return contains(fallback) ? fallback : TokenId{-1};
  // Converters write -1 into the unsigned field where a model has no such token.
  if (*id == UINT32_MAX) return TokenId{-1};
  if (*id >= size()) {
    return fail(ErrorCode::kTokenizer,
                fmt::format("is {}, but the vocabulary has {} tokens", *id, size()),
                where(file, key), "convert the model again");
  }
  return static_cast<TokenId>(*id);
}

Result<void> Vocab::load_roles(const GgufFile& file, const VocabDefaults& defaults) {
  MINFER_ASSIGN(bos_, load_id(file, "tokenizer.ggml.bos_token_id", defaults.bos));
  MINFER_ASSIGN(eos_, load_id(file, "tokenizer.ggml.eos_token_id", defaults.eos));
  MINFER_ASSIGN(unknown_, load_id(file, "tokenizer.ggml.unknown_token_id", defaults.unknown));
  // Many files name a control token here, such as <|endoftext|>; text must not turn into that.
  if (unknown_ >= 0 && type(unknown_) == TokenType::kControl) unknown_ = -1;
  MINFER_ASSIGN(const TokenId eot, load_id(file, "tokenizer.ggml.eot_token_id", -1));
  MINFER_ASSIGN(const TokenId eom, load_id(file, "tokenizer.ggml.eom_token_id", -1));
  MINFER_ASSIGN(const auto add_bos, file.get_bool("tokenizer.ggml.add_bos_token"));
  MINFER_ASSIGN(const auto add_eos, file.get_bool("tokenizer.ggml.add_eos_token"));
  for (const auto& [wanted, id, flag_key, id_key] :
       {std::tuple{add_bos.value_or(false), bos_, "tokenizer.ggml.add_bos_token",
                   "tokenizer.ggml.bos_token_id"},
        std::tuple{add_eos.value_or(false), eos_, "tokenizer.ggml.add_eos_token",
                   "tokenizer.ggml.eos_token_id"}}) {
    if (wanted && id < 0) {
      return fail(ErrorCode::kTokenizer, fmt::format("is true, but {} names no token", id_key),
                  where(file, flag_key), "set the id, or the flag to false");
    }
  }
  add_bos_ = bos_ >= 0 && add_bos.value_or(defaults.add_bos);
  add_eos_ = eos_ >= 0 && add_eos.value_or(false);
  collect_end_tokens(eot, eom);
  return {};
}

void Vocab::collect_end_tokens(TokenId eot, TokenId eom) {
  std::vector<TokenId> spelled;
  const auto has = [&](std::string_view spelling) {
    return std::any_of(spelled.begin(), spelled.end(),
                       [&](TokenId id) { return text(id) == spelling; });
  };
  for (const TokenId id : special_) {
    if (type(id) != TokenType::kControl) continue;
    if (std::find(kEndSpellings.begin(), kEndSpellings.end(), text(id)) != kEndSpellings.end()) {
      spelled.push_back(id);
    }
  }
  // Where a vocabulary ends turns with <|return|> or <|call|> (or <|flush|> and <|calls|>), <|end|>
  // only closes one of the messages of a turn.
  const bool end_is_inner =
      (has("<|return|>") && has("<|call|>")) || (has("<|flush|>") && has("<|calls|>"));
  const auto add = [&](TokenId id) {
    if (id >= 0 && std::find(end_tokens_.begin(), end_tokens_.end(), id) == end_tokens_.end()) {
      end_tokens_.push_back(id);
    }
  };
  for (const TokenId id : {eos_, eot, eom}) add(id);
  for (const TokenId id : spelled) {
    if (!(end_is_inner && text(id) == "<|end|>")) add(id);
  }
}

}  // namespace minfer::tok
