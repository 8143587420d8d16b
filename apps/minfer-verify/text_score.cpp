#include "text_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace minfer::verify {
namespace {

constexpr size_t kLogitsBytes = 256u << 20;  // of one step

double log_probability(std::span<const float> row, TokenId token) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float logit : row) sum += std::exp(logit - largest);
  return row[static_cast<size_t>(token)] - largest - std::log(sum);
}

/// Sum over the tokens of a window but its first.
Result<double> score_window(Engine& engine, std::span<const TokenId> window) {
  const uint32_t vocab = engine.model().hparams().n_vocab;
  MINFER_ASSIGN(const SequenceId id, engine.sequence_new());
  double sum = 0;
  for (size_t at = 0; at < window.size();) {
    const auto part =
        window.subspan(at, std::min<size_t>(window.size() - at, engine.options().max_step_outputs));
    const StepEntry entry{id, part, false, true};
    MINFER_ASSIGN(const StepResult result, engine.step({&entry, 1}));
    for (uint32_t i = 0; i < result.rows && at + i + 1 < window.size(); ++i)
      sum += log_probability(result.row(i, vocab), window[at + i + 1]);
    at += part.size();
  }
  MINFER_TRY(engine.sequence_free(id));
  return sum;
}

/// In steps of `step` tokens; 0: as many as can be.
Result<double> mean_score(Side& side, const std::vector<TokenId>& tokens, uint32_t window,
                          uint32_t step) {
  const size_t row_bytes = side.model()->hparams().n_vocab * sizeof(float);
  const uint32_t most = std::min(window, step > 0 ? step : EngineOptions{}.max_step_tokens);
  const auto rows = static_cast<uint32_t>(std::clamp<size_t>(kLogitsBytes / row_bytes, 1, most));
  log(LogLevel::kInfo, fmt::format("{}: {} tokens of text in windows of {}, {} a step", side.name(),
                                   tokens.size(), window, rows));
  MINFER_ASSIGN(const auto engine, side.engine(1, window, rows));
  double sum = 0;
  size_t scored = 0;
  for (size_t at = 0; at < tokens.size(); at += window) {
    const auto part = std::span(tokens).subspan(at, std::min<size_t>(window, tokens.size() - at));
    MINFER_ASSIGN(const double part_sum, score_window(*engine, part));
    sum += part_sum;
    scored += part.size() - 1;
  }
  return sum / static_cast<double>(scored);
}

}  // namespace

Result<std::vector<TokenId>> text_tokens(const Model& model, const std::string& text,
                                         const Options& options) {
  MINFER_ASSIGN(const auto tokenizer, Tokenizer::create(model.file()));
  std::vector<TokenId> tokens = tokenizer->encode(text, false, true);
  if (tokens.size() < 2)
    return fail(ErrorCode::kUsage, fmt::format("the text has {} tokens", tokens.size()), "--text",
                "two or more are needed");
  tokens.resize(std::min<size_t>(tokens.size(), options.text_tokens));
  return tokens;
}

Result<RowsCheck> check_text(Side& reference, Side& candidate, const std::vector<TokenId>& tokens,
                             const Options& options) {
  RowsCheck out{.gate = "text", .limit = options.text_tolerance};
  TextScore score;
  MINFER_ASSIGN(score.reference, mean_score(reference, tokens, options.text_window, 0));
  MINFER_ASSIGN(score.candidate,
                mean_score(candidate, tokens, options.text_window, options.text_step));
  out.rows = static_cast<uint32_t>(tokens.size());
  out.mean_error = out.worst_error = std::abs(score.candidate / score.reference - 1);
  out.text = score;
  if (!(out.mean_error <= out.limit))
    out.failure = fmt::format("the mean log-probability differs by {:.2g}, more than {:.2g}",
                              out.mean_error, out.limit);
  return out;
}

}  // namespace minfer::verify
