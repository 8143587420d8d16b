// The generation loop: prefill, then token by token until something ends it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "interrupt.h"
#include "minfer/engine.h"
#include "minfer/sampler.h"
#include "options.h"

namespace minfer::run {

/// Why generation ended.
enum class Finish { kEnd, kStopString, kLength, kContext, kInterrupted, kClosed };
std::string_view finish_name(Finish finish);

struct Generation {
  std::string text;
  std::vector<TokenId> tokens;
  Finish finish = Finish::kEnd;
  std::string stop;  ///< the stop string that was found
  uint64_t seed = 0;
  bool greedy = false;  ///< the seed had no part in it
  uint32_t prompt_tokens = 0;
  bool prefilled = false;  ///< the whole prompt was fed; else it was interrupted
  double prefill_seconds = 0;
  std::vector<double> token_seconds;  ///< from one token to the next
};

/// Takes finished text; false ends the generation (a closed pipe), as an error does.
using TextSink = std::function<Result<bool>(std::string_view)>;

/// Fails with kContext (both numbers) when the prompt is longer than the context, kUsage when it is
/// empty. The engine need not be loaded.
Result<void> check_prompt(const Engine& engine, std::span<const TokenId> prompt);

/// Answers a prompt. Fails as check_prompt(), the engine and the sink do; what was made before an
/// error has gone to the sink.
Result<Generation> generate(Engine& engine, std::shared_ptr<const Tokenizer> tokenizer,
                            std::span<const TokenId> prompt, Sampler& sampler,
                            const Options& options, const Interrupt& interrupt,
                            const TextSink& sink);

}  // namespace minfer::run
