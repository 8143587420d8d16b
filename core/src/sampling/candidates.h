// The tokens still in play while sampling, and the cuts that thin them out.
//
// Holds room for a whole vocabulary from the start; nothing here allocates afterwards. Order is
// total (logit, then id), so what a cut keeps never depends on how it selects. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "minfer/tokenizer.h"

namespace minfer {

struct Candidate {
  float logit;
  float weight;    ///< probability times an unknown constant; valid after weigh()
  float surprise;  ///< distance of -log p from the entropy; valid inside cut_typical()
  TokenId id;
};

class Candidates {
 public:
  explicit Candidates(uint32_t vocab) { items_.reserve(vocab); }

  std::span<const Candidate> items() const { return items_; }

  /// Every possible token (logit neither NaN nor -inf; +inf counts as the largest float), unsorted.
  void take_all(std::span<const float> logits);
  /// The k likeliest possible tokens, likeliest first. One pass over the logits that rarely leaves
  /// the comparison of a block's maximum with the k-th best so far.
  void take_top_k(std::span<const float> logits, uint32_t k);

  // Each cut keeps at least one candidate, in no particular order.
  void cut_typical(float mass);
  void cut_top_p(float mass);
  void cut_min_p(float fraction);

  /// Sets weights to exp((logit - largest) / temperature) and returns their sum.
  double weigh(float temperature);
  /// The candidate at `u` in [0, 1) of the cumulative weights, whose sum is `total`.
  TokenId pick(double u, double total) const;

 private:
  /// Keeps the shortest sequence of candidates, in the order of `before`, whose weights reach
  /// `target`.
  template <class Before>
  void keep_mass(double target, Before before);

  std::vector<Candidate> items_;
};

/// Index of the largest logit, the lowest of equals; -1 when all are NaN or -inf.
TokenId arg_max(std::span<const float> logits);

}  // namespace minfer
