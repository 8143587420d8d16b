#include "outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace minfer::ab {
namespace {

constexpr uint64_t kMaxKeptFloats = uint64_t{1} << 26;

/// Tokens that the check generates, fewer where all rows of logits would take too much memory.
uint32_t check_tokens(const app::Workload& check, uint32_t vocab) {
  const uint64_t rows = kMaxKeptFloats / (uint64_t{vocab} * check.sequences());
  return static_cast<uint32_t>(std::clamp<uint64_t>(rows, 2, check.generate + 1) - 1);
}

/// Sums of squares over rows: how far b is from a, and how far a's values lie apart within a row.
struct Distance {
  double off = 0;
  double spread = 0;

  void add(std::span<const float> a, std::span<const float> b) {
    double mean = 0;
    for (const float x : a) mean += x;
    mean /= static_cast<double>(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      off += (double{b[i]} - a[i]) * (double{b[i]} - a[i]);
      spread += (a[i] - mean) * (a[i] - mean);
    }
  }
  /// Infinite where a value was no number.
  double relative() const {
    if (off == 0) return 0;
    const double error = std::sqrt(off / spread);
    return std::isfinite(error) ? error : INFINITY;
  }
};

/// Rows of logits of side A, and side B's figures against them.
class RowComparison {
 public:
  void keep(const StepResult& step) {
    rows_.insert(rows_.end(), step.logits.begin(), step.logits.end());
    tokens_.insert(tokens_.end(), step.arg_max.begin(), step.arg_max.end());
  }
  void compare(const StepResult& step, uint32_t vocab) {
    for (uint32_t i = 0; i < step.rows && out_.rows < tokens_.size(); ++i) {
      const std::span<const float> a(rows_.data() + size_t{out_.rows} * vocab, vocab);
      const std::span<const float> b = step.row(i, vocab);
      same_bits_ = same_bits_ && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
      distance_.add(a, b);
      if (tokens_[out_.rows] != step.arg_max[i]) ++out_.different_tokens;
      ++out_.rows;
    }
  }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  bool same_bits() const { return same_bits_; }
  OutputCheck result() {
    out_.error = distance_.relative();
    return out_;
  }

 private:
  std::vector<float> rows_;
  std::vector<TokenId> tokens_;
  OutputCheck out_;
  Distance distance_;
  bool same_bits_ = true;
};

}  // namespace

Result<OutputCheck> compare_outputs(Sides& sides, const Options& options) {
  const app::Workload check = check_workload(options.metric);
  RowComparison rows;
  for (size_t side = 0; side < 2; ++side) {
    MINFER_TRY(sides.use(side));
    const uint32_t vocab = sides.engine().model().hparams().n_vocab;
    const auto see = [&](const StepResult& step) {
      if (side == 0)
        rows.keep(step);
      else
        rows.compare(step, vocab);
    };
    MINFER_TRY(sides.run_check(check, see, side == 0 ? std::vector<TokenId>() : rows.tokens(),
                               check_tokens(check, vocab)));
  }
  OutputCheck out = rows.result();
  if (!std::isfinite(out.error))
    out.refusal = "the outputs hold values that are no numbers";
  else if (!sides.gate().affects_numerics && !rows.same_bits())
    out.refusal = fmt::format(
        "the outputs differ (relative difference {:.1e}), and {} does not declare that it changes "
        "them",
        out.error, sides.gate().name);
  else if (out.error > options.tolerance)
    out.refusal = fmt::format(
        "the outputs differ by more than rounding: relative difference {:.1e} of the logits, "
        "{:.1e} "
        "is allowed",
        out.error, options.tolerance);
  return out;
}

}  // namespace minfer::ab
