#include "prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "minfer/chat_template.h"
#include "minfer/tokenizer.h"

namespace minfer::inspect {
namespace {

namespace json = boost::json;

/// Far above any prompt; a device file or an endless pipe ends here.
constexpr size_t kMaxInputBytes = size_t{1} << 30;

Result<std::string> read_text(const std::string& path) {
  const bool is_stdin = path == "-";
  const std::string where = is_stdin ? "standard input" : path;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> owned(
      is_stdin ? nullptr : std::fopen(path.c_str(), "rb"), &std::fclose);
  std::FILE* in = is_stdin ? stdin : owned.get();
  if (in == nullptr) {
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot open the file: {}", std::strerror(errno)), where);
  }
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), in)) {
    text.append(buffer, n);
    if (text.size() > kMaxInputBytes) {
      return fail(ErrorCode::kIo, fmt::format("is longer than {} bytes", kMaxInputBytes), where);
    }
  }
  if (std::ferror(in) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot read: {}", std::strerror(errno)), where);
  }
  return text;
}

Result<json::value> parse_json(const std::string& text, const std::string& path) {
  json::stream_parser parser;
  json::error_code error;
  const size_t read = parser.write_some(text, error);
  if (!error) parser.finish(error);
  const size_t rest = error ? read : text.find_first_not_of(" \t\r\n", read);
  if (!error && rest == std::string::npos) return parser.release();
  const size_t at = std::min(rest, text.size());
  const auto line = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n') + 1;
  return fail(ErrorCode::kConfig,
              fmt::format("wrong JSON: {}", error ? error.message() : "text after the value"),
              fmt::format("{}:{}", path, line));
}

/// The template's context from a message list or an object.
Result<json::object> read_context(const std::string& path) {
  MINFER_ASSIGN(const std::string text, read_text(path));
  MINFER_ASSIGN(json::value value, parse_json(text, path));
  json::object context;
  if (value.is_array()) {
    context["messages"] = std::move(value);
  } else if (value.is_object()) {
    context = std::move(value.get_object());
  } else {
    return fail(ErrorCode::kConfig, "expected a list of messages, or an object with 'messages'",
                path);
  }
  const json::value* messages = context.if_contains("messages");
  if (messages == nullptr || !messages->is_array()) {
    return fail(ErrorCode::kConfig, "expected 'messages' to be a list", path);
  }
  context.emplace("add_generation_prompt", false);
  return context;
}

/// Fills in bos_token and eos_token from the vocabulary where the context lacks them. A file
/// without a vocabulary leaves them undefined.
Result<void> add_special_tokens(const GgufFile& file, json::object& context) {
  if (context.contains("bos_token") && context.contains("eos_token")) return {};
  const GgufValue* model = file.find("tokenizer.ggml.model");
  if (model == nullptr) return {};
  const auto tokenizer = Tokenizer::create(file);
  if (!tokenizer) {
    if (tokenizer.error().code == ErrorCode::kUnsupported) return {};
    return tl::make_unexpected(tokenizer.error());
  }
  const auto add = [&](const char* name, TokenId id) {
    if (id >= 0) context.emplace(name, (*tokenizer)->token_text(id));
  };
  add("bos_token", (*tokenizer)->bos());
  add("eos_token", (*tokenizer)->eos());
  return {};
}

Result<std::string> template_source(const GgufFile& file, const std::optional<std::string>& path) {
  if (path) return read_text(*path);
  MINFER_ASSIGN(const auto source, file.get_string("tokenizer.chat_template"));
  if (!source) {
    return fail(ErrorCode::kTemplate, "has no chat template (key 'tokenizer.chat_template')",
                file.path().string(), "give one with --template");
  }
  return std::string(*source);
}

}  // namespace

Result<std::string> tokenize_file(const GgufFile& file, const std::string& text_path,
                                  bool parse_special) {
  MINFER_ASSIGN(const std::string text, read_text(text_path));
  MINFER_ASSIGN(const auto tokenizer, Tokenizer::create(file));
  const std::vector<TokenId> ids = tokenizer->encode(text, parse_special, /*add_special=*/false);
  return fmt::format("{}\n", fmt::join(ids, " "));
}

Result<std::string> render_file(const GgufFile& file, const std::string& messages_path,
                                const std::optional<std::string>& template_path) {
  MINFER_ASSIGN(json::object context, read_context(messages_path));
  MINFER_ASSIGN(const std::string source, template_source(file, template_path));
  MINFER_ASSIGN(const auto chat_template, ChatTemplate::parse(source));
  MINFER_TRY(add_special_tokens(file, context));
  MINFER_ASSIGN(const auto segments, chat_template->render(context));
  return join_segments(segments);
}

}  // namespace minfer::inspect
