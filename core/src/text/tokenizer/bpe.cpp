#include "text/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>

#include "minfer/log.h"
#include "text/tokenizer/byte_map.h"

namespace minfer::tok {
namespace {

constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

/// As for tokens: several times the largest list in use.
constexpr size_t kMaxMerges = size_t{1} << 22;
/// Words are numbered by 32 bits within; longer ones (nobody writes them) are cut.
constexpr size_t kMaxWordBytes = size_t{1} << 30;

Result<const PreRule*> load_pre_rule(const GgufFile& file) {
  MINFER_ASSIGN(const auto name, file.get_string(kPreKey));
  if (!name) {
    // Files from before the key existed. The default splits as converters of that time assumed; for
    // models with rules of their own it gives other words than they were trained on.
    log(LogLevel::kWarn,
        fmt::format(
            "{}: is missing, so text is split by the rules 'default'; if the model has rules "
            "of its own, its answers will be worse: convert it again",
            where(file, kPreKey)));
    return find_pre_rule("default");
  }
  if (const PreRule* rule = find_pre_rule(*name)) return rule;
  return fail(ErrorCode::kTokenizer, fmt::format("names the unknown pre-tokeniser '{}'", *name),
              where(file, kPreKey), fmt::format("this build knows {}", pre_rule_names()));
}

tl::unexpected<Error> bad_merges(const GgufFile& file, std::string what) {
  return fail(ErrorCode::kTokenizer, std::move(what), where(file, kMergesKey),
              "convert the model again");
}

/// Adds the merges to `merges`, and to `vocab` the spellings that only they know.
Result<void> load_merges(const GgufFile& file, Vocab& vocab, MergeMap& merges) {
  MINFER_ASSIGN(const auto lines, file.get_strings(kMergesKey));
  if (!lines) return bad_merges(file, "is missing, and byte-level BPE needs it");
  if (lines->size() > kMaxMerges) {
    return bad_merges(
        file, fmt::format("has {} entries, expected at most {}", lines->size(), kMaxMerges));
  }
  merges.reserve(lines->size());
  std::string joined;
  for (size_t rank = 0; rank < lines->size(); ++rank) {
    const std::string_view line = (*lines)[rank];
    const size_t space = line.find(' ');
    if (space == 0 || space == line.npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != line.npos) {
      return bad_merges(file,
                        fmt::format("entry {} is \"{}\", expected two spellings with one space "
                                    "between them",
                                    rank, line.substr(0, 100)));
    }
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    joined.assign(left).append(right);
    const int32_t result = vocab.pieces().intern(joined);
    // Text must not become a control token, not even by merging.
    if (vocab.contains(result) && vocab.is_reserved(result)) continue;
    const int32_t left_piece = vocab.pieces().intern(left);
    const int32_t right_piece = vocab.pieces().intern(right);
    merges.add(left_piece, right_piece, {static_cast<uint32_t>(rank), result});
  }
  return {};
}

}  // namespace

struct BpeTokenizer::Parts {
  Vocab vocab;
  SpecialMatcher::Options special;
  MergeMap merges;
  std::array<int32_t, 256> byte_pieces{};
  PreSplitter splitter;
  bool ignore_merges;
};

BpeTokenizer::BpeTokenizer(Parts parts)
    : VocabTokenizer(std::move(parts.vocab), std::move(parts.special)),
      merges_(std::move(parts.merges)),
      byte_pieces_(parts.byte_pieces),
      splitter_(std::move(parts.splitter)),
      ignore_merges_(parts.ignore_merges) {}

Result<std::shared_ptr<const Tokenizer>> BpeTokenizer::create(const GgufFile& file) {
  MINFER_ASSIGN(const PreRule* rule, load_pre_rule(file));
  MINFER_ASSIGN(PreSplitter splitter, PreSplitter::create(*rule));
  MINFER_ASSIGN(Vocab vocab, Vocab::load(file, {.add_bos = rule->add_bos}));
  MergeMap merges;
  MINFER_TRY(load_merges(file, vocab, merges));
  std::array<int32_t, 256> byte_pieces{};
  for (uint32_t b = 0; b < 256; ++b) {
    byte_pieces[b] = vocab.pieces().intern(byte_spelling(static_cast<uint8_t>(b)));
  }
  MINFER_ASSIGN(std::vector<bool> strips_right, tokens_that_strip_right(file, vocab));
  Parts parts{.vocab = std::move(vocab),
              .special = {.strips_right = std::move(strips_right)},
              .merges = std::move(merges),
              .byte_pieces = byte_pieces,
              .splitter = std::move(splitter),
              .ignore_merges = rule->ignore_merges};
  return std::shared_ptr<const Tokenizer>(new BpeTokenizer(std::move(parts)));
}

/// Merges one word at a time; its buffers are reused from word to word.
class BpeTokenizer::Merger {
 public:
  Merger(const BpeTokenizer& bpe, std::vector<TokenId>& out) : bpe_(bpe), out_(out) {}

  void word(std::string_view bytes) {
    if (bpe_.ignore_merges_ && take_whole(bytes)) return;
    symbols_.clear();
    for (const char c : bytes) {
      const auto i = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({bpe_.byte_pieces_[static_cast<uint8_t>(c)], i - 1, i + 1});
    }
    symbols_.back().next = kEnd;
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) propose(i);
    while (!queue_.empty()) merge_best();
    for (uint32_t i = 0; i != kEnd; i = symbols_[i].next) emit(symbols_[i].piece);
  }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr int32_t kMerged = -1;

  struct Symbol {
    int32_t piece;  ///< kMerged once it became part of its left neighbour
    uint32_t prev, next;
  };

  bool take_whole(std::string_view bytes) {
    spelling_.clear();
    append_spelling(bytes, spelling_);
    const TokenId id = bpe_.vocab().find(spelling_);
    if (id < 0 || bpe_.vocab().is_reserved(id)) return false;
    out_.push_back(id);
    return true;
  }

  /// The merge of a symbol with the one after it, or nullptr.
  const Merge* merge_at(uint32_t left) const {
    const Symbol& symbol = symbols_[left];
    if (symbol.piece == kMerged || symbol.next == kEnd) return nullptr;
    return bpe_.merges_.find(symbol.piece, symbols_[symbol.next].piece);
  }

  /// Queues a pair. Rank and position in one number: the lowest rank first, and of those the
  /// leftmost.
  void propose(uint32_t left) {
    const Merge* merge = merge_at(left);
    if (merge == nullptr) return;
    queue_.push_back(uint64_t{merge->rank} << 32 | left);
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }

  void merge_best() {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const uint64_t best = queue_.back();
    queue_.pop_back();
    const auto left = static_cast<uint32_t>(best);
    const Merge* merge = merge_at(left);
    // Ranks are unique to a pair, so another rank means that the pair is gone.
    if (merge == nullptr || merge->rank != best >> 32) return;
    Symbol& symbol = symbols_[left];
    Symbol& right = symbols_[symbol.next];
    symbol.piece = merge->result;
    symbol.next = right.next;
    right.piece = kMerged;
    if (symbol.next != kEnd) symbols_[symbol.next].prev = left;
    propose(left);
    if (left != 0) propose(symbol.prev);
  }

  /// Appends the token of a piece, or those of its bytes when the vocabulary lacks it.
  void emit(int32_t piece) {
    const Vocab& vocab = bpe_.vocab();
    const auto is_token = [&](int32_t p) { return vocab.contains(p) && !vocab.is_reserved(p); };
    if (is_token(piece)) {
      out_.push_back(piece);
      return;
    }
    for (const char c : spelled_bytes(vocab.pieces().text(piece))) {
      const int32_t byte = bpe_.byte_pieces_[static_cast<uint8_t>(c)];
      const TokenId id = is_token(byte) ? byte : vocab.unknown();
      if (id >= 0) out_.push_back(id);
    }
  }

  const BpeTokenizer& bpe_;
  std::vector<TokenId>& out_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;
  std::string spelling_;
};

void BpeTokenizer::encode_text(std::string_view text, bool, std::vector<TokenId>& out) const {
  std::vector<size_t> ends;
  splitter_.split(text, ends);
  Merger merger(*this, out);
  size_t begin = 0;
  for (const size_t end : ends) {
    for (; begin < end; begin = std::min(end, begin + kMaxWordBytes)) {
      merger.word(text.substr(begin, std::min(end - begin, kMaxWordBytes)));
    }
  }
}

std::string BpeTokenizer::plain_bytes(TokenId id) const {
  const std::string_view text = vocab().text(id);
  // User-defined tokens were found in the text as they are spelled, not byte by byte.
  if (vocab().type(id) == TokenType::kUserDefined) return std::string(text);
  return spelled_bytes(text);
}

}  // namespace minfer::tok
