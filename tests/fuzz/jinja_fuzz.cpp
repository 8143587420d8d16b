// Fuzzes chat templates: parsing any text, and rendering what parses over a conversation.
//
// The input is a template, optionally followed by a zero byte and a JSON object to render it with.
// Limits are far below the defaults, so that a run is short unless something escapes them.
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "minfer/chat_template.h"

namespace {

constexpr const char* kConversation = R"({
  "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "i": 3, "x": -2.5, "e": "",
  "s": "Hello, World \u00e9\u6f22\ud83c\udf89", "l": [3, "a", null, [1.5]], "d": {"k": 1, "items": "v"},
  "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " hi\n", "n": 1},
    {"role": "assistant", "content": null, "tool_calls": [
      {"type": "function", "function": {"name": "f", "arguments": {"a": "b\"<", "n": 1e22}}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})";

void check_segments(const std::vector<minfer::TextSegment>& segments) {
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].text.empty()) std::abort();
    if (i > 0 && segments[i].parse_special == segments[i - 1].parse_special) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const boost::json::value conversation = boost::json::parse(kConversation);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const auto parsed = minfer::ChatTemplate::parse(input.substr(0, zero));
  if (!parsed) return 0;
  minfer::RenderLimits limits;
  limits.max_steps = 50'000;
  limits.max_output_bytes = 1u << 20;
  boost::json::value own;
  if (zero != std::string_view::npos) {
    boost::system::error_code error;
    own = boost::json::parse(input.substr(zero + 1), error);
    if (error || !own.is_object()) return 0;
  }
  const auto& context = own.is_object() ? own.get_object() : conversation.get_object();
  const auto rendered = (*parsed)->render(context, limits, 1893456000);
  if (rendered) check_segments(*rendered);
  return 0;
}
