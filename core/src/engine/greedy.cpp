// Greedy decoding: where a step is one split, the next step reads its token from the arg-max output
// on the device, so steps are queued ahead of their results. When decoding stops, what was queued
// beyond that point is cut off the sequence again.
#include <algorithm>

#include "engine/engine_impl.h"

namespace minfer {

struct EngineImpl::GreedyRun {
  SequenceId id = 0;
  TokenId next = 0;  ///< fed by the next step, where the host feeds it
  uint32_t n = 0;
  std::span<const TokenId> stop;
  const std::function<bool(TokenId)>* on_token = nullptr;
  uint32_t start = 0;  ///< positions before the first step
  std::vector<TokenId> tokens;
  bool stopped = false;

  /// Takes a result; sets `stopped` when it is the last one wanted.
  void take(TokenId token) {
    tokens.push_back(token);
    next = token;
    const bool more = !*on_token || (*on_token)(token);
    stopped =
        !more || tokens.size() == n || std::find(stop.begin(), stop.end(), token) != stop.end();
  }
};

Result<void> EngineImpl::greedy_one_by_one(GreedyRun& run) {
  while (!run.stopped) {
    const StepEntry entry{run.id, {&run.next, 1}, true, false};
    auto result = step_once({&entry, 1}, false);
    if (!result) {
      const bool full = result.error().code == ErrorCode::kContext && !run.tokens.empty();
      if (full) return {};
      return tl::make_unexpected(std::move(result).error());
    }
    run.take(result->arg_max[0]);
  }
  return {};
}

Result<void> EngineImpl::greedy_ahead(GreedyRun& run) {
  // The rows that are cut off again must still be held by layers with a sliding window.
  const uint32_t depth = std::min(kStepSlots - 1, kv_->page_tokens());
  uint32_t slots[kStepSlots];
  uint32_t queued = 0;
  uint32_t limit = run.n;
  const auto taken = [&] { return static_cast<uint32_t>(run.tokens.size()); };
  const TokenId first = run.next;
  while (!run.stopped) {
    if (queued < limit && queued - taken() < depth) {
      const StepEntry entry{run.id, {&first, 1}, true, false};
      auto slot = enqueue({&entry, 1}, false, queued == 0 ? nullptr : plans_->hand_on.get());
      if (!slot) {
        if (slot.error().code != ErrorCode::kContext || queued == 0)
          return tl::make_unexpected(std::move(slot).error());
        limit = queued;  // the context is full: what is under way is the rest
        continue;
      }
      kv_->commit();
      slots[queued++ % kStepSlots] = *slot;
    }
    // Results are taken as soon as they are there; with nothing more to queue they are waited for.
    while (!run.stopped && taken() < queued) {
      const uint32_t slot = slots[taken() % kStepSlots];
      const bool must_wait = queued == limit || queued - taken() == depth;
      if (!must_wait) {
        MINFER_ASSIGN(const bool ready, runner_->ready(slot));
        if (!ready) break;
      }
      MINFER_TRY(runner_->complete(slot));
      run.take(runner_->arg_max(slot)[0]);
    }
    if (taken() == limit) break;
  }
  return {};
}

Result<std::vector<TokenId>> EngineImpl::decode_greedy(
    SequenceId id, TokenId first, uint32_t n, std::span<const TokenId> stop,
    const std::function<bool(TokenId)>& on_token) {
  MINFER_TRY(check_loaded());
  GreedyRun run;
  run.id = id;
  run.next = first;
  run.n = n;
  run.stop = stop;
  run.on_token = &on_token;
  run.stopped = n == 0;
  MINFER_ASSIGN(run.start, kv_->length(id));
  run.tokens.reserve(n);

  const Stepping stepping(*this);
  if (!plans_->hand_on || runner_->timing()) {
    MINFER_TRY(greedy_one_by_one(run));
    return std::move(run.tokens);
  }
  auto done = greedy_ahead(run);
  runner_->drain();
  // Each token taken stands for one position fed; anything beyond was queued ahead.
  auto cut = kv_->truncate(id, run.start + static_cast<uint32_t>(run.tokens.size()));
  if (!done) return tl::make_unexpected(std::move(done).error());
  if (!cut) return tl::make_unexpected(std::move(cut).error());
  return std::move(run.tokens);
}

}  // namespace minfer
