#include "text/tokenizer/piece_map.h"

#include <bit>
#include <functional>
#include <utility>

namespace minfer::tok {

void PieceMap::reserve(size_t pieces, size_t bytes) {
  bytes_.reserve(bytes);
  begin_.reserve(pieces + 1);
  const size_t slots = std::bit_ceil(pieces * 2 + 16);
  if (slots > slots_.size()) grow(slots);
}

int32_t PieceMap::add(std::string_view piece) {
  bytes_ += piece;
  begin_.push_back(bytes_.size());
  return static_cast<int32_t>(size() - 1);
}

size_t PieceMap::slot_of(std::string_view piece) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(piece)&mask;
  while (slots_[slot] != kNone && text(slots_[slot]) != piece) slot = (slot + 1) & mask;
  return slot;
}

void PieceMap::index(int32_t id) {
  const size_t slot = slot_of(text(id));
  const bool is_new = slots_[slot] == kNone;
  slots_[slot] = id;
  if (is_new && ++indexed_ * 2 > slots_.size()) grow(slots_.size() * 2);
}

int32_t PieceMap::find(std::string_view piece) const {
  return slots_[slot_of(piece)];
}

int32_t PieceMap::intern(std::string_view piece) {
  const int32_t known = find(piece);
  if (known != kNone) return known;
  const int32_t id = add(piece);
  index(id);
  return id;
}

void PieceMap::grow(size_t slots) {
  const std::vector<int32_t> old = std::exchange(slots_, std::vector<int32_t>(slots, kNone));
  for (const int32_t id : old) {
    if (id != kNone) slots_[slot_of(text(id))] = id;
  }
}

void MergeMap::reserve(size_t merges) {
  const size_t slots = std::bit_ceil(merges * 2 + 16);
  if (slots <= entries_.size()) return;
  const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(slots));
  mask_ = slots - 1;
  count_ = 0;
  for (const Entry& entry : old) {
    if (entry.key == kEmpty) continue;
    add(static_cast<int32_t>(entry.key >> 32), static_cast<int32_t>(entry.key), entry.merge);
  }
}

void MergeMap::add(int32_t left, int32_t right, Merge merge) {
  if ((count_ + 1) * 2 > entries_.size()) reserve(entries_.size());
  const uint64_t key = key_of(left, right);
  size_t slot = hash(key) & mask_;
  while (entries_[slot].key != kEmpty && entries_[slot].key != key) slot = (slot + 1) & mask_;
  if (entries_[slot].key == key) return;
  entries_[slot] = {key, merge};
  ++count_;
}

}  // namespace minfer::tok
