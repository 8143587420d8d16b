// The gates that need whole engines: greedy identity, replayed against direct runs, sequences in a
// batch against alone.
//
// Logits are compared row by row as |b - a| / |a - mean(a)|. Where the largest logit is at another
// token, the gap between the two in the first side's row tells a near-tie, which rounding may turn,
// from a fault: a near-tie's gap is below kNearTie times the rms difference of the rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "minfer/engine.h"
#include "options.h"
#include "side.h"

namespace minfer::verify {

inline constexpr double kNearTie = 4;
/// Rounding to 8 bits hits a few tokens, those with outliers among their activations, several times
/// harder than the rest.
inline constexpr double kWorstRow = 4;

/// A place where the largest logit is at another token.
struct Divergence {
  uint32_t sequence = 0;
  uint32_t position = 0;  ///< counted from the first generated token
  TokenId expected = 0;
  TokenId found = 0;
  double gap = 0;        ///< between the two tokens in the first side's logits
  double found_gap = 0;  ///< in the other's
  bool near_tie = false;
};

/// Mean log-probability of a text on both sides, natural logarithm.
struct TextScore {
  double reference = 0;
  double candidate = 0;
};

struct RowsCheck {
  std::string gate;
  uint32_t rows = 0;
  double mean_error = 0;   ///< of the rows
  double worst_error = 0;  ///< of one row
  double limit = 0;        ///< of the mean; one row may have kWorstRow times that
  std::vector<Divergence> divergences{};
  std::optional<TextScore> text{};  ///< of the text gate
  std::string failure{};            ///< empty: it holds
};

/// The reference generates; the candidate is fed the same tokens.
Result<RowsCheck> check_greedy(Engine& reference, Engine& candidate,
                               const std::vector<TokenId>& prompt, const Options& options);

/// Steps one by one, steps whose nodes are timed (so that nothing is replayed), and decoding ahead:
/// the same bits and the same tokens.
Result<RowsCheck> check_replay(Engine& engine, const std::vector<TokenId>& prompt,
                               const Options& options);

/// Sequences with prompts of different lengths: each alone, then all in one step at a time, fed the
/// same tokens.
Result<RowsCheck> check_batch(Engine& engine, const std::vector<TokenId>& prompt,
                              const Options& options);

}  // namespace minfer::verify
