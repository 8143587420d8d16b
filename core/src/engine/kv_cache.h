// The KV cache's book-keeping: which physical pages hold which positions of which sequence.
//
// Layers of one group share a page table. A step is a transaction: begin() reserves pages for what
// is to be appended (pages shared with another sequence are replaced by copies, listed in
// copies()), then commit() makes it so or rollback() undoes everything. Pages wholly outside a
// sliding window go back to their pool at commit; one page's worth of positions is kept beyond the
// window, so that a sequence can always be cut back that far. Holds no tensor data and knows no
// device. Allocates in its constructor only. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/page_pool.h"
#include "minfer/engine.h"

namespace minfer {

struct KvCacheShape {
  uint32_t page_tokens = 64;
  uint32_t context = 0;  ///< positions of one sequence
  uint32_t max_sequences = 1;
  uint32_t max_step_tokens = 1;
  uint32_t full_pages = 0;  ///< of each full-attention group; 0: context for every sequence
};

/// Logical pages of one sequence.
uint32_t max_logical_pages(const KvCacheShape& shape);

/// Pages that the pool of a group needs so that every sequence can be full.
uint32_t pages_for_group(const KvGroup& group, const KvCacheShape& shape);

class KvCache {
 public:
  struct Append {
    SequenceId sequence;
    uint32_t n_tokens;
  };
  /// Page `to` must get the bytes of `from` in every layer of the group before the step runs.
  struct PageCopy {
    uint32_t group;
    uint32_t from;
    uint32_t to;
  };

  KvCache(std::span<const KvGroup> groups, const KvCacheShape& shape);

  Result<SequenceId> create();
  Result<SequenceId> fork(SequenceId from);
  Result<void> truncate(SequenceId id, uint32_t length);
  Result<void> free(SequenceId id);
  Result<uint32_t> length(SequenceId id) const;

  /// Reserves pages for one step; each sequence at most once, n_tokens > 0. kContext when a
  /// sequence would outgrow the context or a pool has too few pages; nothing has changed then.
  Result<void> begin(std::span<const Append> appends);
  std::span<const PageCopy> copies() const { return copies_; }
  void commit();
  void rollback();

  /// Physical page of a logical page of a live sequence, -1 where there is none.
  int32_t page(SequenceId id, uint32_t group, uint32_t logical) const {
    return sequences_[id].pages[group * max_pages_ + logical];
  }
  /// Physical pages of all logical ones, max_pages() of them.
  std::span<const int32_t> pages(SequenceId id, uint32_t group) const {
    return std::span(sequences_[id].pages).subspan(size_t{group} * max_pages_, max_pages_);
  }
  uint32_t free_pages(uint32_t group) const { return pools_[group].free_count(); }
  uint32_t max_pages() const { return max_pages_; }
  uint32_t page_tokens() const { return shape_.page_tokens; }
  uint32_t group_count() const { return static_cast<uint32_t>(groups_.size()); }

 private:
  struct Sequence {
    bool live = false;
    uint32_t length = 0;
    std::vector<int32_t> pages;  ///< [group][logical page]
  };
  struct Change {
    SequenceId sequence;
    uint32_t group;
    uint32_t logical;
    int32_t before;
  };

  Result<void> check(SequenceId id) const;
  Result<SequenceId> unused() const;
  bool reserve(const Append& append, uint32_t group);
  void put(SequenceId id, uint32_t group, uint32_t logical, uint32_t page);
  void release_before(Sequence& sequence, uint32_t group, uint32_t position);
  uint32_t first_seen(uint32_t group, uint32_t length) const;
  int32_t& slot(Sequence& sequence, uint32_t group, uint32_t logical) {
    return sequence.pages[group * max_pages_ + logical];
  }

  std::vector<KvGroup> groups_;
  KvCacheShape shape_;
  uint32_t max_pages_;
  std::vector<PagePool> pools_;
  std::vector<Sequence> sequences_;
  std::vector<Append> appends_;  ///< of the open step
  std::vector<Change> changes_;  ///< undo log of the open step
  std::vector<PageCopy> copies_;
};

}  // namespace minfer
