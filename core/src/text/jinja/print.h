// str() and repr() of values, as Python prints them.
#pragma once

#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// Appends str(value): strings as they are, undefined as nothing, the rest as repr.
void append_str(Runtime& runtime, TextBuilder& out, const Value& value);

/// Appends repr(value). Containers of the context print as the context's text.
void append_repr(Runtime& runtime, TextBuilder& out, const Value& value);

/// str(value) as a string value; a string is returned as it is.
Value to_string(Runtime& runtime, const Value& value);

}  // namespace minfer::jinja
