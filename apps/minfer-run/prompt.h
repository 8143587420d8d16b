// From what the user gave to the tokens that the model sees.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "minfer/tokenizer.h"
#include "options.h"

namespace minfer::run {

/// True when neither flag gives a prompt and standard input is a terminal: there is none.
bool lacks_prompt(const Options& options);

/// The prompt of --prompt, --prompt-file or standard input, in this order.
Result<std::string> read_prompt(const Options& options);

/// Tokens of system prompt and prompt through the config's or the model's chat template, or of the
/// plain text where there is none or it is switched off.
Result<std::vector<TokenId>> prompt_tokens(const RunConfig& config, const GgufFile& file,
                                           const Tokenizer& tokenizer, const std::string& prompt);

}  // namespace minfer::run
