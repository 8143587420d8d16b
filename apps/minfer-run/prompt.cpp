#include "prompt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "files.h"
#include "minfer/chat_template.h"
#include "minfer/log.h"

namespace minfer::run {
namespace {

/// More than any context holds, and little enough to keep in memory.
constexpr size_t kMaxPromptBytes = size_t{64} << 20;
constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  return id < 0 ? std::string() : std::string(tokenizer.token_text(id));
}

/// The template's source: the config's file, else the model's metadata, else nothing.
Result<std::string> template_source(const RunConfig& config, const GgufFile& file) {
  if (!config.use_template) return std::string();
  if (!config.chat_template.empty()) return app::read_file(config.chat_template, kMaxTemplateBytes);
  MINFER_ASSIGN(const auto source, file.get_string("tokenizer.chat_template"));
  if (!source) log(LogLevel::kInfo, "the model has no chat template; the prompt is used as it is");
  return std::string(source.value_or(""));
}

tl::unexpected<Error> template_error(const RunConfig& config, Error error) {
  const std::string source =
      config.chat_template.empty() ? "the model's chat template" : config.chat_template.string();
  error.where = error.where.empty() ? source : fmt::format("{}, {}", source, error.where);
  error.hint += error.hint.empty() ? "" : "; ";
  error.hint += "--no-template runs the prompt as it is";
  return tl::make_unexpected(std::move(error));
}

}  // namespace

bool lacks_prompt(const Options& options) {
  return !options.prompt && !options.prompt_file && isatty(STDIN_FILENO);
}

Result<std::string> read_prompt(const Options& options) {
  if (options.prompt) return *options.prompt;
  auto text = options.prompt_file ? app::read_file(*options.prompt_file, kMaxPromptBytes)
                                  : app::read_standard_input(kMaxPromptBytes);
  if (!text) return text;
  // The newline of the editor or the command that wrote the text.
  if (text->ends_with('\n')) text->pop_back();
  if (text->empty() && !options.prompt_file)
    return fail(ErrorCode::kUsage, "there is no prompt: standard input is empty", "",
                "give --prompt TEXT or --prompt-file FILE, or pipe text in");
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
  if (!parsed) return template_error(config, std::move(parsed).error());
  boost::json::array messages;
  if (!config.system.empty()) messages.push_back({{"role", "system"}, {"content", config.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  const boost::json::object context = {{"messages", std::move(messages)},
                                       {"add_generation_prompt", true},
                                       {"bos_token", token_text(tokenizer, tokenizer.bos())},
                                       {"eos_token", token_text(tokenizer, tokenizer.eos())}};
  auto segments = (*parsed)->render(context);
  if (!segments) return template_error(config, std::move(segments).error());
  return tokenizer.encode(*segments, true);
}

}  // namespace minfer::run
