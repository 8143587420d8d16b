// minfer-verify: whether a backend computes a model right, and if not, where it goes wrong first.
#include <fmt/format.h>

#include <algorithm>

#include "files.h"
#include "options.h"
#include "parity.h"
#include "report.h"
#include "sequences.h"
#include "steps.h"
#include "terminal.h"
#include "text_score.h"

using namespace minfer;

namespace {

constexpr const char* kProgram = "minfer-verify";
constexpr int kDoesNotHold = 1;
constexpr size_t kMaxTextBytes = 256u << 20;

/// Positions before a step: decode has some, a prompt begins at the first.
uint32_t past_of(const verify::Options& options, uint32_t tokens) {
  return tokens == 1 ? options.past : 0;
}

Result<std::vector<verify::StepValues>> run_steps(verify::Side& side,
                                                  const verify::Options& options) {
  std::vector<verify::StepValues> steps;
  for (const uint32_t n : options.step_tokens) {
    auto tokens = verify::prompt_tokens(*side.model(), options.prompt, n);
    tokens.resize(n);
    log(LogLevel::kInfo, fmt::format("{}: the nodes of a step of {} tokens", side.name(), n));
    MINFER_ASSIGN(auto values, verify::run_step(side, tokens, past_of(options, n)));
    steps.push_back(std::move(values));
  }
  return steps;
}

Result<int> dump(const verify::Options& options) {
  MINFER_TRY(app::check_writable(options.dump));
  MINFER_ASSIGN(auto side,
                verify::Side::open(options.candidate, options.candidate_gates, options.quiet));
  MINFER_ASSIGN(const auto steps, run_steps(side, options));
  // Tensors have the same indices and types for every bucket.
  MINFER_ASSIGN(const Graph graph, side.model()->build({{1, 1, 1, 1}, side.kv_type(), 1, true}));
  const std::string made_by = fmt::format("minfer {}, {} on {}", MINFER_RELEASE,
                                          options.candidate.model.filename().string(), side.name());
  MINFER_TRY(verify::write_steps(options.dump, graph, steps, made_by));
  return 0;
}

Result<void> check_parity(verify::Side& candidate, const std::vector<verify::StepValues>& steps,
                          verify::Outcome& out) {
  out.parity.emplace();
  for (const verify::StepValues& step : steps) {
    log(LogLevel::kInfo,
        fmt::format("{}: the nodes of a step of {} tokens", candidate.name(), step.tokens.size()));
    MINFER_TRY(verify::compare_step(candidate, step, *out.parity));
  }
  return {};
}

Result<void> check_sequences(verify::Side& candidate, verify::Side& reference,
                             const verify::Options& options, verify::Outcome& out) {
  const auto prompt = verify::prompt_tokens(*candidate.model(), options.prompt, 2);
  const auto context = static_cast<uint32_t>(prompt.size()) + options.tokens;
  MINFER_ASSIGN(const auto engine, candidate.engine(options.sequences, context));
  const auto add = [&](Result<verify::RowsCheck> check) -> Result<void> {
    MINFER_ASSIGN(out.gates.emplace_back(), std::move(check));
    return {};
  };
  if (options.greedy) {
    log(LogLevel::kInfo, fmt::format("{} greedy tokens on both sides", options.tokens));
    MINFER_ASSIGN(const auto other, reference.engine(1, context));
    MINFER_TRY(add(verify::check_greedy(*other, *engine, prompt, options)));
  }
  if (options.replay) MINFER_TRY(add(verify::check_replay(*engine, prompt, options)));
  if (options.batch) MINFER_TRY(add(verify::check_batch(*engine, prompt, options)));
  return {};
}

Result<void> check_text(verify::Side& candidate, verify::Side& reference,
                        const verify::Options& options, verify::Outcome& out) {
  MINFER_ASSIGN(const std::string text, app::read_file(options.text, kMaxTextBytes));
  MINFER_ASSIGN(const auto tokens, verify::text_tokens(*candidate.model(), text, options));
  MINFER_ASSIGN(out.gates.emplace_back(),
                verify::check_text(reference, candidate, tokens, options));
  return {};
}

/// 0 where the candidate cannot be given made-up keys and values.
Result<uint32_t> possible_past(verify::Side& candidate, uint32_t wanted) {
  MINFER_ASSIGN(const auto device, candidate.device());
  return MINFER_HAS_FN(&device->table(), kv_import_page) ? wanted : 0;
}

Result<verify::Outcome> check(verify::Options options) {
  verify::Outcome out;
  out.model = options.candidate.model.string();
  MINFER_ASSIGN(auto candidate,
                verify::Side::open(options.candidate, options.candidate_gates, options.quiet));
  out.candidate = candidate.name();
  if (!options.against.empty()) {
    MINFER_ASSIGN(const verify::StepFile file, verify::read_steps(options.against));
    out.reference = fmt::format("{} ({})", options.against, file.made_by);
    MINFER_TRY(check_parity(candidate, file.steps, out));
    return out;
  }
  MINFER_ASSIGN(auto reference,
                verify::Side::open(options.reference, options.reference_gates, options.quiet));
  out.reference = reference.name();
  if (options.reference.model != options.candidate.model)
    out.reference += fmt::format(" with {}", options.reference.model.string());
  if (options.parity) {
    MINFER_ASSIGN(options.past, possible_past(candidate, options.past));
    MINFER_ASSIGN(const auto steps, run_steps(reference, options));
    MINFER_TRY(check_parity(candidate, steps, out));
  }
  if (options.greedy || options.replay || options.batch)
    MINFER_TRY(check_sequences(candidate, reference, options, out));
  if (!options.text.empty()) MINFER_TRY(check_text(candidate, reference, options, out));
  return out;
}

Result<int> run_command(int argc, char** argv) {
  MINFER_ASSIGN(const verify::Options options, verify::parse_options(argc, argv));
  if (options.help) return app::print(verify::help_text());
  if (options.version) return app::print("minfer " MINFER_RELEASE "\n");
  app::log_to_stderr(kProgram, options.quiet ? LogLevel::kError : LogLevel::kInfo);
  if (!options.dump.empty()) return dump(options);
  MINFER_ASSIGN(const verify::Outcome outcome, check(options));
  MINFER_TRY(app::print(options.json ? verify::json_text(outcome) : verify::text(outcome)));
  return outcome.holds() ? 0 : kDoesNotHold;
}

}  // namespace

int main(int argc, char** argv) {
  return app::run_program(kProgram, argc, argv, run_command);
}
