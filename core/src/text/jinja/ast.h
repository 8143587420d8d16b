// The parsed template: expressions and statements.
//
// Nodes are plain data made by the parser and read by the interpreter. Names are numbered, so that
// scopes compare integers. Immutable after parsing, shared by all renderings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/builtins.h"
#include "text/jinja/value.h"

namespace minfer::jinja {

using NameId = uint32_t;

// ---------------------------------------------------------------------------------------------------
// Expressions

enum class ExprKind : uint8_t {
  kLiteral,
  kName,
  kList,
  kTuple,
  kDict,
  kNot,
  kSign,
  kArithmetic,
  kConcat,
  kLogic,
  kCompare,
  kConditional,
  kAttribute,
  kSubscript,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNamespaceTarget,
};

struct Expr {
  Expr(ExprKind k, int l) : kind(k), line(l) {}
  virtual ~Expr() = default;
  ExprKind kind;
  int line;
  uint32_t height = 1;  ///< levels of expressions below and including this one
};
using ExprPtr = std::unique_ptr<Expr>;

struct LiteralExpr : Expr {
  LiteralExpr(Value v, int l) : Expr(ExprKind::kLiteral, l), value(std::move(v)) {}
  Value value;
};

struct NameExpr : Expr {
  NameExpr(NameId i, std::string n, int l)
      : Expr(ExprKind::kName, l), id(i), name(std::move(n)), global(find_global(name)) {}
  NameId id;
  std::string name;
  std::optional<Value> global;  ///< the built-in of that name
};

/// Items of a list or tuple; of a dict, keys and values in turn.
struct ItemsExpr : Expr {
  using Expr::Expr;
  std::vector<ExprPtr> items;
};

enum class Operator : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,  // arithmetic
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn,  // comparison
};

/// `not x`, `-x` and `+x`.
struct UnaryExpr : Expr {
  using Expr::Expr;
  ExprPtr operand;
  bool negative = false;
};

/// first op operand op operand ... of one precedence level: arithmetic from the left, or a
/// comparison chain. A flat list, so that a long chain is not a deep tree.
struct ChainExpr : Expr {
  using Expr::Expr;
  ExprPtr first;
  std::vector<std::pair<Operator, ExprPtr>> rest;
};

/// `a and b and c`, or the same with `or`.
struct LogicExpr : ItemsExpr {
  using ItemsExpr::ItemsExpr;
  bool is_and = false;
};

/// value if condition else otherwise; `otherwise` may be absent.
struct ConditionalExpr : Expr {
  using Expr::Expr;
  ExprPtr value, condition, otherwise;
};

struct AttributeExpr : Expr {
  using Expr::Expr;
  ExprPtr object;
  std::string name;
};

struct SubscriptExpr : Expr {
  using Expr::Expr;
  ExprPtr object, index;
};

/// object[start:stop:step], each of which may be absent.
struct SliceExpr : Expr {
  using Expr::Expr;
  ExprPtr object, start, stop, step;
};

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional;  ///< *args
  ExprPtr more_named;       ///< **kwargs
};

struct CallExpr : Expr {
  using Expr::Expr;
  ExprPtr callee;
  Arguments arguments;
};

/// `input | name(arguments)`; input is absent in filter blocks.
struct FilterExpr : Expr {
  using Expr::Expr;
  ExprPtr input;
  std::string name;
  FilterFn function = nullptr;  ///< absent where an unknown name may stand in a dead branch
  Arguments arguments;
};

/// `input is name(arguments)`.
struct TestExpr : Expr {
  using Expr::Expr;
  ExprPtr input;
  std::string name;
  TestFn function = nullptr;
  Arguments arguments;
};

/// `ns.attribute` as the target of a set.
struct NamespaceTarget : Expr {
  using Expr::Expr;
  std::unique_ptr<NameExpr> object;
  std::string attribute;
};

// ---------------------------------------------------------------------------------------------------
// Statements

enum class StmtKind : uint8_t {
  kText,
  kPrint,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,
  kBreak,
  kContinue,
};

struct Stmt {
  Stmt(StmtKind k, int l) : kind(k), line(l) {}
  virtual ~Stmt() = default;
  StmtKind kind;
  int line;
};
using Block = std::vector<std::unique_ptr<Stmt>>;

/// A block that runs in a scope of its own. `unset` are variables that are undefined when it
/// starts, whatever the context holds under their names: see scoping.h.
struct ScopedBlock {
  Block statements;
  std::vector<std::pair<NameId, Value>> unset;
};

struct TextStmt : Stmt {
  using Stmt::Stmt;
  Text text;
};

struct PrintStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr value;
};

struct IfStmt : Stmt {
  using Stmt::Stmt;
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};

struct ForStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr target, iterable, filter;
  bool recursive = false;
  ScopedBlock body, otherwise;
};

struct SetStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr target, value;
};

/// {% set target | filters %}body{% endset %}
struct SetBlockStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr target;
  ExprPtr filter;  ///< a chain of FilterExpr whose innermost input is absent; may be absent
  ScopedBlock body;
};

/// A macro or the body of a call block.
struct MacroStmt : Stmt {
  using Stmt::Stmt;
  NameId id = 0;
  std::string name;
  std::vector<std::pair<NameId, std::string>> parameters;
  std::vector<ExprPtr> defaults;  ///< of the last parameters
  ScopedBlock body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  NameId varargs_id = 0, kwargs_id = 0, caller_id = 0;
};

struct CallBlockStmt : Stmt {
  using Stmt::Stmt;
  std::unique_ptr<MacroStmt> caller;
  ExprPtr call;  ///< a CallExpr
};

struct FilterBlockStmt : Stmt {
  using Stmt::Stmt;
  ExprPtr filter;
  ScopedBlock body;
};

struct WithStmt : Stmt {
  using Stmt::Stmt;
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;
  ScopedBlock body;
};

/// A body with variables of its own: {% generation %} and {% block %}.
struct ScopeStmt : Stmt {
  using Stmt::Stmt;
  bool at_root = false;  ///< sees only the top level's variables, as a block does
  ScopedBlock body;
};

struct TemplateAst {
  ScopedBlock body;
  std::vector<std::string> names;  ///< by NameId
};

}  // namespace minfer::jinja
