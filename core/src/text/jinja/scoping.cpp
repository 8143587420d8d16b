#include "text/jinja/scoping.h"

#include <unordered_set>

namespace minfer::jinja {

namespace {

/// What is known of one scope while its block is read in order.
class Frame {
 public:
  explicit Frame(const Frame* parent) : parent_(parent) {}

  bool knows(NameId id) const {
    return known_.count(id) != 0 || (parent_ != nullptr && parent_->knows(id));
  }

  void load(NameId id) {
    if (!knows(id)) learn(id);
  }

  void store(NameId id) {
    if (known_.count(id) != 0) return;
    // Inside a branch that may not run, the name starts with the value from outside.
    if (branches_ == 0 && (parent_ == nullptr || !parent_->knows(id))) unset_.push_back(id);
    learn(id);
  }

  void declare(NameId id) { learn(id); }

  /// What one branch learns is unknown to its siblings, and known after all of them.
  template <class Body>
  void branch(std::vector<NameId>& learnt_by_all, Body body) {
    ++branches_;
    std::vector<NameId> outer = std::exchange(learnt_, {});
    body();
    for (const NameId id : learnt_) known_.erase(id);
    learnt_by_all.insert(learnt_by_all.end(), learnt_.begin(), learnt_.end());
    learnt_ = std::move(outer);
    --branches_;
  }
  void join(const std::vector<NameId>& learnt_by_all) {
    for (const NameId id : learnt_by_all) learn(id);
  }

  const std::vector<NameId>& unset() const { return unset_; }

 private:
  void learn(NameId id) {
    if (known_.insert(id).second && branches_ > 0) learnt_.push_back(id);
  }

  const Frame* parent_;
  std::unordered_set<NameId> known_;
  std::vector<NameId> learnt_;  ///< since the current branch began
  std::vector<NameId> unset_;
  int branches_ = 0;
};

class ScopeResolver {
 public:
  explicit ScopeResolver(TemplateAst& ast) : names_(ast.names) {}

  /// Reads a block in a new scope inside `outer`, with names that are set from the start.
  void scope(ScopedBlock& block, const Frame* outer, const std::vector<NameId>& declared = {},
             const Expr* target = nullptr, const std::vector<ExprPtr>* defaults = nullptr) {
    Frame frame(outer);
    for (const NameId id : declared) frame.declare(id);
    if (target != nullptr) assign(frame, *target, true);
    if (defaults != nullptr) loads(frame, *defaults);
    flow(frame, block.statements);
    for (const NameId id : frame.unset()) block.unset.emplace_back(id, undefined(id));
    // Inner scopes look at this one as a whole, so they come after it.
    inner(frame, block.statements);
  }

 private:
  Value undefined(NameId id) const {
    auto data = std::make_shared<UndefinedData>();
    data->message = "'" + names_[id] + "' is undefined";
    return Value(Kind::kUndefined, std::move(data));
  }

  // Names that a block mentions in its own scope, in order.
  void flow(Frame& frame, const Block& block) {
    for (const auto& statement : block) flow(frame, *statement);
  }

  void flow(Frame& frame, const Stmt& statement) {
    switch (statement.kind) {
      case StmtKind::kPrint:
        return load(frame, static_cast<const PrintStmt&>(statement).value);
      case StmtKind::kIf:
        return flow_if(frame, static_cast<const IfStmt&>(statement));
      case StmtKind::kFor:
        return load(frame, static_cast<const ForStmt&>(statement).iterable);
      case StmtKind::kSet: {
        const auto& set = static_cast<const SetStmt&>(statement);
        load(frame, set.value);
        return assign(frame, *set.target, false);
      }
      case StmtKind::kSetBlock:
        return assign(frame, *static_cast<const SetBlockStmt&>(statement).target, false);
      case StmtKind::kMacro:
        return frame.store(static_cast<const MacroStmt&>(statement).id);
      case StmtKind::kCallBlock:
        return load(frame, static_cast<const CallBlockStmt&>(statement).call);
      case StmtKind::kFilterBlock:
        return load(frame, static_cast<const FilterBlockStmt&>(statement).filter);
      case StmtKind::kWith:
        for (const auto& [target, value] : static_cast<const WithStmt&>(statement).bindings) {
          load(frame, value);
        }
        return;
      default:
        return;
    }
  }

  void flow_if(Frame& frame, const IfStmt& statement) {
    std::vector<NameId> learnt;
    for (const auto& [condition, body] : statement.branches) {
      load(frame, condition);
      frame.branch(learnt, [&] { flow(frame, body); });
    }
    frame.branch(learnt, [&] { flow(frame, statement.otherwise); });
    frame.join(learnt);
  }

  // The scopes inside a block.
  void inner(const Frame& frame, const Block& block) {
    for (const auto& statement : block) inner(frame, *statement);
  }

  void inner(const Frame& frame, Stmt& statement) {
    switch (statement.kind) {
      case StmtKind::kIf: {
        const auto& branches = static_cast<IfStmt&>(statement);
        for (const auto& [condition, body] : branches.branches) inner(frame, body);
        return inner(frame, branches.otherwise);
      }
      case StmtKind::kFor: {
        auto& loop = static_cast<ForStmt&>(statement);
        scope(loop.body, &frame, {}, loop.target.get());
        return scope(loop.otherwise, &frame);
      }
      case StmtKind::kSetBlock:
        return scope(static_cast<SetBlockStmt&>(statement).body, &frame);
      case StmtKind::kMacro:
        return macro(frame, static_cast<MacroStmt&>(statement));
      case StmtKind::kCallBlock:
        return macro(frame, *static_cast<CallBlockStmt&>(statement).caller);
      case StmtKind::kFilterBlock:
        return scope(static_cast<FilterBlockStmt&>(statement).body, &frame);
      case StmtKind::kWith:
        return with(frame, static_cast<WithStmt&>(statement));
      case StmtKind::kScope: {
        auto& block = static_cast<ScopeStmt&>(statement);
        return scope(block.body, block.at_root ? nullptr : &frame);
      }
      default:
        return;
    }
  }

  void macro(const Frame& frame, MacroStmt& statement) {
    std::vector<NameId> declared;
    for (const auto& [id, name] : statement.parameters) declared.push_back(id);
    if (statement.uses_varargs) declared.push_back(statement.varargs_id);
    if (statement.uses_kwargs) declared.push_back(statement.kwargs_id);
    if (statement.uses_caller) declared.push_back(statement.caller_id);
    scope(statement.body, &frame, declared, nullptr, &statement.defaults);
  }

  void with(const Frame& frame, WithStmt& statement) {
    std::vector<NameId> declared;
    for (const auto& [target, value] : statement.bindings) collect(declared, *target);
    scope(statement.body, &frame, declared);
  }

  static void collect(std::vector<NameId>& ids, const Expr& target) {
    if (target.kind == ExprKind::kName) ids.push_back(static_cast<const NameExpr&>(target).id);
    if (target.kind != ExprKind::kTuple) return;
    for (const auto& item : static_cast<const ItemsExpr&>(target).items) collect(ids, *item);
  }

  void assign(Frame& frame, const Expr& target, bool declares) {
    if (target.kind == ExprKind::kNamespaceTarget) {
      return frame.load(static_cast<const NamespaceTarget&>(target).object->id);
    }
    std::vector<NameId> ids;
    collect(ids, target);
    for (const NameId id : ids) declares ? frame.declare(id) : frame.store(id);
    if (target.kind != ExprKind::kTuple) return;
    for (const auto& item : static_cast<const ItemsExpr&>(target).items) {
      if (item->kind == ExprKind::kNamespaceTarget) assign(frame, *item, declares);
    }
  }

  // Names that an expression reads.
  void load(Frame& frame, const ExprPtr& expr) {
    if (expr != nullptr) load(frame, *expr);
  }

  void loads(Frame& frame, const std::vector<ExprPtr>& exprs) {
    for (const auto& expr : exprs) load(frame, expr);
  }

  void load(Frame& frame, const Arguments& arguments) {
    loads(frame, arguments.positional);
    for (const auto& [name, value] : arguments.named) load(frame, value);
    load(frame, arguments.more_positional);
    load(frame, arguments.more_named);
  }

  void load(Frame& frame, const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kName:
        return frame.load(static_cast<const NameExpr&>(expr).id);
      case ExprKind::kList:
      case ExprKind::kTuple:
      case ExprKind::kDict:
      case ExprKind::kConcat:
      case ExprKind::kLogic:
        return loads(frame, static_cast<const ItemsExpr&>(expr).items);
      case ExprKind::kNot:
      case ExprKind::kSign:
        return load(frame, static_cast<const UnaryExpr&>(expr).operand);
      case ExprKind::kArithmetic:
      case ExprKind::kCompare: {
        const auto& chain = static_cast<const ChainExpr&>(expr);
        load(frame, chain.first);
        for (const auto& [op, operand] : chain.rest) load(frame, operand);
        return;
      }
      case ExprKind::kConditional: {
        const auto& conditional = static_cast<const ConditionalExpr&>(expr);
        load(frame, conditional.condition);
        load(frame, conditional.value);
        return load(frame, conditional.otherwise);
      }
      case ExprKind::kAttribute:
        return load(frame, static_cast<const AttributeExpr&>(expr).object);
      case ExprKind::kSubscript:
        load(frame, static_cast<const SubscriptExpr&>(expr).object);
        return load(frame, static_cast<const SubscriptExpr&>(expr).index);
      case ExprKind::kSlice: {
        const auto& slice = static_cast<const SliceExpr&>(expr);
        load(frame, slice.object);
        load(frame, slice.start);
        load(frame, slice.stop);
        return load(frame, slice.step);
      }
      case ExprKind::kCall:
        load(frame, static_cast<const CallExpr&>(expr).callee);
        return load(frame, static_cast<const CallExpr&>(expr).arguments);
      case ExprKind::kFilter:
        load(frame, static_cast<const FilterExpr&>(expr).input);
        return load(frame, static_cast<const FilterExpr&>(expr).arguments);
      case ExprKind::kTest:
        load(frame, static_cast<const TestExpr&>(expr).input);
        return load(frame, static_cast<const TestExpr&>(expr).arguments);
      case ExprKind::kLiteral:
      case ExprKind::kNamespaceTarget:
        return;
    }
  }

  const std::vector<std::string>& names_;
};

}  // namespace

void resolve_scopes(TemplateAst& ast) {
  ScopeResolver(ast).scope(ast.body, nullptr);
}

}  // namespace minfer::jinja
