#include "text/jinja/search.h"

#include <vector>

namespace minfer::jinja {

namespace {

/// Knuth-Morris-Pratt over any indexable text; used for patterns long enough to make the obvious
/// search quadratic. `At` gives the i-th byte of text or pattern in the direction of search.
template <class TextAt, class PatternAt>
size_t kmp(size_t text_size, size_t pattern_size, TextAt text_at, PatternAt pattern_at) {
  std::vector<uint32_t> border(pattern_size, 0);
  for (size_t i = 1, k = 0; i < pattern_size; ++i) {
    while (k > 0 && pattern_at(i) != pattern_at(k)) k = border[k - 1];
    if (pattern_at(i) == pattern_at(k)) ++k;
    border[i] = static_cast<uint32_t>(k);
  }
  for (size_t i = 0, k = 0; i < text_size; ++i) {
    while (k > 0 && text_at(i) != pattern_at(k)) k = border[k - 1];
    if (text_at(i) == pattern_at(k)) ++k;
    if (k == pattern_size) return i + 1 - pattern_size;
  }
  return kNotFound;
}

constexpr size_t kShortPattern = 32;

}  // namespace

size_t find_text(Runtime& runtime, std::string_view text, std::string_view pattern, size_t from) {
  if (from > text.size()) return kNotFound;
  size_t found;
  if (pattern.size() <= kShortPattern) {
    found = text.find(pattern, from);
  } else {
    runtime.need_room(pattern.size() * sizeof(uint32_t));
    found = kmp(
        text.size() - from, pattern.size(), [&](size_t i) { return text[from + i]; },
        [&](size_t i) { return pattern[i]; });
    if (found != kNotFound) found += from;
  }
  const size_t end = found == kNotFound ? text.size() : found;
  runtime.work_on(end - from + pattern.size());
  return found;
}

size_t find_last_text(Runtime& runtime, std::string_view text, std::string_view pattern,
                      size_t end) {
  if (pattern.size() > end) return kNotFound;
  text = text.substr(0, end);
  size_t found;
  if (pattern.size() <= kShortPattern) {
    found = text.rfind(pattern);
  } else {
    runtime.need_room(pattern.size() * sizeof(uint32_t));
    found = kmp(
        text.size(), pattern.size(), [&](size_t i) { return text[text.size() - 1 - i]; },
        [&](size_t i) { return pattern[pattern.size() - 1 - i]; });
    if (found != kNotFound) found = text.size() - found - pattern.size();
  }
  runtime.work_on(text.size() - (found == kNotFound ? 0 : found));
  return found;
}

}  // namespace minfer::jinja
