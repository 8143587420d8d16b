#include "bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

namespace minfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<TokenId> random_tokens(uint32_t n, uint32_t vocab, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % vocab);
  return tokens;
}

/// Sequences that exist for one repetition.
class Batch {
 public:
  Batch(Engine& engine, uint32_t n) : engine_(engine) { ids_.reserve(n); }
  ~Batch() {
    for (const SequenceId id : ids_) (void)engine_.sequence_free(id);
  }
  Result<void> create(uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
      MINFER_ASSIGN(const SequenceId id, engine_.sequence_new());
      ids_.push_back(id);
    }
    return {};
  }
  const std::vector<SequenceId>& ids() const { return ids_; }

 private:
  Engine& engine_;
  std::vector<SequenceId> ids_;
};

/// Feeds `n` tokens to every sequence in steps as large as the engine takes; logits of the last
/// one.
Result<void> feed(Engine& engine, const Batch& batch, uint32_t n, uint32_t seed) {
  const uint32_t vocab = engine.model().hparams().n_vocab;
  const StepOptions no_logits{.read_logits = false};
  for (size_t s = 0; s < batch.ids().size(); ++s) {
    const auto tokens = random_tokens(n, vocab, seed + static_cast<uint32_t>(s));
    MINFER_TRY(engine.prefill(batch.ids()[s], tokens, no_logits));
  }
  return {};
}

/// One token after another for all sequences together, each fed its own arg-max.
Result<void> generate(Engine& engine, const Batch& batch, uint32_t n) {
  if (batch.ids().size() == 1) {
    MINFER_TRY(engine.decode_greedy(batch.ids()[0], 1, n, {}, [](TokenId) { return true; }));
    return {};
  }
  std::vector<TokenId> last(batch.ids().size(), 1);
  std::vector<StepEntry> entries(batch.ids().size());
  for (uint32_t i = 0; i < n; ++i) {
    for (size_t s = 0; s < entries.size(); ++s)
      entries[s] = {batch.ids()[s], {&last[s], 1}, true, false};
    MINFER_ASSIGN(const StepResult result, engine.step(entries, {.read_logits = false}));
    std::copy(result.arg_max.begin(), result.arg_max.end(), last.begin());
  }
  return {};
}

Result<double> repeat_once(Engine& engine, const Test& test, uint32_t seed) {
  Batch batch(engine, test.batch);
  MINFER_TRY(batch.create(test.batch));
  if (test.depth > 0) MINFER_TRY(feed(engine, batch, test.depth, seed + 1000));
  const auto start = Clock::now();
  if (test.prompt > 0) MINFER_TRY(feed(engine, batch, test.prompt, seed));
  if (test.generate > 0) MINFER_TRY(generate(engine, batch, test.generate));
  const double seconds = seconds_since(start);
  return static_cast<double>(test.prompt + test.generate) * test.batch / seconds;
}

/// Labels of what a step of this test runs, without repeats.
Result<void> note_kernels(Engine& engine, const Test& test, Measurement& out) {
  const uint32_t tokens = test.generate > 0 && test.prompt == 0
                              ? test.batch
                              : std::min(test.prompt, engine.options().max_step_tokens);
  MINFER_ASSIGN(const auto nodes, engine.explain(std::max(tokens, 1u)));
  std::set<std::string> kernels;
  std::set<std::string> devices;
  for (const NodePlacement& n : nodes) {
    devices.insert(n.device);
    if ((n.op == "MatMul" || n.op == "Attention") && !n.kernel.empty()) kernels.insert(n.kernel);
  }
  out.kernels.assign(kernels.begin(), kernels.end());
  out.devices.assign(devices.begin(), devices.end());
  return {};
}

}  // namespace

std::string Test::name() const {
  std::string out;
  if (prompt > 0) out = fmt::format("pp{}", prompt);
  if (generate > 0) out += fmt::format("{}tg{}", out.empty() ? "" : "+", generate);
  if (depth > 0) out += fmt::format(" @ d{}", depth);
  if (batch > 1) out += fmt::format(" x{}", batch);
  return out;
}

double Measurement::median() const {
  std::vector<double> sorted = tokens_per_second;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}
double Measurement::min() const {
  return *std::min_element(tokens_per_second.begin(), tokens_per_second.end());
}
double Measurement::max() const {
  return *std::max_element(tokens_per_second.begin(), tokens_per_second.end());
}

Result<Measurement> run_test(Engine& engine, const Test& test, uint32_t repetitions) {
  Measurement out;
  out.test = test;
  MINFER_TRY(repeat_once(engine, test, 1));
  for (uint32_t i = 0; i < repetitions; ++i) {
    MINFER_ASSIGN(const double speed, repeat_once(engine, test, 2 + i));
    out.tokens_per_second.push_back(speed);
  }
  MINFER_TRY(note_kernels(engine, test, out));
  return out;
}

}  // namespace minfer::bench
