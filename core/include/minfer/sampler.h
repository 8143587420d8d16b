// Sampling: from the logits of one position to the next token, and the search for stop strings.
//
// A Sampler belongs to one sequence and one thread. It allocates at creation only. The same
// parameters, seed, accepted tokens and logits give the same tokens in the same build.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "minfer/result.h"
#include "minfer/tokenizer.h"

namespace minfer {

/// How to choose a token. Steps run in the order of the fields: bias, penalties, then (unless
/// greedy) top-k, typical, top-p and min-p on the untempered distribution, temperature, draw. Each
/// cut keeps at least one token.
struct SamplerParams {
  /// Added to a token's logit; -infinity forbids the token.
  std::vector<std::pair<TokenId, float>> logit_bias{};
  /// Logits of tokens among the last `repeat_last_n` are divided (if positive) or multiplied by
  /// this; 1: off. Keskar et al. 2019.
  float repeat_penalty = 1.0f;
  /// How many tokens, of prompt and answer, the three penalties look back on; 0: off, -1: all that
  /// the sampler holds (max_history).
  int32_t repeat_last_n = 64;
  float frequency_penalty = 0.0f;  ///< taken off once for each occurrence; 0: off
  float presence_penalty = 0.0f;   ///< taken off once for a token that occurs; 0: off

  int32_t top_k = 40;      ///< the k likeliest; 0: off. Fan et al. 2018.
  float typical_p = 1.0f;  ///< nearest to the entropy until this mass; 1: off. Meister et al. 2022.
  float top_p = 0.95f;     ///< likeliest until this mass; 1: off. Holtzman et al. 2019.
  float min_p = 0.05f;     ///< at least this fraction of the likeliest; 0: off. Nguyen et al. 2024.
  float temperature =
      0.8f;  ///< divides logits; 0: greedy, the likeliest token (lowest id of equals)
  std::optional<uint64_t> seed{};  ///< unset: drawn from the system

  /// kConfig naming the first parameter outside its range (docs/config.md).
  Result<void> check() const;
  /// True when every choice is the arg-max of the logits as they are, so that a device may make it.
  bool is_plain_greedy() const;
};

class Sampler {
 public:
  /// `vocab`: number of logits. `max_history`: tokens that repeat_last_n = -1 can mean (the
  /// context). Fails as SamplerParams::check() does, and on a biased token outside the vocabulary.
  static Result<std::unique_ptr<Sampler>> create(const SamplerParams& params, uint32_t vocab,
                                                 uint32_t max_history);
  virtual ~Sampler() = default;

  /// Chooses a token. `logits` has `vocab` values and is not changed. NaN counts as impossible,
  /// +inf as certain. Fails with kInternal when no token is possible. Does not accept() the token.
  virtual Result<TokenId> sample(std::span<const float> logits) = 0;
  /// Adds a token of the prompt or the answer to what penalties look back on.
  virtual void accept(TokenId token) = 0;
  /// Forgets accepted tokens and starts the random sequence again.
  virtual void reset(uint64_t seed) = 0;
  /// The seed in use, also where it was drawn from the system.
  virtual uint64_t seed() const = 0;
};

/// Finds the stop string that is complete first in text that arrives in pieces; how the text is cut
/// into pieces makes no difference.
class StopMatcher {
 public:
  /// Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Adds text and returns what is now certain to stand before any stop string. A tail that could
  /// be the start of one is held back. After a match, nothing more comes out.
  std::string push(std::string_view text);
  /// The end of the text: returns what was held back.
  std::string finish();
  bool stopped() const { return matched_.has_value(); }
  /// The stop string that was found; empty before.
  std::string_view matched() const { return matched_ ? stops_[*matched_] : std::string_view(); }

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;
  std::string pending_;
  std::optional<size_t> matched_;  ///< index into stops_
};

}  // namespace minfer
