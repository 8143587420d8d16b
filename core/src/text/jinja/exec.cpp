// Statements: what each tag does.
#include <algorithm>
#include <boost/json.hpp>

#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/jinja/print.h"

namespace minfer::jinja {

void Scope::set(NameId id, Value value) {
  for (auto& [name, old] : variables) {
    if (name == id) {
      std::swap(old, value);
      return;
    }
  }
  variables.emplace_back(id, std::move(value));
}

const Value* Scope::find(NameId id) const {
  for (const auto& [name, value] : variables) {
    if (name == id) return &value;
  }
  return nullptr;
}

Interpreter::Entered::Entered(Interpreter& interpreter, std::shared_ptr<Scope> scope)
    : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, std::move(scope))) {}

namespace {

std::optional<NameId> find_name(const TemplateAst& ast, std::string_view name) {
  const auto found = std::find(ast.names.begin(), ast.names.end(), name);
  if (found == ast.names.end()) return std::nullopt;
  return static_cast<NameId>(found - ast.names.begin());
}

}  // namespace

Interpreter::Interpreter(const TemplateAst& ast, Budget& budget, uint32_t max_depth,
                         std::time_t now)
    : Runtime(budget, max_depth, now), ast_(ast), loop_id_(find_name(ast, "loop")) {}

Interpreter::~Interpreter() {
  // A macro refers to its scope and the scope to the macro; and macros passed to macros make chains
  // of any length. Emptying the scopes one by one, while all are alive, breaks both without
  // recursion.
  for (const auto& scope : captured_) scope->variables.clear();
}

Text Interpreter::render(const boost::json::object& context) {
  auto given = std::make_shared<Scope>(nullptr);
  for (const auto& [key, value] : context) {
    const auto name = find_name(ast_, key);
    if (!name) continue;  // the template never mentions it
    const bool is_token = key == "bos_token" || key == "eos_token";
    given->set(*name, from_json(*this, value, is_token ? Origin::kTemplate : Origin::kContext));
  }
  root_ = std::make_shared<Scope>(std::move(given), ast_.body);
  TextBuilder out(*this);
  out_ = &out;
  {
    const Entered entered(*this, root_);
    run(ast_.body.statements);
  }
  out_ = nullptr;
  return out.take();
}

template <class Body>
Value Interpreter::capture(Body body) {
  struct Redirected {
    Redirected(TextBuilder*& out, TextBuilder* to) : out_(out), old_(std::exchange(out, to)) {}
    Redirected(const Redirected&) = delete;
    Redirected& operator=(const Redirected&) = delete;
    ~Redirected() { out_ = old_; }
    TextBuilder*& out_;
    TextBuilder* old_;
  };
  TextBuilder text(*this);
  {
    const Redirected redirected(out_, &text);
    body();
  }
  return text.finish();
}

// ---------------------------------------------------------------------------------------------------
// Statements

Interpreter::Flow Interpreter::run(const Block& block) {
  const Nested nested(*this);
  for (const auto& statement : block) {
    const Flow flow = run(*statement);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const Stmt& statement) {
  line_ = statement.line;
  work();
  switch (statement.kind) {
    case StmtKind::kText: {
      const Text& text = static_cast<const TextStmt&>(statement).text;
      work_on(text.size());
      out_->append(text);
      return Flow::kNormal;
    }
    case StmtKind::kPrint:
      append_str(*this, *out_, eval(*static_cast<const PrintStmt&>(statement).value));
      return Flow::kNormal;
    case StmtKind::kIf:
      return run_if(static_cast<const IfStmt&>(statement));
    case StmtKind::kFor:
      run_for(static_cast<const ForStmt&>(statement));
      return Flow::kNormal;
    case StmtKind::kSet: {
      const auto& set = static_cast<const SetStmt&>(statement);
      assign(*set.target, eval(*set.value));
      return Flow::kNormal;
    }
    case StmtKind::kSetBlock:
      return run_set_block(static_cast<const SetBlockStmt&>(statement));
    case StmtKind::kMacro:
      run_macro_definition(static_cast<const MacroStmt&>(statement));
      return Flow::kNormal;
    case StmtKind::kCallBlock:
      run_call_block(static_cast<const CallBlockStmt&>(statement));
      return Flow::kNormal;
    case StmtKind::kFilterBlock:
      return run_filter_block(static_cast<const FilterBlockStmt&>(statement));
    case StmtKind::kWith:
      return run_with(static_cast<const WithStmt&>(statement));
    case StmtKind::kScope:
      return run_scope(static_cast<const ScopeStmt&>(statement));
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_if(const IfStmt& statement) {
  for (const auto& [condition, body] : statement.branches) {
    if (truthy(eval(*condition))) return run(body);
  }
  return run(statement.otherwise);
}

Interpreter::Flow Interpreter::run_set_block(const SetBlockStmt& statement) {
  const auto inner = std::make_shared<Scope>(scope_, statement.body);
  Flow flow = Flow::kNormal;
  Value value = capture([&] {
    const Entered entered(*this, inner);
    flow = run(statement.body.statements);
  });
  if (flow != Flow::kNormal) return flow;
  if (statement.filter != nullptr) {
    const Entered entered(*this, inner);
    value = eval_filter(static_cast<const FilterExpr&>(*statement.filter), &value);
  }
  assign(*statement.target, std::move(value));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_filter_block(const FilterBlockStmt& statement) {
  const Entered entered(*this, std::make_shared<Scope>(scope_, statement.body));
  Flow flow = Flow::kNormal;
  const Value text = capture([&] { flow = run(statement.body.statements); });
  if (flow != Flow::kNormal) return flow;
  append_str(*this, *out_, eval_filter(static_cast<const FilterExpr&>(*statement.filter), &text));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_with(const WithStmt& statement) {
  const auto inner = std::make_shared<Scope>(scope_, statement.body);
  for (const auto& [target, expr] : statement.bindings) {
    Value value = eval(*expr);  // in the outer scope: bindings do not see each other
    const Entered entered(*this, inner);
    assign(*target, std::move(value));
  }
  const Entered entered(*this, inner);
  return run(statement.body.statements);
}

Interpreter::Flow Interpreter::run_scope(const ScopeStmt& statement) {
  const auto outer = statement.at_root ? exported_scope() : scope_;
  const Entered entered(*this, std::make_shared<Scope>(outer, statement.body));
  return run(statement.body.statements);
}

/// What a block sees: the context, and the top level's variables as far as they are set.
std::shared_ptr<Scope> Interpreter::exported_scope() {
  auto exported = std::make_shared<Scope>(root_->parent);
  for (const auto& variable : root_->variables) {
    const Value& value = variable.second;
    const bool is_unset =
        std::any_of(ast_.body.unset.begin(), ast_.body.unset.end(),
                    [&](const auto& unset) { return unset.second.data() == value.data(); });
    if (!is_unset) exported->variables.push_back(variable);
  }
  return exported;
}

// ---------------------------------------------------------------------------------------------------
// Assignment

void Interpreter::assign(const Expr& target, Value value) {
  if (target.kind == ExprKind::kName) {
    return scope_->set(static_cast<const NameExpr&>(target).id, std::move(value));
  }
  if (target.kind == ExprKind::kNamespaceTarget) {
    return assign_attribute(static_cast<const NamespaceTarget&>(target), std::move(value));
  }
  const auto& names = static_cast<const ItemsExpr&>(target).items;
  if (value.is_undefined() && names.empty()) return;
  const std::vector<Value> values = to_vector(*this, value);
  if (values.size() != names.size()) {
    fail_template((values.size() < names.size() ? "not enough" : "too many") +
                  std::string(" values to unpack: expected ") + std::to_string(names.size()) +
                  ", got " + std::to_string(values.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) assign(*names[i], values[i]);
}

void Interpreter::assign_attribute(const NamespaceTarget& target, Value value) {
  const Value object = eval_name(*target.object);
  auto* space = object.object_as<NamespaceData>();
  if (space == nullptr) {
    fail_template("cannot assign attribute on non-namespace object: '" + target.object->name +
                  "' is " + std::string(type_name(object)));
  }
  if (target.attribute.starts_with('_')) {
    fail_template("names of namespace attributes may not start with '_': '" + target.attribute +
                  "'");
  }
  space->set(string(target.attribute), std::move(value));
}

// ---------------------------------------------------------------------------------------------------
// Loops

void Interpreter::run_for(const ForStmt& statement) {
  Value iterable = eval(*statement.iterable);
  if (statement.recursive) {
    append_str(*this, *out_, loop_text(statement, std::move(iterable), scope_, 0));
  } else {
    run_loop(statement, std::move(iterable), scope_, 0);
  }
}

void Interpreter::run_loop(const ForStmt& loop, Value iterable, const std::shared_ptr<Scope>& outer,
                           uint32_t depth0) {
  const auto data = std::make_shared<LoopData>(*this, loop, std::move(iterable), outer, depth0);
  struct Finish {
    LoopData& data;
    ~Finish() { data.finish(); }
  } const finish{*data};
  const Value variable = object(data);
  bool any = false;
  while (data->advance()) {
    const Entered entered(*this, std::make_shared<Scope>(outer, loop.body));
    if (loop_id_) scope_->set(*loop_id_, variable);
    assign(*loop.target, data->current());
    const Flow flow = run(loop.body.statements);
    if (flow == Flow::kBreak) break;
    // jinja2 only notes an iteration once its body has run to the end.
    if (flow == Flow::kNormal) any = true;
  }
  if (!any && !loop.otherwise.statements.empty()) {
    const Entered entered(*this, std::make_shared<Scope>(outer, loop.otherwise));
    run(loop.otherwise.statements);
  }
}

Value Interpreter::loop_text(const ForStmt& loop, Value iterable,
                             const std::shared_ptr<Scope>& outer, uint32_t depth0) {
  const Nested nested(*this);
  return capture([&] { run_loop(loop, std::move(iterable), outer, depth0); });
}

bool Interpreter::passes_filter(const ForStmt& loop, const Value& element,
                                const std::shared_ptr<Scope>& outer) {
  const Entered entered(*this, std::make_shared<Scope>(outer));
  assign(*loop.target, element);
  return truthy(eval(*loop.filter));
}

// ---------------------------------------------------------------------------------------------------
// Macros

Value Interpreter::make_macro(const MacroStmt& macro) {
  if (!scope_->captured) {
    scope_->captured = true;
    scope_->charge.take(budget(), sizeof(Scope));
    captured_.push_back(scope_);
  }
  return object(std::make_shared<MacroData>(*this, macro, scope_));
}

void Interpreter::run_macro_definition(const MacroStmt& statement) {
  scope_->set(statement.id, make_macro(statement));
}

void Interpreter::run_call_block(const CallBlockStmt& statement) {
  const Value caller = make_macro(*statement.caller);
  append_str(*this, *out_, eval_call(static_cast<const CallExpr&>(*statement.call), &caller));
}

Value Interpreter::call_macro(const MacroStmt& macro, const std::shared_ptr<Scope>& scope,
                              const CallArgs& args) {
  const auto inner = std::make_shared<Scope>(scope, macro.body);
  const Entered entered(*this, inner);
  std::vector<bool> used(args.named.size(), false);
  const auto take_named = [&](std::string_view name) -> const Value* {
    for (size_t i = 0; i < args.named.size(); ++i) {
      if (args.named[i].first != name || used[i]) continue;
      used[i] = true;
      return &args.named[i].second;
    }
    return nullptr;
  };

  // Defaults are evaluated in order, after all given values are known.
  const size_t count = macro.parameters.size();
  std::vector<const Value*> given(count, nullptr);
  for (size_t i = 0; i < count; ++i) {
    given[i] =
        i < args.positional.size() ? &args.positional[i] : take_named(macro.parameters[i].second);
  }
  if (macro.uses_caller) {
    const Value* caller = take_named("caller");
    inner->set(macro.caller_id,
               caller != nullptr && !caller->is_none() ? *caller : undefined("No caller defined"));
  }
  if (macro.uses_kwargs) {
    auto rest = new_dict();
    for (size_t i = 0; i < args.named.size(); ++i) {
      if (!used[i]) rest->set(string(args.named[i].first), args.named[i].second);
    }
    inner->set(macro.kwargs_id, dict(std::move(rest)));
  } else if (const auto unused = std::find(used.begin(), used.end(), false); unused != used.end()) {
    fail_template("macro '" + macro.name + "' takes no keyword argument '" +
                  args.named[static_cast<size_t>(unused - used.begin())].first + "'");
  }
  std::vector<Value> rest;
  if (args.positional.size() > count) {
    rest.assign(args.positional.begin() + static_cast<ptrdiff_t>(count), args.positional.end());
  }
  if (macro.uses_varargs) {
    inner->set(macro.varargs_id, tuple(std::move(rest)));
  } else if (!rest.empty()) {
    fail_template("macro '" + macro.name + "' takes not more than " + std::to_string(count) +
                  " argument(s)");
  }
  for (size_t i = 0; i < count; ++i) {
    const auto& [id, name] = macro.parameters[i];
    if (given[i] != nullptr) {
      inner->set(id, *given[i]);
    } else if (i + macro.defaults.size() >= count) {
      inner->set(id, eval(*macro.defaults[i + macro.defaults.size() - count]));
    } else {
      inner->set(id, undefined("parameter '" + name + "' was not provided"));
    }
  }
  return capture([&] { run(macro.body.statements); });
}

}  // namespace minfer::jinja
