#include "engine/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>

namespace minfer {
namespace {

uint32_t ceil_div(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

}  // namespace

uint32_t max_logical_pages(const KvCacheShape& shape) {
  return ceil_div(shape.context, shape.page_tokens);
}

uint32_t pages_for_group(const KvGroup& group, const KvCacheShape& shape) {
  const uint32_t whole = max_logical_pages(shape);
  if (group.window == 0)
    return shape.full_pages > 0 ? shape.full_pages : whole * shape.max_sequences;
  // During a step a sequence holds the window before its first new token, the slack for cutting
  // back, and the new tokens. A run of k positions touches at most (k - 2) / page + 2 pages.
  const uint64_t run = uint64_t{group.window} + shape.page_tokens - 1 + shape.max_step_tokens;
  const uint64_t windowed = (run - 2) / shape.page_tokens + 2;
  return static_cast<uint32_t>(std::min<uint64_t>(whole, windowed)) * shape.max_sequences;
}

KvCache::KvCache(std::span<const KvGroup> groups, const KvCacheShape& shape)
    : groups_(groups.begin(), groups.end()), shape_(shape), max_pages_(max_logical_pages(shape)) {
  pools_.reserve(groups_.size());
  for (const KvGroup& group : groups_) pools_.emplace_back(pages_for_group(group, shape));
  sequences_.resize(shape.max_sequences);
  for (Sequence& s : sequences_) s.pages.assign(groups_.size() * max_pages_, -1);
  appends_.reserve(shape.max_sequences);
  copies_.reserve(groups_.size() * shape.max_sequences);
  changes_.reserve(groups_.size() *
                   (shape.max_step_tokens / shape.page_tokens + 2 * size_t{shape.max_sequences}));
}

Result<void> KvCache::check(SequenceId id) const {
  if (id >= sequences_.size() || !sequences_[id].live)
    return fail(ErrorCode::kUsage, fmt::format("sequence {} does not exist", id));
  return {};
}

Result<SequenceId> KvCache::unused() const {
  const auto it =
      std::find_if(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return !s.live; });
  if (it == sequences_.end())
    return fail(ErrorCode::kUsage, fmt::format("all {} sequences are in use", sequences_.size()),
                {}, "free one, or raise max_sequences");
  return static_cast<SequenceId>(it - sequences_.begin());
}

Result<SequenceId> KvCache::create() {
  MINFER_ASSIGN(const SequenceId id, unused());
  sequences_[id].live = true;
  sequences_[id].length = 0;
  return id;
}

Result<SequenceId> KvCache::fork(SequenceId from) {
  MINFER_TRY(check(from));
  MINFER_ASSIGN(const SequenceId id, unused());
  Sequence& copy = sequences_[id];
  copy.live = true;
  copy.length = sequences_[from].length;
  copy.pages = sequences_[from].pages;  // same size: no allocation
  for (uint32_t g = 0; g < groups_.size(); ++g)
    for (uint32_t p = 0; p < max_pages_; ++p)
      if (const int32_t page = slot(copy, g, p); page >= 0) pools_[g].share(page);
  return id;
}

uint32_t KvCache::first_seen(uint32_t group, uint32_t length) const {
  const uint32_t window = groups_[group].window;
  return window == 0 || length < window ? 0 : length - window + 1;
}

Result<void> KvCache::truncate(SequenceId id, uint32_t length) {
  MINFER_TRY(check(id));
  Sequence& s = sequences_[id];
  if (length > s.length)
    return fail(ErrorCode::kUsage,
                fmt::format("sequence {} holds {} positions and cannot be cut to {}", id, s.length,
                            length));
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (uint32_t p = first_seen(g, length) / shape_.page_tokens;
         p < ceil_div(length, shape_.page_tokens); ++p) {
      if (slot(s, g, p) < 0)
        return fail(ErrorCode::kContext,
                    fmt::format("sequence {} of {} positions cannot be cut to {}: layers with a "
                                "sliding window of {} no longer hold what comes before",
                                id, s.length, length, groups_[g].window),
                    {}, "free the sequence and feed its tokens again");
    }
  }
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (uint32_t p = ceil_div(length, shape_.page_tokens); p < max_pages_; ++p) {
      int32_t& page = slot(s, g, p);
      if (page >= 0) pools_[g].drop(page);
      page = -1;
    }
  }
  s.length = length;
  return {};
}

Result<void> KvCache::free(SequenceId id) {
  MINFER_TRY(check(id));
  Sequence& s = sequences_[id];
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (uint32_t p = 0; p < max_pages_; ++p) {
      int32_t& page = slot(s, g, p);
      if (page >= 0) pools_[g].drop(page);
      page = -1;
    }
  }
  s.live = false;
  s.length = 0;
  return {};
}

Result<uint32_t> KvCache::length(SequenceId id) const {
  MINFER_TRY(check(id));
  return sequences_[id].length;
}

void KvCache::put(SequenceId id, uint32_t group, uint32_t logical, uint32_t page) {
  int32_t& entry = slot(sequences_[id], group, logical);
  changes_.push_back({id, group, logical, entry});
  entry = static_cast<int32_t>(page);
}

bool KvCache::reserve(const Append& append, uint32_t group) {
  const uint32_t length = sequences_[append.sequence].length;
  PagePool& pool = pools_[group];
  if (length % shape_.page_tokens != 0) {
    const uint32_t logical = length / shape_.page_tokens;
    const auto shared = static_cast<uint32_t>(page(append.sequence, group, logical));
    if (pool.references(shared) > 1) {
      const auto own = pool.take();
      if (!own) return false;
      put(append.sequence, group, logical, *own);
      pool.drop(shared);
      copies_.push_back({group, shared, *own});
    }
  }
  const uint32_t end = ceil_div(length + append.n_tokens, shape_.page_tokens);
  for (uint32_t p = ceil_div(length, shape_.page_tokens); p < end; ++p) {
    const auto fresh = pool.take();
    if (!fresh) return false;
    put(append.sequence, group, p, *fresh);
  }
  return true;
}

Result<void> KvCache::begin(std::span<const Append> appends) {
  for (size_t i = 0; i < appends.size(); ++i) {
    const Append& append = appends[i];
    MINFER_TRY(check(append.sequence));
    for (size_t j = 0; j < i; ++j)
      if (appends[j].sequence == append.sequence)
        return fail(ErrorCode::kUsage,
                    fmt::format("sequence {} appears twice in one step", append.sequence));
    const uint32_t length = sequences_[append.sequence].length;
    if (uint64_t{length} + append.n_tokens > shape_.context)
      return fail(ErrorCode::kContext,
                  fmt::format("sequence {} holds {} positions and gets {} more, but the context is "
                              "{}",
                              append.sequence, length, append.n_tokens, shape_.context),
                  {}, "raise context, or cut the sequence");
  }
  changes_.clear();
  copies_.clear();
  appends_.assign(appends.begin(), appends.end());
  for (const Append& append : appends_) {
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (reserve(append, g)) continue;
      rollback();
      return fail(ErrorCode::kContext,
                  fmt::format("the KV cache has {} free pages of {} ({} tokens each), too few to "
                              "append {} tokens to sequence {} at position {}",
                              pools_[g].free_count(), pools_[g].size(), shape_.page_tokens,
                              append.n_tokens, append.sequence, sequences_[append.sequence].length),
                  {}, "free or cut a sequence, or raise kv_pages");
    }
  }
  return {};
}

void KvCache::rollback() {
  for (auto it = changes_.rbegin(); it != changes_.rend(); ++it) {
    int32_t& entry = slot(sequences_[it->sequence], it->group, it->logical);
    pools_[it->group].drop(entry);
    if (it->before >= 0) pools_[it->group].share(it->before);
    entry = it->before;
  }
  changes_.clear();
  copies_.clear();
  appends_.clear();
}

void KvCache::release_before(Sequence& sequence, uint32_t group, uint32_t position) {
  for (uint32_t p = position / shape_.page_tokens; p > 0; --p) {
    int32_t& page = slot(sequence, group, p - 1);
    if (page < 0) break;  // all earlier ones have gone before
    pools_[group].drop(page);
    page = -1;
  }
}

void KvCache::commit() {
  for (const Append& append : appends_) {
    Sequence& s = sequences_[append.sequence];
    s.length += append.n_tokens;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].window == 0) continue;
      const uint32_t seen = first_seen(g, s.length);
      if (seen > shape_.page_tokens) release_before(s, g, seen - shape_.page_tokens);
    }
  }
  changes_.clear();
  copies_.clear();
  appends_.clear();
}

}  // namespace minfer
