// Text to token ids, and conversations to prompts, as the model in a file has it.
#pragma once

#include <optional>
#include <string>

#include "minfer/gguf.h"
#include "minfer/result.h"

namespace minfer::inspect {

/// Ids of the text of `text_path` ("-": standard input) separated by spaces, with a newline at the
/// end; no beginning-of-text token is added.
Result<std::string> tokenize_file(const GgufFile& file, const std::string& text_path,
                                  bool parse_special);

/// The prompt that the conversation in `messages_path` ("-": standard input) renders to with the
/// template in `template_path`, or else the model's own.
Result<std::string> render_file(const GgufFile& file, const std::string& messages_path,
                                const std::optional<std::string>& template_path);

}  // namespace minfer::inspect
