#include "minfer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace minfer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Moves what is complete from `pending` to the result; at the end of a stream that is everything.
std::string take_complete(std::string& pending, bool at_end) {
  std::string out;
  std::string_view rest = pending;
  while (!rest.empty()) {
    const size_t valid = tok::utf8_valid_prefix(rest);
    out += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const tok::Utf8Step step = tok::utf8_step(rest);
    if (step.kind == tok::Utf8Kind::kIncomplete && !at_end) break;
    out += kReplacement;
    rest.remove_prefix(step.length);
  }
  pending.erase(0, pending.size() - rest.size());
  return out;
}

}  // namespace

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool special)
    : tokenizer_(std::move(tokenizer)), special_(special) {}

std::string StreamDecoder::push(TokenId id) {
  const std::string bytes = tokenizer_->token_bytes(id, special_);
  std::string_view added = bytes;
  if (first_ && !added.empty()) {
    // The space that encoding put before the text is not part of it.
    if (tokenizer_->strips_leading_space() && added[0] == ' ') added.remove_prefix(1);
    first_ = false;
  }
  pending_ += added;
  return take_complete(pending_, false);
}

std::string StreamDecoder::finish() {
  return take_complete(pending_, true);
}

}  // namespace minfer
