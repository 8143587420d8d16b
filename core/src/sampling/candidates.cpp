#include "sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace minfer {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr size_t kBlock = 32;

float clamped(float logit) {
  return std::min(logit, std::numeric_limits<float>::max());
}

/// Likelier first; the lower id of equals.
bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Largest of a block, NaN never; compiles to vector maxima.
float block_max(const float* p, size_t n) {
  float lanes[8];
  std::fill(lanes, lanes + 8, kImpossible);
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (size_t j = 0; j < 8; ++j) lanes[j] = p[i + j] > lanes[j] ? p[i + j] : lanes[j];
  float best = kImpossible;
  for (; i < n; ++i) best = p[i] > best ? p[i] : best;
  for (const float lane : lanes) best = lane > best ? lane : best;
  return best;
}

/// The one of three that lies between the other two.
template <class It, class Before>
It median(It a, It b, It c, Before before) {
  if (before(*b, *a)) std::swap(a, b);
  if (before(*c, *b)) b = before(*c, *a) ? a : c;
  return b;
}

}  // namespace

TokenId arg_max(std::span<const float> logits) {
  TokenId best = -1;
  float value = kImpossible;
  for (size_t at = 0; at < logits.size(); at += kBlock) {
    const size_t n = std::min(kBlock, logits.size() - at);
    if (!(block_max(logits.data() + at, n) > value)) continue;
    for (size_t i = at; i < at + n; ++i)
      if (logits[i] > value) value = logits[i], best = static_cast<TokenId>(i);
  }
  return best;
}

void Candidates::take_all(std::span<const float> logits) {
  items_.clear();
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > kImpossible)
      items_.push_back({clamped(logits[i]), 0, 0, static_cast<TokenId>(i)});
}

void Candidates::take_top_k(std::span<const float> logits, uint32_t k) {
  items_.clear();
  // A heap whose front is the least likely of those kept. Ids ascend, so an equal logit never
  // replaces.
  float least = kImpossible;
  for (size_t at = 0; at < logits.size(); at += kBlock) {
    const size_t n = std::min(kBlock, logits.size() - at);
    if (!(block_max(logits.data() + at, n) > least)) continue;
    for (size_t i = at; i < at + n; ++i) {
      if (!(logits[i] > least)) continue;
      if (items_.size() == k) {
        std::pop_heap(items_.begin(), items_.end(), likelier);
        items_.pop_back();
      }
      items_.push_back({clamped(logits[i]), 0, 0, static_cast<TokenId>(i)});
      std::push_heap(items_.begin(), items_.end(), likelier);
      if (items_.size() == k) least = items_.front().logit;
    }
  }
  std::sort_heap(items_.begin(), items_.end(), likelier);
}

template <class Before>
void Candidates::keep_mass(double target, Before before) {
  // Quickselect by mass: the border lies in [low, high), and `mass` is the weight before it. The
  // halves need no order of their own, so the whole takes a few passes however flat the
  // distribution is.
  auto low = items_.begin(), high = items_.end();
  double mass = 0;
  for (int round = 0; high - low > 64 && round < 64; ++round) {
    const auto middle = low + (high - low) / 2;
    std::iter_swap(low, median(low, middle, high - 1, before));
    const Candidate pivot = *low;
    const auto after =
        std::partition(low + 1, high, [&](const Candidate& c) { return before(c, pivot); });
    std::iter_swap(low, after - 1);  // the pivot stands behind all that come before it
    double left = 0;
    for (auto it = low; it != after; ++it) left += it->weight;
    if (mass + left >= target) {
      high = after;
    } else {
      mass += left;
      low = after;
    }
  }
  std::sort(low, high, before);
  for (; low != high; ++low)
    if ((mass += low->weight) >= target) {
      items_.erase(low + 1, items_.end());
      return;
    }
  items_.erase(high, items_.end());  // rounding hid the border; it is the last of the range
}

void Candidates::cut_top_p(float mass) {
  if (items_.empty()) return;
  const double total = weigh(1.0f);
  // All weights below this sum to less than what the cut drops, so it drops every one of them. That
  // leaves little to select from, except where the distribution is flat.
  const double surely_cut = 0.999 * (1.0 - mass) * total / static_cast<double>(items_.size());
  std::erase_if(items_, [&](const Candidate& c) { return c.weight < surely_cut; });
  keep_mass(mass * total, likelier);
}

void Candidates::cut_typical(float mass) {
  const double total = weigh(1.0f);
  double entropy = 0;
  for (Candidate& c : items_) {
    const double p = c.weight / total;
    c.surprise = static_cast<float>(-std::log(p));
    if (p > 0) entropy += p * c.surprise;
  }
  for (Candidate& c : items_) c.surprise = std::abs(c.surprise - static_cast<float>(entropy));
  keep_mass(mass * total, [](const Candidate& a, const Candidate& b) {
    return a.surprise != b.surprise ? a.surprise < b.surprise : likelier(a, b);
  });
}

void Candidates::cut_min_p(float fraction) {
  if (items_.empty() || fraction <= 0) return;
  float largest = kImpossible;
  for (const Candidate& c : items_) largest = std::max(largest, c.logit);
  const float least = largest + std::log(fraction);
  std::erase_if(items_, [&](const Candidate& c) { return c.logit < least; });
}

double Candidates::weigh(float temperature) {
  float largest = kImpossible;
  for (const Candidate& c : items_) largest = std::max(largest, c.logit);
  double sum = 0;
  for (Candidate& c : items_) {
    c.weight = std::exp((c.logit - largest) / temperature);
    sum += c.weight;
  }
  return sum;
}

TokenId Candidates::pick(double u, double total) const {
  double left = u * total;
  const Candidate* last = nullptr;
  for (const Candidate& c : items_) {
    if (c.weight <= 0) continue;
    last = &c;
    if (left < c.weight) return c.id;
    left -= c.weight;
  }
  return last ? last->id : -1;  // rounding ran past the end
}

}  // namespace minfer
