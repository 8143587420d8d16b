// The inside of expressions: literals, names, containers, and what may follow them.
#include <algorithm>

#include "text/jinja/number_text.h"
#include "text/jinja/parser_base.h"

namespace minfer::jinja {

namespace {

ExprPtr make_literal(Value value, int line) {
  return std::make_unique<LiteralExpr>(std::move(value), line);
}

Value literal_string(std::string_view text) {
  auto data = std::make_shared<StringData>();
  data->text.append(text, Origin::kTemplate);
  return Value(Kind::kString, std::move(data));
}

}  // namespace

ExprPtr ExpressionParser::parse_primary(bool with_namespace) {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name(with_namespace);
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return parse_literal();
    default:
      break;
  }
  if (token.is_operator("(")) {
    take();
    ExprPtr expr = parse_tuple(true, true);
    expect_operator(")");
    return expr;
  }
  if (token.is_operator("[")) return parse_list();
  if (token.is_operator("{")) return parse_dict();
  fail_here("expected an expression, got " + describe(token));
}

ExprPtr ExpressionParser::parse_name(bool with_namespace) {
  const Token token = take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make_literal(Value::boolean(true), token.line);
  if (name == "false" || name == "False") return make_literal(Value::boolean(false), token.line);
  if (name == "none" || name == "None") return make_literal(Value::none(), token.line);
  auto expr = std::make_unique<NameExpr>(name_id(name), name, token.line);
  if (with_namespace && skip_operator(".")) {
    auto target = make_expr<NamespaceTarget>(ExprKind::kNamespaceTarget, token.line);
    target->object = std::move(expr);
    target->attribute = expect_name("an attribute name");
    return target;
  }
  for (MacroStmt* macro : macros_) {
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
    macro->uses_caller |= name == "caller";
  }
  return expr;
}

ExprPtr ExpressionParser::parse_literal() {
  const Token token = take();
  if (token.kind == TokenKind::kInteger) {
    const auto value = parse_integer(token.text, 0);
    if (!value) fail(token.line, "the integer " + token.text + " is too large or malformed");
    return make_literal(Value::integer(*value), token.line);
  }
  if (token.kind == TokenKind::kFloat) {
    const auto value = parse_float(token.text);
    if (!value) fail(token.line, "the number " + token.text + " is malformed");
    return make_literal(Value::floating(*value), token.line);
  }
  std::string text = token.text;
  while (current().kind == TokenKind::kString) text += take().text;
  return make_literal(literal_string(text), token.line);
}

ExprPtr ExpressionParser::parse_tuple(bool with_conditional, bool in_parens) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    const bool at_end = current().kind == TokenKind::kPrintEnd ||
                        current().kind == TokenKind::kBlockEnd || current().is_operator(")");
    if (at_end) break;
    items.push_back(parse_expression(with_conditional));
    if (!current().is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !in_parens) fail_here("expected an expression, got " + describe(current()));
  auto tuple = make_expr<ItemsExpr>(ExprKind::kTuple, line);
  tuple->items = std::move(items);
  for (const auto& item : tuple->items) note_height(*tuple, item);
  return tuple;
}

ExprPtr ExpressionParser::parse_list() {
  auto list = make_expr<ItemsExpr>(ExprKind::kList, take().line);
  while (!current().is_operator("]")) {
    if (!list->items.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    list->items.push_back(parse_expression());
    note_height(*list, list->items.back());
  }
  take();
  return list;
}

ExprPtr ExpressionParser::parse_dict() {
  auto dict = make_expr<ItemsExpr>(ExprKind::kDict, take().line);
  while (!current().is_operator("}")) {
    if (!dict->items.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    dict->items.push_back(parse_expression());
    expect_operator(":");
    dict->items.push_back(parse_expression());
  }
  take();
  for (const auto& item : dict->items) note_height(*dict, item);
  return dict;
}

// ---------------------------------------------------------------------------------------------------
// Attributes, subscripts, calls, filters, tests

ExprPtr ExpressionParser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (current().is_operator(".")) {
      expr = parse_dot(std::move(expr));
    } else if (current().is_operator("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (current().is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr expr) {
  while (true) {
    if (current().is_operator("|")) {
      expr = parse_filters(std::move(expr));
    } else if (current().is_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (current().is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_dot(ExprPtr object) {
  const int line = take().line;
  const Token name = take();
  if (name.kind == TokenKind::kInteger) {
    auto expr = make_expr<SubscriptExpr>(ExprKind::kSubscript, line);
    const auto index = parse_integer(name.text, 0);
    if (!index) fail(name.line, "the index " + name.text + " is too large");
    expr->index = make_literal(Value::integer(*index), name.line);
    expr->object = std::move(object);
    note_height(*expr, expr->object);
    return expr;
  }
  if (name.kind != TokenKind::kName) {
    fail(name.line, "expected a name or number after '.', got " + describe(name));
  }
  auto expr = make_expr<AttributeExpr>(ExprKind::kAttribute, line);
  expr->name = name.text;
  expr->object = std::move(object);
  note_height(*expr, expr->object);
  return expr;
}

ExprPtr ExpressionParser::parse_slice_or_index(ExprPtr& start, ExprPtr& stop, ExprPtr& step,
                                               bool& is_slice) {
  const auto at_end = [this] { return current().is_operator("]") || current().is_operator(","); };
  is_slice = false;
  ExprPtr index;
  if (!current().is_operator(":")) index = parse_expression();
  if (!skip_operator(":")) return index;
  is_slice = true;
  start = std::move(index);
  if (!at_end() && !current().is_operator(":")) stop = parse_expression();
  if (skip_operator(":") && !at_end()) step = parse_expression();
  return nullptr;
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const int line = take().line;
  auto slice = make_expr<SliceExpr>(ExprKind::kSlice, line);
  std::vector<ExprPtr> items;
  bool is_slice = false;
  while (!current().is_operator("]")) {
    if (!items.empty()) expect_operator(",");
    ExprPtr index = parse_slice_or_index(slice->start, slice->stop, slice->step, is_slice);
    if (is_slice && !items.empty()) fail(line, "a slice cannot be part of a tuple");
    if (is_slice) break;
    items.push_back(std::move(index));
  }
  expect_operator("]");
  if (is_slice) {
    slice->object = std::move(object);
    for (const ExprPtr* part : {&slice->object, &slice->start, &slice->stop, &slice->step}) {
      note_height(*slice, *part);
    }
    return slice;
  }
  auto expr = make_expr<SubscriptExpr>(ExprKind::kSubscript, line);
  expr->object = std::move(object);
  if (items.size() == 1) {
    expr->index = std::move(items.front());
  } else {
    auto tuple = make_expr<ItemsExpr>(ExprKind::kTuple, line);
    tuple->items = std::move(items);
    for (const auto& item : tuple->items) note_height(*tuple, item);
    expr->index = std::move(tuple);
  }
  note_height(*expr, expr->object);
  note_height(*expr, expr->index);
  return expr;
}

Arguments ExpressionParser::parse_arguments() {
  const int line = take().line;
  const auto check = [&](bool ok) {
    if (!ok)
      fail(line, "wrong order of arguments: positional, then named, then *args and **kwargs");
  };
  Arguments arguments;
  bool first = true;
  while (!current().is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (current().is_operator(")")) break;
    }
    first = false;
    if (skip_operator("*")) {
      check(!arguments.more_positional && !arguments.more_named);
      arguments.more_positional = parse_expression();
    } else if (skip_operator("**")) {
      check(!arguments.more_named);
      arguments.more_named = parse_expression();
    } else if (current().kind == TokenKind::kName && ahead().is_operator("=")) {
      check(!arguments.more_named);
      std::string name = take().text;
      take();
      for (const auto& named : arguments.named) {
        if (named.first == name) fail(line, "the argument '" + name + "' is given twice");
      }
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      check(!arguments.more_positional && !arguments.more_named && arguments.named.empty());
      arguments.positional.push_back(parse_expression());
    }
  }
  take();
  return arguments;
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  auto expr = make_expr<CallExpr>(ExprKind::kCall, current().line);
  expr->callee = std::move(callee);
  expr->arguments = parse_arguments();
  note_height(*expr, expr->callee);
  note_height(*expr, expr->arguments);
  return expr;
}

std::string ExpressionParser::parse_dotted_name(std::string_view what) {
  std::string name = expect_name(what);
  while (skip_operator(".")) name += "." + expect_name(what);
  return name;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr input, bool inline_start) {
  while (current().is_operator("|") || inline_start) {
    if (!inline_start) take();
    inline_start = false;
    auto expr = make_expr<FilterExpr>(ExprKind::kFilter, current().line);
    expr->name = parse_dotted_name("the name of a filter");
    expr->function = find_filter(expr->name);
    if (expr->function == nullptr) {
      note_unknown_name(expr->line, "there is no filter named '" + expr->name + "'");
    }
    if (current().is_operator("(")) expr->arguments = parse_arguments();
    expr->input = std::move(input);
    note_height(*expr, expr->input);
    note_height(*expr, expr->arguments);
    input = std::move(expr);
  }
  return input;
}

ExprPtr ExpressionParser::parse_test(ExprPtr input) {
  const int line = take().line;
  const bool negated = skip_name("not");
  auto expr = make_expr<TestExpr>(ExprKind::kTest, line);
  expr->name = parse_dotted_name("the name of a test");
  expr->function = find_test(expr->name);
  if (expr->function == nullptr) {
    note_unknown_name(line, "there is no test named '" + expr->name + "'");
  }
  const Token& next = current();
  const bool starts_value = next.kind == TokenKind::kName || next.kind == TokenKind::kString ||
                            next.kind == TokenKind::kInteger || next.kind == TokenKind::kFloat ||
                            next.is_operator("[") || next.is_operator("{");
  if (next.is_operator("(")) {
    expr->arguments = parse_arguments();
  } else if (starts_value && !next.is_name("else") && !next.is_name("or") && !next.is_name("and")) {
    if (next.is_name("is")) fail_here("tests cannot be chained with 'is'");
    const Nested nested(*this);
    expr->arguments.positional.push_back(parse_postfix(parse_primary(false)));
  }
  expr->input = std::move(input);
  note_height(*expr, expr->input);
  note_height(*expr, expr->arguments);
  if (!negated) return expr;
  auto negation = make_expr<UnaryExpr>(ExprKind::kNot, line);
  negation->operand = std::move(expr);
  note_height(*negation, negation->operand);
  return negation;
}

ExprPtr ExpressionParser::parse_target(bool with_namespace) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  const Nested nested(*this);
  while (true) {
    if (!items.empty()) expect_operator(",");
    const bool at_end = current().kind == TokenKind::kBlockEnd || current().is_operator(")");
    if (at_end) break;
    if (current().is_operator("(")) {
      take();
      items.push_back(parse_target(with_namespace));
      expect_operator(")");
    } else {
      items.push_back(parse_target_name(with_namespace));
    }
    if (!current().is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple) fail_here("expected a name to assign to, got " + describe(current()));
  auto tuple = make_expr<ItemsExpr>(ExprKind::kTuple, line);
  tuple->items = std::move(items);
  return tuple;
}

ExprPtr ExpressionParser::parse_target_name(bool with_namespace) {
  if (current().kind != TokenKind::kName) {
    fail_here("expected a name to assign to, got " + describe(current()));
  }
  ExprPtr target = parse_name(with_namespace);
  if (target->kind == ExprKind::kLiteral) fail(target->line, "cannot assign to a constant");
  if (target->kind == ExprKind::kName && any_loops_ > 0 &&
      static_cast<NameExpr&>(*target).name == "loop") {
    fail(target->line, "cannot assign to the special variable 'loop' inside a loop");
  }
  return target;
}

}  // namespace minfer::jinja
