#include "workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "flags.h"

namespace minfer::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<TokenId> random_tokens(size_t n, uint32_t vocab, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % vocab);
  return tokens;
}

constexpr uint32_t kPromptSeed = 1;
constexpr uint32_t kDepthSeed = 1000;
constexpr TokenId kFirstToken = 1;  ///< fed where no prompt came before

using KernelKey = std::tuple<std::string, std::string, std::string>;
KernelKey key_of(const OpTiming& t) {
  return {t.op, t.kernel, t.device};
}

/// What was added to the sums since `before`.
std::vector<OpTiming> since(std::vector<OpTiming> now, const std::vector<OpTiming>& before) {
  std::map<KernelKey, const OpTiming*> old;
  for (const OpTiming& t : before) old[key_of(t)] = &t;
  for (OpTiming& t : now) {
    const auto found = old.find(key_of(t));
    if (found == old.end()) continue;
    t.calls -= found->second->calls;
    t.seconds -= found->second->seconds;
    t.bytes -= found->second->bytes;
  }
  std::erase_if(now, [](const OpTiming& t) { return t.calls == 0; });
  return now;
}

/// The kernels of a step's plans, without times.
Result<std::vector<OpTiming>> planned_kernels(Engine& engine, uint32_t tokens) {
  MINFER_ASSIGN(const auto nodes, engine.explain(tokens));
  std::map<KernelKey, OpTiming> kernels;
  for (const NodePlacement& n : nodes) {
    OpTiming& t = kernels[{n.op, n.kernel, n.device}];
    t.op = n.op;
    t.kernel = n.kernel;
    t.device = n.device;
    ++t.calls;
  }
  std::vector<OpTiming> out;
  for (auto& [key, t] : kernels) out.push_back(std::move(t));
  return out;
}

/// Reads one part of a workload's name: the digits after `prefix`.
Result<bool> take_part(const char* flag, std::string_view& rest, std::string_view prefix,
                       uint32_t low, uint32_t high, uint32_t& out) {
  if (!rest.starts_with(prefix)) return false;
  rest.remove_prefix(prefix.size());
  const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  rest.remove_prefix(digits.size());
  MINFER_ASSIGN(out, Flags::integer<uint32_t>(flag, digits, low, high));
  return true;
}

}  // namespace

std::string Workload::name() const {
  std::string out;
  if (beside > 0)
    out = fmt::format("mix{}+{}", prompt, beside);
  else if (prompt > 0)
    out = fmt::format("pp{}", prompt);
  if (generate > 0) out += fmt::format("{}tg{}", out.empty() ? "" : "+", generate);
  if (depth > 0) out += fmt::format(" @ d{}", depth);
  if (batch > 1) out += fmt::format(" x{}", batch);
  return out;
}

Result<Workload> Workload::parse(const char* flag, std::string_view text) {
  std::string packed(text);
  std::erase(packed, ' ');
  std::string_view rest = packed;
  Workload out;
  constexpr uint32_t kMax = kMaxWorkloadTokens;
  MINFER_ASSIGN(const bool mixed, take_part(flag, rest, "mix", 1, kMax, out.prompt));
  if (mixed) {
    MINFER_TRY(take_part(flag, rest, "+", 1, kMaxWorkloadBatch - 1, out.beside));
  } else {
    MINFER_ASSIGN(const bool prompt, take_part(flag, rest, "pp", 1, kMax, out.prompt));
    MINFER_TRY(take_part(flag, rest, prompt ? "+tg" : "tg", 1, kMax, out.generate));
  }
  MINFER_TRY(take_part(flag, rest, "@d", 0, kMax, out.depth));
  if (!mixed) MINFER_TRY(take_part(flag, rest, "x", 1, kMaxWorkloadBatch, out.batch));
  const bool empty = mixed ? out.beside == 0 : out.prompt == 0 && out.generate == 0;
  if (!rest.empty() || empty)
    return fail(ErrorCode::kUsage, fmt::format("'{}' is not a workload", text),
                fmt::format("--{}", flag),
                "e.g. pp512, tg128, pp512+tg128, tg128@d4096x8, mix500+7");
  return out;
}

uint32_t Workload::mixed_steps(uint32_t step_tokens) const {
  const uint32_t chunk = step_tokens > beside ? step_tokens - beside : 1;
  return (prompt + chunk - 1) / chunk;
}

uint64_t Workload::positions(uint32_t step_tokens) const {
  if (beside == 0) return uint64_t{depth} + prompt + generate;
  return uint64_t{depth} + std::max(prompt, mixed_steps(step_tokens));
}

struct WorkloadRunner::Pass {
  const StepObserver* observer = nullptr;
  std::vector<TokenId> forced;
  Clock::time_point start{};
  std::vector<TokenId> next;  ///< what each sequence is fed next
  WorkloadRun result;

  bool observed() const { return observer != nullptr; }

  void note_first_token() {
    if (result.first_token_seconds == 0) result.first_token_seconds = seconds_since(start);
  }
  /// Takes the rows of a step whose wanted sequences begin at index `first`.
  void take(const StepResult& step, size_t first) {
    note_first_token();
    if (observer) (*observer)(step);
    for (uint32_t i = 0; i < step.rows; ++i) {
      const size_t at = result.made.size();
      result.made.push_back(step.arg_max[i]);
      next[first + i] = at < forced.size() ? forced[at] : step.arg_max[i];
    }
  }
};

WorkloadRunner::WorkloadRunner(Engine& engine, const Workload& workload,
                               std::span<const TokenId> text)
    : engine_(&engine), workload_(workload) {
  prompt_ = random_tokens(size_t{workload.prompt} * workload.batch,
                          engine.model().hparams().n_vocab, kPromptSeed);
  for (size_t i = 0; i < prompt_.size() && !text.empty(); ++i)
    prompt_[i] = text[i % workload.prompt % text.size()];
}

WorkloadRunner::WorkloadRunner(WorkloadRunner&& other) noexcept
    : engine_(other.engine_),
      workload_(other.workload_),
      ids_(std::exchange(other.ids_, {})),
      prompt_(std::move(other.prompt_)) {}

WorkloadRunner::~WorkloadRunner() {
  (void)free_sequences();
}

Result<WorkloadRunner> WorkloadRunner::create(Engine& engine, const Workload& workload,
                                              std::span<const TokenId> text) {
  const uint32_t step = engine.options().max_step_tokens;
  if (workload.sequences() > step)
    return fail(ErrorCode::kUsage,
                fmt::format("{} has {} sequences in a step, which takes {} tokens", workload.name(),
                            workload.sequences(), step));
  WorkloadRunner runner(engine, workload, text);
  MINFER_TRY(runner.fill());
  return runner;
}

Result<void> WorkloadRunner::fill() {
  const uint32_t vocab = engine_->model().hparams().n_vocab;
  for (uint32_t s = 0; s < workload_.sequences(); ++s) {
    MINFER_ASSIGN(const SequenceId id, engine_->sequence_new());
    ids_.push_back(id);
    if (workload_.depth == 0) continue;
    const auto tokens = random_tokens(workload_.depth, vocab, kDepthSeed + s);
    MINFER_TRY(engine_->prefill(id, tokens, {.read_logits = false}));
  }
  return {};
}

Result<void> WorkloadRunner::free_sequences() {
  for (const SequenceId id : std::exchange(ids_, {})) MINFER_TRY(engine_->sequence_free(id));
  return {};
}

/// Layers with a sliding window may have let go of what a cut needs: then it is all made again.
Result<void> WorkloadRunner::reset() {
  for (const SequenceId id : ids_) {
    if (engine_->sequence_truncate(id, workload_.depth)) continue;
    MINFER_TRY(free_sequences());
    return fill();
  }
  return {};
}

Result<void> WorkloadRunner::feed_prompts(Pass& pass) {
  const StepOptions options{.read_logits = pass.observed()};
  for (size_t s = 0; s < ids_.size(); ++s) {
    const std::span<const TokenId> prompt(prompt_.data() + s * workload_.prompt, workload_.prompt);
    MINFER_ASSIGN(const StepResult step, engine_->prefill(ids_[s], prompt, options));
    pass.take(step, s);
    pass.result.tokens += prompt.size();
  }
  return {};
}

/// Steps of one chunk of the first sequence's prompt and one token of every other sequence.
Result<void> WorkloadRunner::feed_beside(Pass& pass) {
  const uint32_t chunk = engine_->options().max_step_tokens - workload_.beside;
  std::vector<StepEntry> entries(ids_.size());
  for (uint32_t at = 0; at < workload_.prompt; at += chunk) {
    const uint32_t n = std::min(chunk, workload_.prompt - at);
    entries[0] = {ids_[0], {prompt_.data() + at, n}, at + n == workload_.prompt, false};
    for (size_t s = 1; s < ids_.size(); ++s)
      entries[s] = {ids_[s], {&pass.next[s], 1}, true, false};
    MINFER_ASSIGN(const StepResult step, engine_->step(entries, {.read_logits = pass.observed()}));
    pass.take(step, entries[0].want_logits ? 0 : 1);
    pass.result.tokens += n + workload_.beside;
  }
  return {};
}

Result<void> WorkloadRunner::generate_alone(Pass& pass, uint32_t n) {
  const auto on_token = [&](TokenId) {
    pass.note_first_token();
    return true;
  };
  MINFER_ASSIGN(const auto made, engine_->decode_greedy(ids_[0], pass.next[0], n, {}, on_token));
  pass.result.made.insert(pass.result.made.end(), made.begin(), made.end());
  pass.result.tokens += made.size();
  return {};
}

/// One token after another for all sequences together.
Result<void> WorkloadRunner::generate(Pass& pass, uint32_t n) {
  if (ids_.size() == 1 && !pass.observed()) return generate_alone(pass, n);
  std::vector<StepEntry> entries(ids_.size());
  for (uint32_t i = 0; i < n; ++i) {
    for (size_t s = 0; s < ids_.size(); ++s)
      entries[s] = {ids_[s], {&pass.next[s], 1}, true, false};
    MINFER_ASSIGN(const StepResult step, engine_->step(entries, {.read_logits = pass.observed()}));
    pass.take(step, 0);
    pass.result.tokens += ids_.size();
  }
  return {};
}

Result<WorkloadRun> WorkloadRunner::run_pass(Pass& pass, uint32_t bound) {
  pass.next.assign(ids_.size(), kFirstToken);
  pass.result.made.reserve(size_t{workload_.generate} * workload_.batch + 1);
  pass.start = Clock::now();
  if (workload_.beside > 0) {
    MINFER_TRY(feed_beside(pass));
  } else if (workload_.prompt > 0) {
    MINFER_TRY(feed_prompts(pass));
  }
  if (const uint32_t n = std::min(workload_.generate, bound); n > 0) MINFER_TRY(generate(pass, n));
  pass.result.seconds = seconds_since(pass.start);
  MINFER_TRY(reset());
  return std::move(pass.result);
}

Result<WorkloadRun> WorkloadRunner::run(uint32_t generate) {
  Pass pass;
  return run_pass(pass, generate);
}

Result<WorkloadRun> WorkloadRunner::run_observed(const StepObserver& observer,
                                                 std::vector<TokenId> forced, uint32_t generate) {
  Pass pass;
  pass.observer = &observer;
  pass.forced = std::move(forced);
  return run_pass(pass, generate);
}

Result<std::vector<OpTiming>> WorkloadRunner::trace(uint32_t generate) {
  const std::vector<OpTiming> before = engine_->op_timings();
  engine_->set_timing(true);
  auto ran = run(generate);
  engine_->set_timing(false);
  if (!ran) return tl::make_unexpected(std::move(ran).error());
  std::vector<OpTiming> kernels = since(engine_->op_timings(), before);
  if (!kernels.empty()) return kernels;
  const uint32_t step = engine_->options().max_step_tokens;
  return planned_kernels(*engine_, workload_.prompt > 0
                                       ? std::min(workload_.prompt + workload_.beside, step)
                                       : workload_.batch);
}

}  // namespace minfer::app
