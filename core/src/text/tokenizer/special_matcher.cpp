#include "text/tokenizer/special_matcher.h"

#include <algorithm>
#include <tuple>

namespace minfer::tok {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Cuts a text into fragments at the special tokens it is told of, in order.
class Cutter {
 public:
  Cutter(std::string_view text, const std::vector<bool>& strips_right)
      : text_(text), strips_right_(strips_right) {}

  void special(size_t begin, size_t length, TokenId id) {
    text_until(begin);
    fragments_.push_back({begin, begin + length, id});
    done_ = begin + length;
    if (static_cast<size_t>(id) < strips_right_.size() && strips_right_[static_cast<size_t>(id)]) {
      while (done_ < text_.size() && is_space(text_[done_])) ++done_;
    }
  }

  std::vector<Fragment> finish() && {
    text_until(text_.size());
    return std::move(fragments_);
  }

 private:
  void text_until(size_t end) {
    if (done_ < end) fragments_.push_back({done_, end, -1});
  }

  std::string_view text_;
  const std::vector<bool>& strips_right_;
  std::vector<Fragment> fragments_;
  size_t done_ = 0;
};

}  // namespace

std::string unescape_spaces(std::string_view text) {
  constexpr std::string_view kEscaped = "\xE2\x96\x81";
  std::string out;
  for (size_t pos; (pos = text.find(kEscaped)) != text.npos;) {
    out.append(text.substr(0, pos)) += ' ';
    text.remove_prefix(pos + kEscaped.size());
  }
  return out += text;
}

Prompt::Prompt(std::span<const TextSegment> segments) {
  for (const TextSegment& segment : segments) {
    const size_t begin = text.size();
    text += segment.text;
    if (!segment.parse_special || segment.text.empty()) continue;
    if (!template_ranges.empty() && template_ranges.back().second == begin) {
      template_ranges.back().second = text.size();
    } else {
      template_ranges.emplace_back(begin, text.size());
    }
  }
}

SpecialMatcher::SpecialMatcher(const Vocab& vocab, Options options) : options_(std::move(options)) {
  for (const TokenId id : vocab.special()) {
    std::string text(vocab.text(id));
    if (options_.escaped_spaces) text = unescape_spaces(text);
    if (text.empty()) continue;
    const bool reserved = vocab.is_reserved(id);
    has_user_defined_ |= !reserved;
    entries_.push_back({std::move(text), id, reserved});
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.text, a.id) < std::tie(b.text, b.id);
  });
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    Range& range = by_first_byte_[static_cast<uint8_t>(entries_[i].text[0])];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
}

SpecialMatcher::Match SpecialMatcher::longest_at(std::string_view text, bool with_reserved) const {
  const Range range = by_first_byte_[static_cast<uint8_t>(text[0])];
  auto first = entries_.begin() + range.begin;
  auto last = entries_.begin() + range.end;
  Match match;
  // [first, last) are the entries that begin with the `depth` bytes read so far; those that end
  // here sort before the longer ones.
  for (size_t depth = 1; first != last; ++depth) {
    for (; first != last && first->text.size() == depth; ++first) {
      if (with_reserved || !first->reserved) match = {depth, &*first};
    }
    if (depth == text.size()) break;
    const auto next = static_cast<uint8_t>(text[depth]);
    const auto byte = [depth](const Entry& e) { return static_cast<uint8_t>(e.text[depth]); };
    first = std::partition_point(first, last, [&](const Entry& e) { return byte(e) < next; });
    last = std::partition_point(first, last, [&](const Entry& e) { return byte(e) == next; });
  }
  return match;
}

template <class OnMatch>
void SpecialMatcher::scan(std::string_view text, bool with_reserved, OnMatch&& on_match) const {
  for (size_t pos = 0; pos < text.size();) {
    const Match match = longest_at(text.substr(pos), with_reserved);
    if (match.entry != nullptr) on_match(pos, *match.entry);
    pos += std::max<size_t>(match.length, 1);
  }
}

std::vector<Fragment> SpecialMatcher::split(const Prompt& prompt) const {
  const std::string_view text = prompt.text;
  Cutter control(text, options_.strips_right);
  for (const auto& [begin, end] : prompt.template_ranges) {
    // User-defined tokens take part in the search, so that one that holds the spelling of a control
    // token within it is not cut open, but they are left for the second pass.
    scan(text.substr(begin, end - begin), true,
         [&, offset = begin](size_t pos, const Entry& entry) {
           if (entry.reserved) control.special(offset + pos, entry.text.size(), entry.id);
         });
  }
  std::vector<Fragment> fragments = std::move(control).finish();
  if (!has_user_defined_) return fragments;

  Cutter all(text, options_.strips_right);
  for (const Fragment& fragment : fragments) {
    const size_t length = fragment.end - fragment.begin;
    if (fragment.id >= 0) {
      all.special(fragment.begin, length, fragment.id);
      continue;
    }
    scan(text.substr(fragment.begin, length), false, [&](size_t pos, const Entry& entry) {
      all.special(fragment.begin + pos, entry.text.size(), entry.id);
    });
  }
  return std::move(all).finish();
}

}  // namespace minfer::tok
