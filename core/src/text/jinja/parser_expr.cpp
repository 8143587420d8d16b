// Expressions, by jinja2's levels of precedence from `x if y else z` down to the power operator.
#include <algorithm>

#include "text/jinja/parser_base.h"

namespace minfer::jinja {

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
    auto expr = make_expr<ConditionalExpr>(ExprKind::kConditional, line);
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
  auto expr = make_expr<LogicExpr>(ExprKind::kLogic, first->line);
  expr->items.push_back(std::move(first));
  while (skip_name("or")) expr->items.push_back(parse_and());
  for (const auto& item : expr->items) note_height(*expr, item);
  return expr;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr first = parse_not();
  if (!current().is_name("and")) return first;
  auto expr = make_expr<LogicExpr>(ExprKind::kLogic, first->line);
  expr->is_and = true;
  expr->items.push_back(std::move(first));
  while (skip_name("and")) expr->items.push_back(parse_not());
  for (const auto& item : expr->items) note_height(*expr, item);
  return expr;
}

ExprPtr ExpressionParser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Nested nested(*this);
  auto expr = make_expr<UnaryExpr>(ExprKind::kNot, take().line);
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
      expr = make_expr<ChainExpr>(ExprKind::kCompare, first->line);
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
      expr = make_expr<ChainExpr>(kind, first->line);
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
  auto expr = make_expr<ItemsExpr>(ExprKind::kConcat, first->line);
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
    auto unary = make_expr<UnaryExpr>(ExprKind::kSign, sign.line);
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

}  // namespace minfer::jinja
