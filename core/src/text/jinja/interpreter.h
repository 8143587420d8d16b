// Interpreter: runs a parsed template over a context and collects its text.
//
// A tree walker. Scopes are chains of small tables keyed by NameId, as jinja2's are: a loop's
// iteration, a macro call and a block have their own; `if` has none. One rendering, one thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "minfer/chat_template.h"
#include "text/jinja/ast.h"
#include "text/jinja/iteration.h"
#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// Variables of one scope and the scope around it.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}

  /// A scope for `block`, with the variables that it starts out without.
  Scope(std::shared_ptr<Scope> outer, const ScopedBlock& block)
      : variables(block.unset), parent(std::move(outer)) {}

  void set(NameId id, Value value);
  const Value* find(NameId id) const;  ///< in this scope alone

  std::vector<std::pair<NameId, Value>> variables;
  std::shared_ptr<Scope> parent;
  Charge charge;
  bool captured = false;  ///< a macro refers to it
};

class Interpreter : public Runtime {
 public:
  Interpreter(const TemplateAst& ast, Budget& budget, uint32_t max_depth, std::time_t now);
  ~Interpreter() override;

  /// Renders once. Throws Failure; line() then tells where.
  Text render(const boost::json::object& context);

  /// Line of what is being evaluated.
  int line() const { return line_; }

  Value call(const Value& callee, const CallArgs& args) override;

  // For macros and loops, which run parts of the template when they are called.
  Value call_macro(const MacroStmt& macro, const std::shared_ptr<Scope>& scope,
                   const CallArgs& args);
  /// Runs a whole loop and returns its text, for loops marked recursive.
  Value loop_text(const ForStmt& loop, Value iterable, const std::shared_ptr<Scope>& outer,
                  uint32_t depth0);
  /// Whether an element passes the loop's `if`.
  bool passes_filter(const ForStmt& loop, const Value& element,
                     const std::shared_ptr<Scope>& outer);

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  /// Makes another scope current for as long as it lives.
  class Entered {
   public:
    Entered(Interpreter& interpreter, std::shared_ptr<Scope> scope);
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    ~Entered() { interpreter_.scope_ = std::move(outer_); }

   private:
    Interpreter& interpreter_;
    std::shared_ptr<Scope> outer_;
  };

  // Statements (exec.cpp)
  Flow run(const Block& block);
  Flow run(const Stmt& statement);
  Flow run_if(const IfStmt& statement);
  void run_for(const ForStmt& statement);
  void run_loop(const ForStmt& loop, Value iterable, const std::shared_ptr<Scope>& outer,
                uint32_t depth0);
  Flow run_set_block(const SetBlockStmt& statement);
  Flow run_filter_block(const FilterBlockStmt& statement);
  Flow run_with(const WithStmt& statement);
  void run_macro_definition(const MacroStmt& statement);
  void run_call_block(const CallBlockStmt& statement);
  Flow run_scope(const ScopeStmt& statement);
  std::shared_ptr<Scope> exported_scope();
  void assign(const Expr& target, Value value);
  void assign_attribute(const NamespaceTarget& target, Value value);
  Value make_macro(const MacroStmt& macro);
  /// Runs `body` and gives what it printed instead of printing it.
  template <class Body>
  Value capture(Body body);

  // Expressions (eval.cpp)
  Value eval(const Expr& expr);
  Value eval_optional(const ExprPtr& expr) { return expr ? eval(*expr) : Value(); }
  Value eval_name(const NameExpr& expr);
  Value eval_items(const ItemsExpr& expr);
  Value eval_concat(const ItemsExpr& expr);
  Value eval_logic(const LogicExpr& expr);
  Value eval_arithmetic(const ChainExpr& expr);
  Value eval_compare(const ChainExpr& expr);
  Value eval_conditional(const ConditionalExpr& expr);
  Value eval_slice(const SliceExpr& expr);
  Value eval_call(const CallExpr& expr, const Value* caller);
  Value eval_filter(const FilterExpr& expr, const Value* innermost);
  bool eval_test(const TestExpr& expr);
  CallArgs eval_arguments(const Arguments& arguments);
  void add_named(CallArgs& args, std::string name, Value value);

  const TemplateAst& ast_;
  const std::optional<NameId> loop_id_;  ///< of the name `loop`, where the template mentions it
  int line_ = 1;
  std::shared_ptr<Scope> root_, scope_;
  TextBuilder* out_ = nullptr;
  std::vector<std::shared_ptr<Scope>> captured_;  ///< kept until the end; see ~Interpreter
};

}  // namespace minfer::jinja
