// Parser: tokens to a TemplateAst.
//
// Recursive descent with a bound on nesting, so that no source can exhaust the stack. Pure
// function.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace minfer::jinja {

/// Levels of nested expressions and blocks that a template may have.
inline constexpr uint32_t kMaxParseDepth = 150;

/// Parses a whole template. Throws SyntaxError (lexer.h).
TemplateAst parse_template(std::string_view source);

}  // namespace minfer::jinja
