// Workloads: what a benchmark runs on an engine, again and again.
//
// Tokens are random with a fixed seed, so any model can be run, with or without a tokenizer, and
// two runs of a workload do the same work. Used by one thread, as the engine is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "minfer/engine.h"

namespace minfer::app {

/// `prompt` tokens and then `generate` tokens in each of `batch` sequences that already hold
/// `depth` positions. With `beside`, the prompt of one sequence is fed in steps in which that many
/// other sequences generate a token each.
struct Workload {
  uint32_t prompt = 0;
  uint32_t generate = 0;
  uint32_t depth = 0;
  uint32_t batch = 1;
  uint32_t beside = 0;

  /// "pp512", "tg128", "pp512+tg128", "mix500+7", each with " @ d4096" and " x8" where it applies.
  std::string name() const;
  /// What name() makes; spaces are optional. kUsage naming `flag`.
  static Result<Workload> parse(const char* flag, std::string_view text);

  uint32_t sequences() const { return batch + beside; }
  /// Steps that feed the prompt beside others, in steps of at most `step_tokens`.
  uint32_t mixed_steps(uint32_t step_tokens) const;
  /// Positions that the longest sequence needs.
  uint64_t positions(uint32_t step_tokens) const;
};

inline constexpr uint32_t kMaxWorkloadTokens = 1u << 24;
inline constexpr uint32_t kMaxWorkloadBatch = 4096;

/// One run of a workload.
struct WorkloadRun {
  double seconds = 0;
  /// From the start to the first token that the model makes; 0: it makes none.
  double first_token_seconds = 0;
  uint64_t tokens = 0;  ///< fed and generated, all sequences together
  std::vector<TokenId> made;
};

/// Sees the result of every step that ended with wanted rows.
using StepObserver = std::function<void(const StepResult&)>;

/// A workload with its sequences, filled to their depth. The engine must outlive it.
class WorkloadRunner {
 public:
  /// `text` (may be empty) is repeated as the prompt of every sequence, in place of random tokens.
  static Result<WorkloadRunner> create(Engine& engine, const Workload& workload,
                                       std::span<const TokenId> text = {});
  WorkloadRunner(WorkloadRunner&&) noexcept;
  WorkloadRunner& operator=(WorkloadRunner&&) = delete;
  ~WorkloadRunner();

  /// Runs it and cuts the sequences back to their depth. `generate` bounds the tokens made.
  Result<WorkloadRun> run(uint32_t generate = UINT32_MAX);

  /// The same step by step with logits read: one sequence too goes through Engine::step, and where
  /// `forced` is not empty its tokens are fed instead of those that the model makes.
  Result<WorkloadRun> run_observed(const StepObserver& observer, std::vector<TokenId> forced,
                                   uint32_t generate);

  /// What ran: times, calls and kernels of one run measured node by node. Where a backend does not
  /// measure, the kernels of its plans without times. `generate` bounds the tokens made.
  Result<std::vector<OpTiming>> trace(uint32_t generate = UINT32_MAX);

 private:
  struct Pass;
  WorkloadRunner(Engine& engine, const Workload& workload, std::span<const TokenId> text);
  Result<void> fill();
  Result<void> reset();
  Result<void> free_sequences();
  Result<void> feed_prompts(Pass& pass);
  Result<void> feed_beside(Pass& pass);
  Result<void> generate(Pass& pass, uint32_t n);
  Result<void> generate_alone(Pass& pass, uint32_t n);
  Result<WorkloadRun> run_pass(Pass& pass, uint32_t generate);

  Engine* engine_;
  Workload workload_;
  std::vector<SequenceId> ids_;
  std::vector<TokenId> prompt_;  ///< sequence by sequence
};

}  // namespace minfer::app
