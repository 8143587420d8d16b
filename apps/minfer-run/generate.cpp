#include "generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "files.h"

namespace minfer::run {
namespace {

using Clock = std::chrono::steady_clock;

/// Decides after every token whether to go on, and passes text to the sink as it becomes certain.
class Output {
 public:
  Output(std::shared_ptr<const Tokenizer> tokenizer, const Options& options,
         const Interrupt& interrupt, const TextSink& sink, Generation& out)
      : tokenizer_(tokenizer),
        decoder_(std::move(tokenizer)),
        matcher_(options.config.stop),
        ignore_end_(options.ignore_end),
        limit_(options.config.max_tokens),
        interrupt_(interrupt),
        sink_(sink),
        out_(out),
        last_(Clock::now()) {}

  /// Takes one generated token; false when it was the last.
  bool accept(TokenId token) {
    const auto now = Clock::now();
    out_.token_seconds.push_back(std::chrono::duration<double>(now - last_).count());
    last_ = now;
    if (interrupt_.requested()) return end(Finish::kInterrupted);
    const auto ends = tokenizer_->end_tokens();
    if (!ignore_end_ && std::find(ends.begin(), ends.end(), token) != ends.end())
      return end(Finish::kEnd);
    out_.tokens.push_back(token);
    if (!emit(matcher_.push(decoder_.push(token)))) return false;
    if (matcher_.stopped()) {
      out_.stop = std::string(matcher_.matched());
      return end(Finish::kStopString);
    }
    if (limit_ >= 0 && out_.tokens.size() >= static_cast<size_t>(limit_))
      return end(Finish::kLength);
    return true;
  }

  /// Flushes what the decoder and the stop strings held back; fails when output could not be
  /// written, now or before.
  Result<void> finish() {
    if (written_ && !matcher_.stopped() && out_.finish != Finish::kClosed) {
      std::string rest = matcher_.push(decoder_.finish());
      if (!matcher_.stopped()) rest += matcher_.finish();
      emit(rest);
    }
    return written_;
  }

  bool end(Finish finish) {
    out_.finish = finish;
    return false;
  }

 private:
  /// False when nobody reads any more or the write failed.
  bool emit(const std::string& text) {
    out_.text += text;
    if (text.empty()) return true;
    const Result<bool> read = sink_(text);
    if (!read) written_ = tl::make_unexpected(read.error());
    if (!read || !*read) return end(Finish::kClosed);
    return true;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  StreamDecoder decoder_;
  StopMatcher matcher_;
  bool ignore_end_;
  int32_t limit_;
  const Interrupt& interrupt_;
  const TextSink& sink_;
  Result<void> written_;
  Generation& out_;
  Clock::time_point last_;
};

/// Greedy decoding: the device chooses and hands the token on.
Result<void> decode_on_device(Engine& engine, SequenceId id, TokenId first, uint32_t room,
                              int32_t max_tokens, Output& output) {
  if (!output.accept(first)) return {};
  bool more = true;
  // Steps are queued ahead: none is, of which the token is not wanted.
  const uint32_t n = max_tokens < 0 ? room : std::min(room, static_cast<uint32_t>(max_tokens) - 1);
  if (n > 0) {
    MINFER_TRY(engine.decode_greedy(id, first, n, {}, [&](TokenId token) {
      more = output.accept(token);
      return more;
    }));
  }
  if (more) output.end(Finish::kContext);
  return {};
}

Result<void> decode_sampled(Engine& engine, SequenceId id, Sampler& sampler, StepResult result,
                            uint32_t room, Output& output) {
  const uint32_t vocab = engine.model().hparams().n_vocab;
  while (true) {
    MINFER_ASSIGN(const TokenId token, sampler.sample(result.row(0, vocab)));
    sampler.accept(token);
    if (!output.accept(token)) return {};
    if (room-- == 0) {
      output.end(Finish::kContext);
      return {};
    }
    const StepEntry entry{id, {&token, 1}, true, false};
    MINFER_ASSIGN(result, engine.step({&entry, 1}));
  }
}

}  // namespace

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::kEnd:
      return "stop";
    case Finish::kStopString:
      return "stop-string";
    case Finish::kLength:
      return "length";
    case Finish::kContext:
      return "context-full";
    case Finish::kInterrupted:
      return "interrupted";
    case Finish::kClosed:
      return "output-closed";
  }
  return "unknown";
}

Result<void> check_prompt(const Engine& engine, std::span<const TokenId> prompt) {
  const uint32_t context = engine.options().context;
  if (prompt.size() > context)
    return fail(
        ErrorCode::kContext,
        fmt::format("the prompt has {} tokens, the context holds {}", prompt.size(), context), "",
        "raise --ctx or shorten the prompt");
  if (prompt.empty())
    return fail(ErrorCode::kUsage, "the prompt has no tokens", "", "give a longer --prompt");
  return {};
}

Result<Generation> generate(Engine& engine, std::shared_ptr<const Tokenizer> tokenizer,
                            std::span<const TokenId> prompt, Sampler& sampler,
                            const Options& options, const Interrupt& interrupt,
                            const TextSink& sink) {
  MINFER_TRY(check_prompt(engine, prompt));
  Generation out;
  out.prompt_tokens = static_cast<uint32_t>(prompt.size());
  out.seed = sampler.seed();
  out.greedy = options.config.sampling.temperature == 0;
  for (const TokenId token : prompt) sampler.accept(token);

  const bool on_device = options.config.sampling.is_plain_greedy();
  MINFER_ASSIGN(const SequenceId id, engine.sequence_new());
  const auto start = Clock::now();
  auto result =
      engine.prefill(id, prompt, {.read_logits = !on_device || !options.dump_logits.empty()});
  out.prefill_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (!result && interrupt.requested()) {
    out.finish = Finish::kInterrupted;
    return out;
  }
  if (!result) return tl::make_unexpected(std::move(result).error());
  out.prefilled = true;
  if (!options.dump_logits.empty()) {
    const auto row = result->row(0, engine.model().hparams().n_vocab);
    MINFER_TRY(app::write_file(options.dump_logits,
                               {reinterpret_cast<const char*>(row.data()), row.size_bytes()}));
  }

  Output output(tokenizer, options, interrupt, sink, out);
  Result<void> decoded;
  if (options.config.max_tokens == 0) {
    out.finish = Finish::kLength;
  } else {
    const auto room = static_cast<uint32_t>(engine.options().context - prompt.size());
    decoded = on_device ? decode_on_device(engine, id, result->arg_max[0], room,
                                           options.config.max_tokens, output)
                        : decode_sampled(engine, id, sampler, *result, room, output);
    if (!decoded && interrupt.requested()) {
      output.end(Finish::kInterrupted);
      decoded = {};
    }
  }
  // Also after a failure, what was made is printed.
  auto written = output.finish();
  if (!decoded) return tl::make_unexpected(std::move(decoded).error());
  if (!written) return tl::make_unexpected(std::move(written).error());
  MINFER_TRY(engine.sequence_free(id));
  return out;
}

}  // namespace minfer::run
