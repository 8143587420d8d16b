// Chat templates: the Jinja dialect of model makers, rendered into segments.
//
// A ChatTemplate is immutable after parsing and safe to render from any thread. Rendering is
// bounded (steps, depth, output bytes) and reports errors with template line numbers.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "minfer/result.h"
#include "minfer/tokenizer.h"

namespace minfer {

struct RenderLimits {
  uint64_t max_steps = 10'000'000;        ///< evaluated nodes
  uint32_t max_depth = 200;               ///< nested calls, blocks and expressions
  uint64_t max_output_bytes = 64u << 20;  ///< text produced, intermediate strings included
};

class ChatTemplate {
 public:
  /// Parses a template; errors (kTemplate) give line and what was expected.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  virtual ~ChatTemplate() = default;

  /// Renders with `context` (an object: messages, tools, add_generation_prompt, bos_token,
  /// eos_token and anything else the template reads). Segments know whether their text came from
  /// the template (parse_special) or from the context. String values under bos_token and eos_token
  /// count as the template's own text. `now` is what strftime_now sees; by default the clock.
  virtual Result<std::vector<TextSegment>> render(const boost::json::object& context,
                                                  const RenderLimits& limits = {},
                                                  std::optional<std::time_t> now = {}) const = 0;
};

/// The segments' text in one string.
std::string join_segments(const std::vector<TextSegment>& segments);

}  // namespace minfer
