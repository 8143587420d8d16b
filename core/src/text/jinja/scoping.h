// Scope analysis: which variables a scope starts out without.
//
// jinja2 decides statically what a name means in a scope. A name whose first mention in a scope is
// an assignment belongs to that scope, and reading it earlier, as an inner scope that comes first
// can, gives undefined even if the context has a value of that name:
//
//     {% for x in list %}{{ tools }}{% endfor %}{% set tools = 1 %}   prints nothing
//     {{ tools }}{% set tools = 1 %}                                  prints the context's
//
// The interpreter's scopes are chains that are searched when a name is read; this pass notes the
// names that must hide the context from the start. Pure function of the parsed template.
#pragma once

#include "text/jinja/ast.h"

namespace minfer::jinja {

/// Fills the `unset` lists of all scoped blocks.
void resolve_scopes(TemplateAst& ast);

}  // namespace minfer::jinja
