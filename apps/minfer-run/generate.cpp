#include "generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace minfer::run {
namespace {

using Clock = std::chrono::steady_clock;

/// Decides after every token whether to go on, and passes text to the sink as it becomes certain.
class Output {
 public:
  Output(std::shared_ptr<const Tokenizer> tokenizer, const Options& options, Interrupt& interrupt,
         const TextSink& sink, Generation& out)
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
    if (!emit(matcher_.push(decoder_.push(token)))) return end(Finish::kClosed);
    if (matcher_.stopped()) {
      out_.stop = std::string(matcher_.matched());
      return end(Finish::kStopString);
    }
    if (limit_ >= 0 && out_.tokens.size() >= static_cast<size_t>(limit_))
      return end(Finish::kLength);
    return true;
  }

  /// Flushes what the decoder and the stop strings held back.
  void finish() {
    if (matcher_.stopped()) return;
    std::string rest = matcher_.push(decoder_.finish());
    if (!matcher_.stopped()) rest += matcher_.finish();
    if (!emit(rest)) out_.finish = Finish::kClosed;
  }

  bool end(Finish finish) {
    out_.finish = finish;
    return false;
  }

 private:
  bool emit(const std::string& text) {
    out_.text += text;
    return text.empty() || sink_(text);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  StreamDecoder decoder_;
  StopMatcher matcher_;
  bool ignore_end_;
  int32_t limit_;
  Interrupt& interrupt_;
  const TextSink& sink_;
  Generation& out_;
  Clock::time_point last_;
};

Result<void> write_logits(const std::string& path, std::span<const float> logits) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(logits.data()),
             static_cast<std::streamsize>(logits.size_bytes()));
  if (!file.flush()) return fail(ErrorCode::kIo, "could not be written", path);
  return {};
}

/// Greedy decoding: the device chooses and hands the token on.
Result<void> decode_on_device(Engine& engine, SequenceId id, TokenId first, uint32_t room,
                              Output& output) {
  if (!output.accept(first)) return {};
  bool more = true;
  if (room > 0) {
    MINFER_TRY(engine.decode_greedy(id, first, room, {}, [&](TokenId token) {
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

Result<Generation> generate(Engine& engine, std::shared_ptr<const Tokenizer> tokenizer,
                            std::span<const TokenId> prompt, const Options& options,
                            Interrupt& interrupt, const TextSink& sink) {
  Generation out;
  const HyperParams& hp = engine.model().hparams();
  const uint32_t context = engine.options().context;
  out.prompt_tokens = static_cast<uint32_t>(prompt.size());
  if (prompt.size() > context)
    return fail(
        ErrorCode::kContext,
        fmt::format("the prompt has {} tokens, the context holds {}", prompt.size(), context), "",
        "raise --ctx or shorten the prompt");
  if (prompt.empty())
    return fail(ErrorCode::kUsage, "the prompt has no tokens", "", "give a longer --prompt");
  MINFER_ASSIGN(auto sampler, Sampler::create(options.config.sampling, hp.n_vocab, context));
  out.seed = sampler->seed();
  for (const TokenId token : prompt) sampler->accept(token);

  const bool greedy = options.config.sampling.is_plain_greedy();
  MINFER_ASSIGN(const SequenceId id, engine.sequence_new());
  const auto start = Clock::now();
  auto result =
      engine.prefill(id, prompt, {.read_logits = !greedy || !options.dump_logits.empty()});
  if (!result && interrupt.requested()) {
    out.finish = Finish::kInterrupted;
    return out;
  }
  if (!result) return tl::make_unexpected(std::move(result).error());
  out.prefill_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (!options.dump_logits.empty())
    MINFER_TRY(write_logits(options.dump_logits, result->row(0, hp.n_vocab)));

  Output output(tokenizer, options, interrupt, sink, out);
  if (options.config.max_tokens == 0) {
    out.finish = Finish::kLength;
  } else {
    const auto room = static_cast<uint32_t>(context - prompt.size());
    const Result<void> decoded =
        greedy ? decode_on_device(engine, id, result->arg_max[0], room, output)
               : decode_sampled(engine, id, *sampler, *result, room, output);
    if (!decoded && interrupt.requested())
      out.finish = Finish::kInterrupted;
    else if (!decoded)
      return tl::make_unexpected(decoded.error());
  }
  output.finish();
  MINFER_TRY(engine.sequence_free(id));
  return out;
}

}  // namespace minfer::run
