#include "prompt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "minfer/chat_template.h"
#include "minfer/log.h"

namespace minfer::run {
namespace {

Result<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::kNotFound, std::strerror(errno), path.string());
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return fail(ErrorCode::kIo, "could not be read", path.string());
  return text;
}

std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  return id < 0 ? std::string() : std::string(tokenizer.token_text(id));
}

/// The template's source: the config's file, else the model's metadata, else nothing.
Result<std::string> template_source(const RunConfig& config, const GgufFile& file) {
  if (!config.use_template) return std::string();
  if (!config.chat_template.empty()) return read_file(config.chat_template);
  MINFER_ASSIGN(const auto source, file.get_string("tokenizer.chat_template"));
  if (!source) log(LogLevel::kInfo, "the model has no chat template; the prompt is used as it is");
  return std::string(source.value_or(""));
}

}  // namespace

Result<std::string> read_prompt(const Options& options) {
  if (options.prompt) return *options.prompt;
  if (options.prompt_file) return read_file(*options.prompt_file);
  if (isatty(STDIN_FILENO))
    return fail(
        ErrorCode::kUsage, "no prompt", "",
        "give --prompt TEXT or --prompt-file FILE, or pipe text to standard input; see --help");
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  // A prompt from a pipe ends with the newline of the command that wrote it.
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty())
    return fail(ErrorCode::kUsage, "standard input is empty", "",
                "give --prompt TEXT or pipe one in");
  return text;
}

Result<std::vector<TokenId>> prompt_tokens(const RunConfig& config, const GgufFile& file,
                                           const Tokenizer& tokenizer, const std::string& prompt) {
  MINFER_ASSIGN(const std::string source, template_source(config, file));
  if (source.empty()) {
    const std::string text = config.system.empty() ? prompt : config.system + "\n\n" + prompt;
    return tokenizer.encode(text, false, true);
  }
  auto parsed = ChatTemplate::parse(source);
  if (!parsed) {
    parsed.error().hint += parsed.error().hint.empty() ? "" : "; ";
    parsed.error().hint += "--no-template runs the prompt as it is";
    return tl::make_unexpected(std::move(parsed).error());
  }
  boost::json::array messages;
  if (!config.system.empty()) messages.push_back({{"role", "system"}, {"content", config.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  const boost::json::object context = {{"messages", std::move(messages)},
                                       {"add_generation_prompt", true},
                                       {"bos_token", token_text(tokenizer, tokenizer.bos())},
                                       {"eos_token", token_text(tokenizer, tokenizer.eos())}};
  MINFER_ASSIGN(const auto segments, (*parsed)->render(context));
  return tokenizer.encode(segments, true);
}

}  // namespace minfer::run
