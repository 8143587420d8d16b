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
  uint32_t prompt_tokens = 0;
  double prefill_seconds = 0;
  std::vector<double> token_seconds;  ///< from one token to the next
};

/// Takes finished text; false ends the generation (a closed pipe).
using TextSink = std::function<bool(std::string_view)>;

/// Answers a prompt. Fails with kContext (both numbers) when it does not fit.
Result<Generation> generate(Engine& engine, std::shared_ptr<const Tokenizer> tokenizer,
                            std::span<const TokenId> prompt, const Options& options,
                            Interrupt& interrupt, const TextSink& sink);

}  // namespace minfer::run
