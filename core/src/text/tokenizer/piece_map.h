// The two hash tables of the tokenizers: strings to ids, and pairs of ids to merges.
//
// Both are flat, open-addressed and grow only while a tokenizer is built; look-ups allocate nothing
// and are safe from any thread afterwards. They exist because loading a vocabulary of 250,000
// entries into node-based maps costs more than the rest of start-up together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::tok {

/// Strings numbered from 0 in the order of `add`, with look-up by content for those that were
/// indexed.
class PieceMap {
 public:
  static constexpr int32_t kNone = -1;

  void reserve(size_t pieces, size_t bytes);
  /// Stores `piece` under the next number, without indexing it.
  int32_t add(std::string_view piece);
  /// Makes `find` return `id` for its string, displacing an earlier one of the same content.
  void index(int32_t id);
  /// Number of the indexed string, or kNone.
  int32_t find(std::string_view piece) const;
  /// `find`, or else `add` and `index`.
  int32_t intern(std::string_view piece);

  /// Valid until the next `add` or `intern`.
  std::string_view text(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return {bytes_.data() + begin_[i], begin_[i + 1] - begin_[i]};
  }
  size_t size() const { return begin_.size() - 1; }

 private:
  size_t slot_of(std::string_view piece) const;
  void grow(size_t slots);

  std::string bytes_;
  std::vector<size_t> begin_{0};  ///< offsets into bytes_, one more than strings
  std::vector<int32_t> slots_ = std::vector<int32_t>(16, kNone);
  size_t indexed_ = 0;
};

/// What merging two neighbours gives.
struct Merge {
  uint32_t rank;   ///< lower merges first
  int32_t result;  ///< the piece that both become
};

/// Merges by (left, right).
class MergeMap {
 public:
  void reserve(size_t merges);
  /// Adds a merge unless the pair has one already (the first in the list has the lower rank).
  void add(int32_t left, int32_t right, Merge merge);
  /// The merge of a pair, or nullptr.
  const Merge* find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = hash(key) & mask_;; slot = (slot + 1) & mask_) {
      if (entries_[slot].key == key) return &entries_[slot].merge;
      if (entries_[slot].key == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;
  struct Entry {
    uint64_t key = kEmpty;
    Merge merge{};
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  static uint64_t hash(uint64_t key) {
    key *= 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio spreads neighbouring ids
    return key ^ key >> 32;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(16);
  size_t mask_ = 15;
  size_t count_ = 0;
};

}  // namespace minfer::tok
