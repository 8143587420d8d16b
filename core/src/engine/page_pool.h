// A pool of KV pages of one group: reference counts and a free list. Allocates in its constructor
// only. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace minfer {

class PagePool {
 public:
  explicit PagePool(uint32_t n_pages) : references_(n_pages, 0) {
    free_.reserve(n_pages);
    for (uint32_t page = n_pages; page > 0; --page) free_.push_back(page - 1);
  }

  uint32_t size() const { return static_cast<uint32_t>(references_.size()); }
  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t references(uint32_t page) const { return references_[page]; }

  /// A page with one reference, or nothing when all are taken.
  std::optional<uint32_t> take() {
    if (free_.empty()) return std::nullopt;
    const uint32_t page = free_.back();
    free_.pop_back();
    references_[page] = 1;
    return page;
  }
  void share(uint32_t page) { ++references_[page]; }
  /// Drops one reference; the last one returns the page.
  void drop(uint32_t page) {
    if (--references_[page] == 0) free_.push_back(page);
  }

 private:
  std::vector<uint32_t> references_;
  std::vector<uint32_t> free_;
};

}  // namespace minfer
