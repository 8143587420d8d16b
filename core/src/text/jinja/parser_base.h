// The two halves of the parser: expressions here below, statements on top of them.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"

namespace minfer::jinja {

/// An expression node of type T.
template <class T>
std::unique_ptr<T> make_expr(ExprKind kind, int line) {
  return std::make_unique<T>(kind, line);
}

/// Reads tokens and builds expressions.
class ExpressionParser {
 protected:
  explicit ExpressionParser(std::string_view source) : tokens_(tokenize(source)) {}
  ~ExpressionParser() = default;

  /// Counts nesting for as long as it lives.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser);
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --parser_.depth_; }

   private:
    ExpressionParser& parser_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view op);
  std::string expect_name(std::string_view what);
  void expect(TokenKind kind, std::string_view what);
  [[noreturn]] void fail(int line, std::string what) const;
  [[noreturn]] void fail_here(std::string what) const { fail(current().line, std::move(what)); }

  NameId name_id(const std::string& name);

  ExprPtr parse_expression(bool with_conditional = true);
  /// Expressions with commas between them: one alone, or a tuple.
  ExprPtr parse_tuple(bool with_conditional, bool in_parens = false);
  /// The target of a set, for or with.
  ExprPtr parse_target(bool with_namespace);
  /// `| a | b(1)` after `input`, which may be absent; with `inline_start` the first bar is left
  /// out.
  ExprPtr parse_filters(ExprPtr input, bool inline_start = false);

  std::vector<MacroStmt*> macros_;  ///< whose bodies are being read, outermost first
  uint32_t loops_ = 0;              ///< loops around the current statement within its macro
  uint32_t any_loops_ = 0;          ///< loops around it in the whole template
  bool lenient_names_ = false;      ///< inside an if: unknown filters fail when they run
  std::vector<std::string> names_;

 private:
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary(bool with_namespace);
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_target_name(bool with_namespace);
  ExprPtr parse_literal();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_dot(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_slice_or_index(ExprPtr& start, ExprPtr& stop, ExprPtr& step, bool& is_slice);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_test(ExprPtr input);
  Arguments parse_arguments();
  std::string parse_dotted_name(std::string_view what);
  template <class Part>
  ExprPtr parse_chain(ExprKind kind,
                      std::initializer_list<std::pair<std::string_view, Operator>> ops, Part part);
  void note_height(Expr& parent, const ExprPtr& child) const;
  void note_height(Expr& parent, const Arguments& arguments) const;

  void note_unknown_name(int line, std::string what);
  void raise_unknown_name();

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;        ///< nesting of everything
  uint32_t expressions_ = 0;  ///< nesting of expressions alone
  std::optional<SyntaxError> unknown_name_;
  std::map<std::string, NameId, std::less<>> ids_;
};

}  // namespace minfer::jinja
