// The sampler: penalties over what was accepted, cuts, and the draw.
#include "minfer/sampler.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "sampling/candidates.h"
#include "sampling/random.h"
#include "sampling/ranges.h"

namespace minfer {
namespace {

/// What was accepted last: a ring of tokens and how often each occurs in it.
class History {
 public:
  History(uint32_t vocab, uint32_t length) : ring_(length), counts_(length > 0 ? vocab : 0) {}

  void add(TokenId token) {
    if (ring_.empty() || token < 0 || static_cast<size_t>(token) >= counts_.size()) return;
    if (size_ == ring_.size())
      --counts_[static_cast<size_t>(ring_[next_])];
    else
      ++size_;
    ring_[next_] = token;
    ++counts_[static_cast<size_t>(token)];
    next_ = next_ + 1 == ring_.size() ? 0 : next_ + 1;
  }
  void clear() {
    for (size_t i = 0; i < size_; ++i) counts_[static_cast<size_t>(ring_[i])] = 0;
    size_ = next_ = 0;
  }
  bool empty() const { return size_ == 0; }
  /// Calls f(token, count) for each token at least once, and says so by a count of 0 when again.
  template <class F>
  void each(F&& f) {
    for (size_t i = 0; i < size_; ++i) {
      uint32_t& count = counts_[static_cast<size_t>(ring_[i])];
      if (count & kVisited) continue;
      f(static_cast<size_t>(ring_[i]), count);
      count |= kVisited;
    }
    for (size_t i = 0; i < size_; ++i) counts_[static_cast<size_t>(ring_[i])] &= ~kVisited;
  }

 private:
  static constexpr uint32_t kVisited = 1u << 31;

  std::vector<TokenId> ring_;
  std::vector<uint32_t> counts_;
  size_t next_ = 0;
  size_t size_ = 0;
};

bool penalises(const SamplerParams& p) {
  return p.repeat_last_n != 0 &&
         (p.repeat_penalty != 1.0f || p.frequency_penalty != 0.0f || p.presence_penalty != 0.0f);
}

uint32_t history_length(const SamplerParams& p, uint32_t max_history) {
  if (!penalises(p)) return 0;
  return p.repeat_last_n < 0 ? max_history : static_cast<uint32_t>(p.repeat_last_n);
}

uint64_t system_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

class SamplerImpl final : public Sampler {
 public:
  SamplerImpl(const SamplerParams& params, uint32_t vocab, uint32_t max_history)
      : params_(params),
        vocab_(vocab),
        seed_(params.seed ? *params.seed : system_seed()),
        random_(seed_),
        history_(vocab, history_length(params, max_history)),
        candidates_(params.temperature > 0 ? vocab : 0),
        adjusted_(penalises(params) || !params.logit_bias.empty() ? vocab : 0) {}

  Result<TokenId> sample(std::span<const float> logits) override;
  void accept(TokenId token) override { history_.add(token); }
  void reset(uint64_t seed) override {
    seed_ = seed;
    random_ = Random(seed);
    history_.clear();
  }
  uint64_t seed() const override { return seed_; }

 private:
  std::span<const float> adjust(std::span<const float> logits);
  TokenId draw(std::span<const float> logits);

  const SamplerParams params_;
  const uint32_t vocab_;
  uint64_t seed_;
  Random random_;
  History history_;
  Candidates candidates_;
  std::vector<float> adjusted_;
};

/// Bias and penalties on a copy; the logits themselves when there are none.
std::span<const float> SamplerImpl::adjust(std::span<const float> logits) {
  if (adjusted_.empty() || (params_.logit_bias.empty() && history_.empty())) return logits;
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  for (const auto& [token, bias] : params_.logit_bias)
    adjusted_[static_cast<size_t>(token)] += bias;
  history_.each([&](size_t token, uint32_t count) {
    float& logit = adjusted_[token];
    logit = logit > 0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    logit -= static_cast<float>(count) * params_.frequency_penalty + params_.presence_penalty;
  });
  return adjusted_;
}

TokenId SamplerImpl::draw(std::span<const float> logits) {
  if (params_.top_k > 0 && static_cast<uint32_t>(params_.top_k) < vocab_)
    candidates_.take_top_k(logits, static_cast<uint32_t>(params_.top_k));
  else
    candidates_.take_all(logits);
  if (params_.typical_p < 1) candidates_.cut_typical(params_.typical_p);
  if (params_.top_p < 1) candidates_.cut_top_p(params_.top_p);
  candidates_.cut_min_p(params_.min_p);
  const double total = candidates_.weigh(params_.temperature);
  return candidates_.pick(random_.uniform(), total);
}

Result<TokenId> SamplerImpl::sample(std::span<const float> logits) {
  if (logits.size() != vocab_)
    return fail(ErrorCode::kInternal,
                fmt::format("{} logits for a vocabulary of {}", logits.size(), vocab_), "sampler");
  const std::span<const float> used = adjust(logits);
  const TokenId token = params_.temperature > 0 ? draw(used) : arg_max(used);
  if (token >= 0) return token;
  return fail(ErrorCode::kInternal, "no token is possible: every logit is NaN or -infinity",
              "sampler", "check the model with minfer-inspect --check, and logit_bias");
}

template <class T>
Result<void> in_range(const char* name, T value, Range<T> range) {
  if (range.contains(value)) return {};
  return fail(ErrorCode::kConfig,
              fmt::format("{} is {}; {} to {} is expected", name, value, range.low, range.high),
              "sampling");
}

}  // namespace

Result<void> SamplerParams::check() const {
  MINFER_TRY(in_range("temperature", temperature, kTemperatureRange));
  MINFER_TRY(in_range("top_k", top_k, kTopKRange));
  MINFER_TRY(in_range("top_p", top_p, kFractionRange));
  MINFER_TRY(in_range("min_p", min_p, kFractionRange));
  MINFER_TRY(in_range("typical_p", typical_p, kFractionRange));
  MINFER_TRY(in_range("repeat_penalty", repeat_penalty, kRepeatPenaltyRange));
  MINFER_TRY(in_range("repeat_last_n", repeat_last_n, kRepeatLastRange));
  MINFER_TRY(in_range("frequency_penalty", frequency_penalty, kCountPenaltyRange));
  MINFER_TRY(in_range("presence_penalty", presence_penalty, kCountPenaltyRange));
  if (logit_bias.size() > kMaxLogitBiases)
    return fail(
        ErrorCode::kConfig,
        fmt::format("{} logit biases; {} at most are expected", logit_bias.size(), kMaxLogitBiases),
        "sampling");
  for (const auto& [token, bias] : logit_bias)
    if (token < 0 || !is_logit_bias(bias))
      return fail(
          ErrorCode::kConfig,
          fmt::format("logit_bias of token {} is {}; ids from 0 and {} to {} or -inf are expected",
                      token, bias, kLogitBiasRange.low, kLogitBiasRange.high),
          "sampling");
  return {};
}

bool SamplerParams::is_plain_greedy() const {
  return temperature <= 0 && logit_bias.empty() && !penalises(*this);
}

Result<std::unique_ptr<Sampler>> Sampler::create(const SamplerParams& params, uint32_t vocab,
                                                 uint32_t max_history) {
  MINFER_TRY(params.check());
  for (const auto& [token, bias] : params.logit_bias)
    if (static_cast<uint32_t>(token) >= vocab)
      return fail(ErrorCode::kConfig,
                  fmt::format("logit_bias of token {}; the vocabulary has {} tokens", token, vocab),
                  "sampling");
  return std::make_unique<SamplerImpl>(params, vocab, max_history);
}

}  // namespace minfer
