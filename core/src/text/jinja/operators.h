// Arithmetic on values, as Python's operators do it.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// left op right for the arithmetic operators; throws where Python raises.
Value arithmetic(Runtime& runtime, Operator op, const Value& left, const Value& right);

/// -value or +value.
Value apply_sign(Runtime& runtime, const Value& value, bool negative);

/// One link of a comparison chain.
bool compare(Runtime& runtime, Operator op, const Value& left, const Value& right);

}  // namespace minfer::jinja
