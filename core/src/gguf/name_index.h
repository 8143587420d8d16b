// Names of keys or tensors, sorted for look-up. Immutable after building, safe from any thread.
//
// Sorted rather than hashed: a file whose names collide under a known hash must not take quadratic
// time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace minfer {

class NameIndex {
 public:
  NameIndex() = default;
  /// Views must stay valid; a name's number is its place in `names`.
  explicit NameIndex(const std::vector<std::string_view>& names) {
    entries_.reserve(names.size());
    for (const std::string_view name : names) entries_.emplace_back(name, entries_.size());
    std::sort(entries_.begin(), entries_.end());
  }

  /// The number of a name, if it is there.
  std::optional<size_t> find(std::string_view name) const {
    const auto it = std::lower_bound(entries_.begin(), entries_.end(), Entry(name, 0));
    if (it == entries_.end() || it->first != name) return std::nullopt;
    return it->second;
  }

  /// Two numbers of one name, the smaller first, if any name is there twice.
  std::optional<std::pair<size_t, size_t>> repeated() const {
    const auto it =
        std::adjacent_find(entries_.begin(), entries_.end(),
                           [](const Entry& a, const Entry& b) { return a.first == b.first; });
    if (it == entries_.end()) return std::nullopt;
    return std::pair(it->second, std::next(it)->second);
  }

 private:
  using Entry = std::pair<std::string_view, size_t>;
  std::vector<Entry> entries_;
};

}  // namespace minfer
