#include "minfer/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace minfer {
namespace {

// Longer names are never suggested for: the table below is quadratic, and names come from files.
constexpr size_t kLongest = 128;

char folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

bool is_prefix(std::string_view head, std::string_view whole) {
  return head.size() >= 2 && head.size() <= whole.size() &&
         std::equal(head.begin(), head.end(), whole.begin(),
                    [](char a, char b) { return folded(a) == folded(b); });
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  const size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit || a.size() > kLongest || b.size() > kLongest) return limit + 1;
  // Optimal string alignment; rows i-2, i-1 and i are all that is needed.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0u : 1u)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
          folded(a[i - 2]) == folded(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return std::min(last[b.size()], limit + 1);
}

std::string nearest_name(std::string_view typed, std::span<const std::string> known) {
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const std::string& name : known) {
    const size_t limit = std::max<size_t>(1, std::min(typed.size(), name.size()) / 3);
    size_t distance = edit_distance(typed, name, limit);
    if (distance > limit) {
      if (!is_prefix(typed, name) && !is_prefix(name, typed)) continue;
      distance = limit + 1;  // a match by prefix is weaker than any by edits of the same length
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> known) {
  const std::string name = nearest_name(typed, known);
  return name.empty() ? std::string() : fmt::format("did you mean '{}'?", name);
}

}  // namespace minfer
