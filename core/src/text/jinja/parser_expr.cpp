// Expressions, by jinja2's levels of precedence from `x if y else z` down to literals.
#include <algorithm>
#include <charconv>

#include "text/jinja/number_text.h"
#include "text/jinja/parser_base.h"

namespace minfer::jinja {

namespace {

template <class T>
std::unique_ptr<T> make(ExprKind kind, int line) {
  return std::make_unique<T>(kind, line);
}

ExprPtr make_literal(Value value, int line) {
  return std::make_unique<LiteralExpr>(std::move(value), line);
}

Value literal_string(std::string_view text) {
  auto data = std::make_shared<StringData>();
  data->text.append(text, Origin::kTemplate);
  return Value(Kind::kString, std::move(data));
}

}  // namespace

ExpressionParser::Nested::Nested(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxParseDepth) {
    --parser_.depth_;  // the destructor of an object that failed to be made does not run
    parser_.fail_here("nested deeper than " + std::to_string(kMaxParseDepth) + " levels");
  }
}

// ---------------------------------------------------------------------------------------------------
// Tokens

void ExpressionParser::fail(int line, std::string what) const {
  throw SyntaxError{line, std::move(what)};
}

Token ExpressionParser::take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::skip_operator(std::string_view op) {
  if (!current().is_operator(op)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) {
    fail_here("expected '" + std::string(op) + "', got " + describe(current()));
  }
}

std::string ExpressionParser::expect_name(std::string_view what) {
  if (current().kind != TokenKind::kName) {
    fail_here("expected " + std::string(what) + ", got " + describe(current()));
  }
  return take().text;
}

void ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) {
    fail_here("expected '" + std::string(what) + "', got " + describe(current()));
  }
  take();
}

NameId ExpressionParser::name_id(const std::string& name) {
  const auto [entry, added] = ids_.emplace(name, static_cast<NameId>(names_.size()));
  if (added) names_.push_back(name);
  return entry->second;
}

void ExpressionParser::note_height(Expr& parent, const ExprPtr& child) const {
  if (child == nullptr) return;
  parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxParseDepth) {
    fail(parent.line, "an expression of more than " + std::to_string(kMaxParseDepth) + " levels");
  }
}

void ExpressionParser::note_height(Expr& parent, const Arguments& arguments) const {
  for (const auto& argument : arguments.positional) note_height(parent, argument);
  for (const auto& [name, argument] : arguments.named) note_height(parent, argument);
  note_height(parent, arguments.more_positional);
  note_height(parent, arguments.more_named);
}

// ---------------------------------------------------------------------------------------------------
// Operators

ExprPtr ExpressionParser::parse_expression(bool with_conditional) {
  const Nested nested(*this);
  ++expressions_;
  ExprPtr expr = with_conditional ? parse_conditional() : parse_or();
  if (--expressions_ == 0) raise_unknown_name();
  return expr;
}

/// A name of a filter or test that does not exist is an error when the template is parsed, except
/// in conditional expressions and if statements, where it may stand in a branch that never runs.
void ExpressionParser::note_unknown_name(int line, std::string what) {
  if (lenient_names_) return;
  if (!unknown_name_) unknown_name_ = SyntaxError{line, std::move(what)};
  if (expressions_ == 0) raise_unknown_name();
}

void ExpressionParser::raise_unknown_name() {
  if (unknown_name_) throw SyntaxError(*unknown_name_);
}

ExprPtr ExpressionParser::parse_conditional() {
  int line = current().line;
  auto unknown_before = unknown_name_;
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    auto expr = make<ConditionalExpr>(ExprKind::kConditional, line);
    expr->value = std::move(value);
    expr->condition = parse_or();
    if (skip_name("else")) {
      const Nested nested(*this);
      expr->otherwise = parse_conditional();
    }
    note_height(*expr, expr->value);
    note_height(*expr, expr->condition);
    note_height(*expr, expr->otherwise);
    value = std::move(expr);
    line = current().line;
    unknown_name_ = unknown_before;
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr first = parse_and();
  if (!current().is_name("or")) return first;
  auto expr = make<LogicExpr>(ExprKind::kLogic, first->line);
  expr->items.push_back(std::move(first));
  while (skip_name("or")) expr->items.push_back(parse_and());
  for (const auto& item : expr->items) note_height(*expr, item);
  return expr;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr first = parse_not();
  if (!current().is_name("and")) return first;
  auto expr = make<LogicExpr>(ExprKind::kLogic, first->line);
  expr->is_and = true;
  expr->items.push_back(std::move(first));
  while (skip_name("and")) expr->items.push_back(parse_not());
  for (const auto& item : expr->items) note_height(*expr, item);
  return expr;
}

ExprPtr ExpressionParser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Nested nested(*this);
  auto expr = make<UnaryExpr>(ExprKind::kNot, take().line);
  expr->operand = parse_not();
  note_height(*expr, expr->operand);
  return expr;
}

ExprPtr ExpressionParser::parse_compare() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEq}, {"!=", Operator::kNe}, {"<", Operator::kLt},
      {"<=", Operator::kLe}, {">", Operator::kGt},  {">=", Operator::kGe}};
  ExprPtr first = parse_sum();
  std::unique_ptr<ChainExpr> expr;
  while (true) {
    std::optional<Operator> op;
    for (const auto& [text, candidate] : kOperators) {
      if (skip_operator(text)) {
        op = candidate;
        break;
      }
    }
    if (!op && skip_name("in")) op = Operator::kIn;
    if (!op && current().is_name("not") && ahead().is_name("in")) {
      take(), take();
      op = Operator::kNotIn;
    }
    if (!op) break;
    if (expr == nullptr) {
      expr = make<ChainExpr>(ExprKind::kCompare, first->line);
      expr->first = std::move(first);
      note_height(*expr, expr->first);
    }
    expr->rest.emplace_back(*op, parse_sum());
    note_height(*expr, expr->rest.back().second);
  }
  if (expr == nullptr) return first;
  return expr;
}

template <class Part>
ExprPtr ExpressionParser::parse_chain(
    ExprKind kind, std::initializer_list<std::pair<std::string_view, Operator>> ops, Part part) {
  ExprPtr first = part();
  std::unique_ptr<ChainExpr> expr;
  while (true) {
    const auto op = std::find_if(ops.begin(), ops.end(), [&](const auto& candidate) {
      return current().is_operator(candidate.first);
    });
    if (op == ops.end()) break;
    take();
    if (expr == nullptr) {
      expr = make<ChainExpr>(kind, first->line);
      expr->first = std::move(first);
      note_height(*expr, expr->first);
    }
    expr->rest.emplace_back(op->second, part());
    note_height(*expr, expr->rest.back().second);
  }
  if (expr == nullptr) return first;
  return expr;
}

ExprPtr ExpressionParser::parse_sum() {
  return parse_chain(ExprKind::kArithmetic, {{"+", Operator::kAdd}, {"-", Operator::kSub}},
                     [this] { return parse_concat(); });
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!current().is_operator("~")) return first;
  auto expr = make<ItemsExpr>(ExprKind::kConcat, first->line);
  expr->items.push_back(std::move(first));
  while (skip_operator("~")) expr->items.push_back(parse_product());
  for (const auto& item : expr->items) note_height(*expr, item);
  return expr;
}

ExprPtr ExpressionParser::parse_product() {
  return parse_chain(ExprKind::kArithmetic,
                     {{"*", Operator::kMul},
                      {"/", Operator::kDiv},
                      {"//", Operator::kFloorDiv},
                      {"%", Operator::kMod}},
                     [this] { return parse_power(); });
}

ExprPtr ExpressionParser::parse_power() {
  return parse_chain(ExprKind::kArithmetic, {{"**", Operator::kPow}},
                     [this] { return parse_unary(true); });
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  ExprPtr expr;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Nested nested(*this);
    const Token sign = take();
    auto unary = make<UnaryExpr>(ExprKind::kSign, sign.line);
    unary->negative = sign.text == "-";
    unary->operand = parse_unary(false);
    note_height(*unary, unary->operand);
    expr = std::move(unary);
  } else {
    expr = parse_primary(false);
  }
  expr = parse_postfix(std::move(expr));
  return with_filters ? parse_filters_and_tests(std::move(expr)) : std::move(expr);
}

// ---------------------------------------------------------------------------------------------------
// Primaries

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
    ExprPtr expr = parse_tuple(true, {}, true);
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
    auto target = make<NamespaceTarget>(ExprKind::kNamespaceTarget, token.line);
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

ExprPtr ExpressionParser::parse_tuple(bool with_conditional, std::string_view stop,
                                      bool in_parens) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    const bool at_end = current().kind == TokenKind::kPrintEnd ||
                        current().kind == TokenKind::kBlockEnd || current().is_operator(")") ||
                        (!stop.empty() && current().is_name(stop));
    if (at_end) break;
    items.push_back(parse_expression(with_conditional));
    if (!current().is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !in_parens) fail_here("expected an expression, got " + describe(current()));
  auto tuple = make<ItemsExpr>(ExprKind::kTuple, line);
  tuple->items = std::move(items);
  for (const auto& item : tuple->items) note_height(*tuple, item);
  return tuple;
}

ExprPtr ExpressionParser::parse_list() {
  auto list = make<ItemsExpr>(ExprKind::kList, take().line);
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
  auto dict = make<ItemsExpr>(ExprKind::kDict, take().line);
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
    auto expr = make<SubscriptExpr>(ExprKind::kSubscript, line);
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
  auto expr = make<AttributeExpr>(ExprKind::kAttribute, line);
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
  auto slice = make<SliceExpr>(ExprKind::kSlice, line);
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
  auto expr = make<SubscriptExpr>(ExprKind::kSubscript, line);
  expr->object = std::move(object);
  if (items.size() == 1) {
    expr->index = std::move(items.front());
  } else {
    auto tuple = make<ItemsExpr>(ExprKind::kTuple, line);
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
  auto expr = make<CallExpr>(ExprKind::kCall, current().line);
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
    auto expr = make<FilterExpr>(ExprKind::kFilter, current().line);
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
  auto expr = make<TestExpr>(ExprKind::kTest, line);
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
  auto negation = make<UnaryExpr>(ExprKind::kNot, line);
  negation->operand = std::move(expr);
  note_height(*negation, negation->operand);
  return negation;
}

ExprPtr ExpressionParser::parse_target(bool with_namespace, std::string_view stop) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  const Nested nested(*this);
  while (true) {
    if (!items.empty()) expect_operator(",");
    const bool at_end = current().kind == TokenKind::kBlockEnd || current().is_operator(")") ||
                        (!stop.empty() && current().is_name(stop));
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
  auto tuple = make<ItemsExpr>(ExprKind::kTuple, line);
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
