#include "sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace minfer::verify {
namespace {

using Row = std::vector<float>;

constexpr double kNoNumber = 1e30;  // the error of a row with a NaN

/// What one sequence yields: a row of logits per generated token.
struct Trace {
  std::vector<Row> rows;
  std::vector<TokenId> tokens;  ///< the largest of each row
};

TokenId largest(std::span<const float> row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

void note(Trace& trace, std::span<const float> row) {
  trace.rows.emplace_back(row.begin(), row.end());
  trace.tokens.push_back(largest(row));
}

/// Feeds a prompt and then n - 1 tokens: `forced`, or what it makes itself.
Result<Trace> follow(Engine& engine, std::span<const TokenId> prompt, uint32_t n,
                     std::span<const TokenId> forced) {
  const uint32_t vocab = engine.model().hparams().n_vocab;
  MINFER_ASSIGN(const SequenceId id, engine.sequence_new());
  Trace trace;
  MINFER_ASSIGN(const StepResult first, engine.prefill(id, prompt));
  note(trace, first.row(0, vocab));
  for (uint32_t i = 1; i < n; ++i) {
    const TokenId token = forced.empty() ? trace.tokens.back() : forced[i - 1];
    const StepEntry entry{id, {&token, 1}, true, false};
    MINFER_ASSIGN(const StepResult result, engine.step({&entry, 1}));
    note(trace, result.row(0, vocab));
  }
  MINFER_TRY(engine.sequence_free(id));
  return trace;
}

void compare_row(const Row& a, const Row& b, uint32_t sequence, uint32_t position, RowsCheck& out) {
  const double mean = std::accumulate(a.begin(), a.end(), 0.0) / static_cast<double>(a.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{b[i]} - a[i]) * (double{b[i]} - a[i]);
    norm += (a[i] - mean) * (a[i] - mean);
  }
  const double error = std::sqrt(difference / std::max(norm, 1e-30));
  const double finite = std::isfinite(error) ? error : kNoNumber;
  out.worst_error = std::max(out.worst_error, finite);
  out.mean_error += (finite - out.mean_error) / ++out.rows;
  const TokenId expected = largest(a), found = largest(b);
  if (expected == found) return;
  const auto e = static_cast<size_t>(expected), f = static_cast<size_t>(found);
  Divergence d{sequence, position, expected, found, double{a[e]} - a[f], double{b[f]} - b[e]};
  d.near_tie = d.gap <= kNearTie * std::sqrt(difference / static_cast<double>(a.size()));
  out.divergences.push_back(d);
}

void compare_traces(const Trace& a, const Trace& b, uint32_t sequence, RowsCheck& out) {
  for (size_t i = 0; i < a.rows.size(); ++i)
    compare_row(a.rows[i], b.rows[i], sequence, static_cast<uint32_t>(i), out);
}

void judge(RowsCheck& check) {
  if (!(check.mean_error <= check.limit)) {
    check.failure = fmt::format("logits differ by {:.2g} on average, more than {:.2g}",
                                check.mean_error, check.limit);
  } else if (!(check.worst_error <= kWorstRow * check.limit)) {
    check.failure = fmt::format("logits of one row differ by {:.2g}, more than {:.2g}",
                                check.worst_error, kWorstRow * check.limit);
  }
  for (const Divergence& d : check.divergences) {
    if (d.near_tie || !check.failure.empty()) continue;
    check.failure = fmt::format(
        "at position {} of sequence {} token {} is the largest instead of {}, which was ahead by "
        "{:.3g}: no near-tie",
        d.position, d.sequence, d.found, d.expected, d.gap);
  }
}

/// All sequences in one step at a time, each fed its own tokens.
Result<std::vector<Trace>> follow_together(Engine& engine,
                                           const std::vector<std::span<const TokenId>>& prompts,
                                           const std::vector<Trace>& alone) {
  const uint32_t vocab = engine.model().hparams().n_vocab;
  std::vector<Trace> out(prompts.size());
  std::vector<StepEntry> entries(prompts.size());
  for (size_t s = 0; s < prompts.size(); ++s) {
    MINFER_ASSIGN(const SequenceId id, engine.sequence_new());
    entries[s] = {id, prompts[s], true, false};
  }
  for (size_t i = 0; i < alone.front().rows.size(); ++i) {
    for (size_t s = 0; i > 0 && s < entries.size(); ++s)
      entries[s].tokens = {&alone[s].tokens[i - 1], 1};
    MINFER_ASSIGN(const StepResult result, engine.step(entries));
    for (uint32_t s = 0; s < entries.size(); ++s) note(out[s], result.row(s, vocab));
  }
  for (const StepEntry& entry : entries) MINFER_TRY(engine.sequence_free(entry.sequence));
  return out;
}

}  // namespace

Result<RowsCheck> check_greedy(Engine& reference, Engine& candidate,
                               const std::vector<TokenId>& prompt, const Options& options) {
  RowsCheck out{.gate = "greedy", .limit = options.tolerance};
  MINFER_ASSIGN(const Trace a, follow(reference, prompt, options.tokens, {}));
  MINFER_ASSIGN(const Trace b, follow(candidate, prompt, options.tokens, a.tokens));
  if (a.rows.front().size() != b.rows.front().size())
    return fail(ErrorCode::kUsage, "the two models have different vocabularies",
                "--reference-model");
  compare_traces(a, b, 0, out);
  judge(out);
  return out;
}

Result<RowsCheck> check_replay(Engine& engine, const std::vector<TokenId>& prompt,
                               const Options& options) {
  RowsCheck out{.gate = "replay", .limit = 0};
  // Twice, as a backend may capture what it has run once.
  MINFER_TRY(follow(engine, prompt, options.tokens, {}));
  MINFER_ASSIGN(const Trace replayed, follow(engine, prompt, options.tokens, {}));
  engine.set_timing(true);
  auto direct = follow(engine, prompt, options.tokens, replayed.tokens);
  engine.set_timing(false);
  if (!direct) return tl::make_unexpected(std::move(direct).error());
  compare_traces(*direct, replayed, 0, out);
  judge(out);

  MINFER_ASSIGN(const SequenceId id, engine.sequence_new());
  MINFER_ASSIGN(const StepResult first, engine.prefill(id, prompt, {.read_logits = false}));
  std::vector<TokenId> ahead = {first.arg_max[0]};
  if (options.tokens > 1) {
    MINFER_ASSIGN(const auto more, engine.decode_greedy(id, ahead[0], options.tokens - 1, {}, {}));
    ahead.insert(ahead.end(), more.begin(), more.end());
  }
  MINFER_TRY(engine.sequence_free(id));
  const auto at =
      std::mismatch(ahead.begin(), ahead.end(), replayed.tokens.begin(), replayed.tokens.end());
  if (at.first != ahead.end() && out.failure.empty())
    out.failure = fmt::format("decoding ahead yields token {} at position {}, step by step {}",
                              *at.first, at.first - ahead.begin(), *at.second);
  return out;
}

Result<RowsCheck> check_batch(Engine& engine, const std::vector<TokenId>& prompt,
                              const Options& options) {
  RowsCheck out{.gate = "batch", .limit = options.tolerance};
  std::vector<std::span<const TokenId>> prompts;
  std::vector<Trace> alone;
  for (uint32_t s = 0; s < options.sequences; ++s) {
    const size_t cut = std::min<size_t>(s, prompt.size() - 1);
    prompts.push_back(std::span(prompt).subspan(0, prompt.size() - cut));
    MINFER_ASSIGN(alone.emplace_back(), follow(engine, prompts.back(), options.tokens, {}));
  }
  MINFER_ASSIGN(const auto together, follow_together(engine, prompts, alone));
  for (uint32_t s = 0; s < options.sequences; ++s) compare_traces(alone[s], together[s], s, out);
  judge(out);
  return out;
}

}  // namespace minfer::verify
