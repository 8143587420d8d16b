#include "text/tokenizer/spm.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "text/tokenizer/utf8.h"

namespace minfer::tok {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

/// Texts are merged in slices of this many bytes at most, so that 32 bits number their symbols. A
/// slice ends within a piece only where somebody tokenizes a gigabyte at once.
constexpr size_t kMaxSliceBytes = size_t{1} << 30;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// The byte that "<0x0A>" names, or -1.
int byte_value(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/// Where the word that begins at `begin` ends: at the next space that follows something else.
size_t word_end(std::string_view escaped, size_t begin) {
  size_t pos = begin;
  while (escaped.substr(pos).starts_with(kSpace)) pos += kSpace.size();
  return std::min(escaped.find(kSpace, pos), escaped.size());
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> SpmTokenizer::create(const GgufFile& file) {
  // The ids that SentencePiece itself gives these tokens.
  const VocabDefaults defaults{
      .bos = 1, .eos = 2, .unknown = 0, .add_bos = true, .needs_scores = true};
  MINFER_ASSIGN(Vocab vocab, Vocab::load(file, defaults));
  MINFER_ASSIGN(const auto prefix, file.get_bool("tokenizer.ggml.add_space_prefix"));
  MINFER_ASSIGN(std::vector<bool> strips_right, tokens_that_strip_right(file, vocab));
  SpecialMatcher::Options options{.escaped_spaces = true, .strips_right = std::move(strips_right)};
  return std::shared_ptr<const Tokenizer>(
      new SpmTokenizer(std::move(vocab), std::move(options), prefix.value_or(true)));
}

SpmTokenizer::SpmTokenizer(Vocab loaded, SpecialMatcher::Options options, bool add_space_prefix)
    : VocabTokenizer(std::move(loaded), std::move(options)), add_space_prefix_(add_space_prefix) {
  byte_tokens_.fill(-1);
  for (TokenId id = 0; vocab().contains(id); ++id) {
    const std::string_view text = vocab().text(id);
    if (vocab().type(id) == TokenType::kByte) {
      const int byte = byte_value(text);
      if (byte >= 0) byte_tokens_[static_cast<size_t>(byte)] = id;
    } else if (!vocab().is_reserved(id)) {
      longest_piece_ = std::max(longest_piece_, text.size());
      words_are_apart_ = words_are_apart_ && word_end(text, 0) == text.size();
    }
  }
}

TokenId SpmTokenizer::find_piece(std::string_view text) const {
  if (text.size() > longest_piece_) return -1;
  const TokenId id = vocab().find(text);
  if (id < 0 || vocab().is_reserved(id) || vocab().type(id) == TokenType::kByte) return -1;
  return id;
}

/// Merges one stretch of text at a time; its buffers are reused.
class SpmTokenizer::Merger {
 public:
  Merger(const SpmTokenizer& spm, std::vector<TokenId>& out) : spm_(spm), out_(out) {}

  void run(std::string_view text) {
    text_ = text;
    symbols_.clear();
    unused_splits_.clear();
    for (size_t pos = 0; pos < text_.size();) {
      const auto i = static_cast<uint32_t>(symbols_.size());
      const Utf8Step step = utf8_step(text_.substr(pos));
      // A broken sequence is split into its bytes, which become byte tokens.
      const uint32_t length = step.kind == Utf8Kind::kChar ? step.length : 1;
      symbols_.push_back({static_cast<uint32_t>(pos), length, i - 1, i + 1});
      pos += length;
    }
    symbols_.back().next = kEnd;
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) propose(i);
    while (!queue_.empty()) merge_best();
    for (uint32_t i = 0; i != kEnd; i = symbols_[i].next) emit(text_of(symbols_[i]));
  }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;

  struct Symbol {
    uint32_t begin, length;  ///< length 0 once it became part of its left neighbour
    uint32_t prev, next;
  };
  /// A pair that is a piece; the length tells whether it still is the same pair.
  struct Candidate {
    float score;
    uint32_t left, length;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  std::string_view text_of(const Symbol& symbol) const {
    return text_.substr(symbol.begin, symbol.length);
  }

  void propose(uint32_t left) {
    const Symbol& symbol = symbols_[left];
    if (symbol.next == kEnd) return;
    const uint32_t right_length = symbols_[symbol.next].length;
    const std::string_view pair = text_.substr(symbol.begin, symbol.length + right_length);
    const TokenId id = spm_.find_piece(pair);
    if (id < 0) return;
    queue_.push({spm_.vocab().score(id), left, static_cast<uint32_t>(pair.size())});
    if (spm_.vocab().type(id) == TokenType::kUnused) unused_splits_[pair] = symbol.length;
  }

  void merge_best() {
    const Candidate best = queue_.top();
    queue_.pop();
    Symbol& symbol = symbols_[best.left];
    if (symbol.length == 0 || symbol.next == kEnd) return;
    Symbol& right = symbols_[symbol.next];
    if (symbol.length + right.length != best.length) return;
    symbol.length = best.length;
    symbol.next = right.next;
    right.length = 0;
    if (symbol.next != kEnd) symbols_[symbol.next].prev = best.left;
    propose(best.left);
    if (best.left != 0) propose(symbol.prev);
  }

  /// Appends the ids of a final piece. Unused pieces serve as steps of merging only, and come out
  /// as the two parts that they were merged from.
  void emit(std::string_view piece) {
    std::vector<std::string_view> parts{piece};
    while (!parts.empty()) {
      const std::string_view part = parts.back();
      parts.pop_back();
      const TokenId id = spm_.find_piece(part);
      const auto split = unused_splits_.find(part);
      if (id >= 0 && vocab_type(id) == TokenType::kUnused && split != unused_splits_.end()) {
        parts.push_back(part.substr(split->second));
        parts.push_back(part.substr(0, split->second));
      } else if (id >= 0) {
        out_.push_back(id);
      } else {
        emit_bytes(part);
      }
    }
  }

  void emit_bytes(std::string_view part) {
    for (const char c : part) {
      const TokenId byte = spm_.byte_tokens_[static_cast<uint8_t>(c)];
      const TokenId id = byte >= 0 ? byte : spm_.vocab().unknown();
      if (id >= 0) out_.push_back(id);
    }
  }

  TokenType vocab_type(TokenId id) const { return spm_.vocab().type(id); }

  const SpmTokenizer& spm_;
  std::vector<TokenId>& out_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
  std::unordered_map<std::string_view, uint32_t> unused_splits_;
};

void SpmTokenizer::encode_text(std::string_view text, bool starts,
                               std::vector<TokenId>& out) const {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 2 + kSpace.size());
  if (add_space_prefix_ && starts) escaped += kSpace;
  for (const char c : text) {
    if (c == ' ') {
      escaped += kSpace;
    } else {
      escaped += c;
    }
  }
  Merger merger(*this, out);
  for (size_t begin = 0; begin < escaped.size();) {
    const size_t end = words_are_apart_ ? word_end(escaped, begin) : escaped.size();
    const size_t length = std::min(end - begin, kMaxSliceBytes);
    merger.run(std::string_view(escaped).substr(begin, length));
    begin += length;
  }
}

std::string SpmTokenizer::plain_bytes(TokenId id) const {
  const std::string_view text = vocab().text(id);
  if (vocab().type(id) == TokenType::kByte) {
    const int byte = byte_value(text);
    if (byte >= 0) return std::string(1, static_cast<char>(byte));
  }
  return unescape_spaces(text);
}

}  // namespace minfer::tok
