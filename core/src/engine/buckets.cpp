#include "engine/buckets.h"

#include <algorithm>
#include <tuple>

namespace minfer {

std::vector<Bucket> make_buckets(const BucketLimits& limits) {
  std::vector<Bucket> out;
  for (uint32_t tokens = 1;; tokens = std::min(tokens * 2, limits.tokens)) {
    for (const uint32_t seqs : {1u, std::min(tokens, limits.seqs)}) {
      const uint32_t last_rows = std::min(seqs, limits.outs);
      const uint32_t all_rows = limits.outs > limits.seqs ? std::min(tokens, limits.outs) : 1;
      for (const uint32_t outs : {last_rows, std::max(last_rows, all_rows)})
        out.push_back({tokens, seqs, outs, limits.max_pages});
    }
    if (tokens >= limits.tokens) break;
  }
  std::sort(out.begin(), out.end(), [](const Bucket& a, const Bucket& b) {
    return std::tie(a.tokens, a.outs, a.seqs) < std::tie(b.tokens, b.outs, b.seqs);
  });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

size_t pick_bucket(std::span<const Bucket> buckets, uint32_t tokens, uint32_t seqs, uint32_t outs) {
  const auto it = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) {
    return tokens <= b.tokens && seqs <= b.seqs && outs <= b.outs;
  });
  return static_cast<size_t>(it - buckets.begin());
}

}  // namespace minfer
