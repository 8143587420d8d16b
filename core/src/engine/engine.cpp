// Stepping: a batch is checked, its pages reserved, queued, waited for, and only then committed.
#include <fmt/format.h>

#include <algorithm>

#include "engine/engine_impl.h"

namespace minfer {
Result<void> EngineImpl::check_loaded() const {
  if (runner_) return {};
  return fail(ErrorCode::kUsage, "the engine was planned but not loaded", {}, "call load() first");
}

Result<StepCounts> EngineImpl::check_batch(std::span<const StepEntry> entries) const {
  if (entries.empty()) return fail(ErrorCode::kUsage, "a step needs at least one sequence");
  if (entries.size() > options_.max_sequences)
    return fail(ErrorCode::kUsage, fmt::format("{} sequences in a step, {} are allowed",
                                               entries.size(), options_.max_sequences));
  const auto n_vocab = static_cast<TokenId>(model_->hparams().n_vocab);
  for (const StepEntry& e : entries) {
    MINFER_TRY(kv_->length(e.sequence));
    if (e.tokens.empty())
      return fail(ErrorCode::kUsage,
                  fmt::format("sequence {} has no token in the step", e.sequence));
    for (const TokenId token : e.tokens)
      if (token < 0 || token >= n_vocab)
        return fail(ErrorCode::kUsage,
                    fmt::format("token {} of sequence {} is outside the vocabulary of {}", token,
                                e.sequence, n_vocab));
  }
  uint64_t tokens = 0;
  for (const StepEntry& e : entries) tokens += e.tokens.size();
  if (tokens > options_.max_step_tokens)
    return fail(
        ErrorCode::kUsage,
        fmt::format("{} tokens in a step, {} are allowed", tokens, options_.max_step_tokens), {},
        "raise max_step_tokens or feed the tokens in parts");
  const StepCounts counts = count_step(entries, *kv_);
  if (counts.outs > options_.max_step_outputs)
    return fail(ErrorCode::kUsage,
                fmt::format("{} output rows in a step, {} are allowed", counts.outs,
                            options_.max_step_outputs),
                {}, "raise max_step_outputs");
  return counts;
}

Result<StepPlan*> EngineImpl::pick_plan(const StepCounts& counts) const {
  const size_t bucket = pick_bucket(source_.buckets, counts.tokens, counts.seqs, counts.outs);
  if (bucket == source_.buckets.size())
    return fail(ErrorCode::kInternal,
                fmt::format("no bucket holds {} tokens, {} sequences, {} rows", counts.tokens,
                            counts.seqs, counts.outs));
  return plans_->plans[bucket].get();
}

/// Reserves pages and queues the step; the caller commits or rolls back the KV cache.
Result<uint32_t> EngineImpl::enqueue(std::span<const StepEntry> entries, bool read_logits,
                                     StepPlan* plan) {
  MINFER_ASSIGN(const StepCounts counts, check_batch(entries));
  if (plan == nullptr) {
    MINFER_ASSIGN(plan, pick_plan(counts));
  }
  appends_.clear();
  for (const StepEntry& e : entries)
    appends_.push_back({e.sequence, static_cast<uint32_t>(e.tokens.size())});
  MINFER_TRY(kv_->begin(appends_));
  auto slot = runner_->enqueue({plan, entries, counts, read_logits}, *kv_);
  if (!slot) kv_->rollback();
  return slot;
}

StepResult EngineImpl::result_of(uint32_t slot) const {
  StepResult result;
  result.arg_max = runner_->arg_max(slot);
  result.logits = runner_->logits();
  result.rows = static_cast<uint32_t>(result.arg_max.size());
  return result;
}

Result<StepResult> EngineImpl::step(std::span<const StepEntry> entries,
                                    const StepOptions& options) {
  MINFER_TRY(check_loaded());
  const Stepping stepping(*this);
  return step_once(entries, options.read_logits);
}

Result<StepResult> EngineImpl::step_once(std::span<const StepEntry> entries, bool read_logits) {
  MINFER_ASSIGN(const uint32_t slot, enqueue(entries, read_logits, nullptr));
  auto done = runner_->complete(slot);
  if (!done) {
    kv_->rollback();
    return tl::make_unexpected(std::move(done).error());
  }
  kv_->commit();
  return result_of(slot);
}

void EngineImpl::undo_prefill(SequenceId id, uint32_t length) {
  if (kv_->truncate(id, length)) return;
  (void)kv_->truncate(id, 0);  // pages of a sliding window have been given back
}

Result<StepResult> EngineImpl::prefill(SequenceId id, std::span<const TokenId> tokens,
                                       const StepOptions& options) {
  MINFER_TRY(check_loaded());
  MINFER_ASSIGN(const uint32_t before, kv_->length(id));
  if (tokens.empty()) return fail(ErrorCode::kUsage, "there is no token to feed");
  if (uint64_t{before} + tokens.size() > options_.context)
    return fail(ErrorCode::kContext,
                fmt::format("{} tokens after position {} do not fit the context of {}",
                            tokens.size(), before, options_.context),
                {}, "raise context or shorten the prompt");
  const Stepping stepping(*this);
  for (size_t at = 0;;) {
    const size_t n = std::min<size_t>(tokens.size() - at, options_.max_step_tokens);
    const bool last = at + n == tokens.size();
    const StepEntry entry{id, tokens.subspan(at, n), last, false};
    auto slot = enqueue({&entry, 1}, last && options.read_logits, nullptr);
    if (slot) kv_->commit();
    Result<void> done;
    if (slot && last) done = runner_->complete(*slot);
    if (!slot || !done) {
      undo_prefill(id, before);
      return tl::make_unexpected(slot ? std::move(done).error() : std::move(slot).error());
    }
    if (last) return result_of(*slot);
    at += n;
  }
}

void EngineImpl::cancel() {
  if (stepping_ && runner_) runner_->cancel();
}

}  // namespace minfer
