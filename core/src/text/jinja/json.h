// JSON: the caller's context to values, and values to JSON text as Python's json.dumps writes it.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>

#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// Converts a context value; everything in it is marked with `origin`.
Value from_json(Runtime& runtime, const boost::json::value& value, Origin origin);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  ///< one level of indentation; on one line when absent
  Text item_separator{", ", Origin::kTemplate};
  Text key_separator{": ", Origin::kTemplate};
};

/// Appends the JSON text of a value; throws for values JSON has no form for.
void append_json(Runtime& runtime, TextBuilder& out, const Value& value, const JsonStyle& style);

}  // namespace minfer::jinja
