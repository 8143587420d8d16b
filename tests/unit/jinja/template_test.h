// Helpers of the template tests: render from JSON text, show segments as marked text.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "minfer/chat_template.h"

namespace minfer {

inline Result<std::vector<TextSegment>> render_segments(std::string_view source,
                                                        const boost::json::object& context = {},
                                                        const RenderLimits& limits = {}) {
  MINFER_ASSIGN(const auto parsed, ChatTemplate::parse(source));
  return parsed->render(context, limits);
}

/// The output with the context's text in guillemets, or "ERROR: message".
inline std::string marked(std::string_view source, std::string_view context = "{}") {
  const auto segments = render_segments(source, boost::json::parse(context).as_object());
  if (!segments) return "ERROR: " + segments.error().message();
  std::string text;
  for (const TextSegment& segment : *segments) {
    text += segment.parse_special ? segment.text : "«" + segment.text + "»";
  }
  return text;
}

/// The error's message, or "" when rendering works.
inline std::string failure(std::string_view source, const boost::json::object& context = {},
                           const RenderLimits& limits = {}) {
  const auto segments = render_segments(source, context, limits);
  return segments ? "" : segments.error().message();
}

}  // namespace minfer
