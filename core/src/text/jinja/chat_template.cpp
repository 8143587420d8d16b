// The public face of the engine: parsing, rendering, and errors in terms of the template's lines.
#include "minfer/chat_template.h"

#include <algorithm>
#include <boost/json.hpp>
#include <new>

#include "text/jinja/interpreter.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"

namespace minfer {

namespace {

constexpr const char* kWhere = "chat template";

/// More levels than this could exhaust a small stack, whatever the caller asks for.
constexpr uint32_t kDeepest = 1000;

std::string at_line(int line) {
  return std::string(kWhere) + ", line " + std::to_string(line);
}

class JinjaTemplate : public ChatTemplate {
 public:
  explicit JinjaTemplate(jinja::TemplateAst ast) : ast_(std::move(ast)) {}

  Result<std::vector<TextSegment>> render(const boost::json::object& context,
                                          const RenderLimits& limits,
                                          std::optional<std::time_t> now) const override {
    // The budget must outlive every value of the rendering.
    jinja::Budget budget(limits.max_steps, limits.max_output_bytes);
    jinja::Interpreter interpreter(ast_, budget, std::min(limits.max_depth, kDeepest),
                                   now.value_or(std::time(nullptr)));
    try {
      return segments(interpreter.render(context));
    } catch (const jinja::Failure& failure) {
      return fail(ErrorCode::kTemplate, failure.what(), at_line(interpreter.line()));
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::kOutOfMemory, "not enough memory to render the conversation",
                  at_line(interpreter.line()));
    }
  }

 private:
  static std::vector<TextSegment> segments(const jinja::Text& text) {
    std::vector<TextSegment> segments;
    size_t begin = 0;
    for (const jinja::Run& run : text.runs()) {
      segments.push_back({std::string(text.view().substr(begin, run.end - begin)),
                          run.origin == jinja::Origin::kTemplate});
      begin = run.end;
    }
    return segments;
  }

  jinja::TemplateAst ast_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  try {
    return std::make_shared<const JinjaTemplate>(jinja::parse_template(source));
  } catch (const jinja::SyntaxError& error) {
    return fail(ErrorCode::kTemplate, error.what, at_line(error.line));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "not enough memory to parse the template", kWhere);
  }
}

std::string join_segments(const std::vector<TextSegment>& segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

}  // namespace minfer
