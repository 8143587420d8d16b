// Expressions: evaluation of each kind of node.
#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace minfer::jinja {

Value Interpreter::eval(const Expr& expr) {
  work();
  line_ = expr.line;
  if (expr.kind == ExprKind::kLiteral) return static_cast<const LiteralExpr&>(expr).value;
  if (expr.kind == ExprKind::kName) return eval_name(static_cast<const NameExpr&>(expr));
  const Nested nested(*this);
  switch (expr.kind) {
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return eval_items(static_cast<const ItemsExpr&>(expr));
    case ExprKind::kNot:
      return Value::boolean(!truthy(eval(*static_cast<const UnaryExpr&>(expr).operand)));
    case ExprKind::kSign: {
      const auto& sign = static_cast<const UnaryExpr&>(expr);
      return apply_sign(*this, eval(*sign.operand), sign.negative);
    }
    case ExprKind::kArithmetic:
      return eval_arithmetic(static_cast<const ChainExpr&>(expr));
    case ExprKind::kConcat:
      return eval_concat(static_cast<const ItemsExpr&>(expr));
    case ExprKind::kLogic:
      return eval_logic(static_cast<const LogicExpr&>(expr));
    case ExprKind::kCompare:
      return eval_compare(static_cast<const ChainExpr&>(expr));
    case ExprKind::kConditional:
      return eval_conditional(static_cast<const ConditionalExpr&>(expr));
    case ExprKind::kAttribute: {
      const auto& attribute = static_cast<const AttributeExpr&>(expr);
      return get_attribute(*this, eval(*attribute.object), attribute.name);
    }
    case ExprKind::kSubscript: {
      const auto& subscript = static_cast<const SubscriptExpr&>(expr);
      const Value object = eval(*subscript.object);
      return get_item(*this, object, eval(*subscript.index));
    }
    case ExprKind::kSlice:
      return eval_slice(static_cast<const SliceExpr&>(expr));
    case ExprKind::kCall:
      return eval_call(static_cast<const CallExpr&>(expr), nullptr);
    case ExprKind::kFilter:
      return eval_filter(static_cast<const FilterExpr&>(expr), nullptr);
    case ExprKind::kTest:
      return Value::boolean(eval_test(static_cast<const TestExpr&>(expr)));
    default:
      fail_template("this expression cannot be evaluated");
  }
}

Value Interpreter::eval_name(const NameExpr& expr) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    if (const Value* value = scope->find(expr.id)) return *value;
  }
  if (expr.global) return *expr.global;
  return undefined("'" + expr.name + "' is undefined");
}

Value Interpreter::eval_items(const ItemsExpr& expr) {
  if (expr.kind == ExprKind::kDict) {
    auto data = new_dict();
    for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
      const Value key = eval(*expr.items[i]);
      data->set(key, eval(*expr.items[i + 1]));
    }
    return dict(std::move(data));
  }
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const auto& item : expr.items) items.push_back(eval(*item));
  return expr.kind == ExprKind::kList ? list(std::move(items)) : tuple(std::move(items));
}

Value Interpreter::eval_concat(const ItemsExpr& expr) {
  // Everything is evaluated before anything is turned into text, as the reference does.
  std::vector<Value> parts;
  parts.reserve(expr.items.size());
  for (const auto& item : expr.items) parts.push_back(eval(*item));
  TextBuilder out(*this);
  for (const Value& part : parts) append_str(*this, out, part);
  return out.finish();
}

Value Interpreter::eval_logic(const LogicExpr& expr) {
  Value value;
  for (const auto& item : expr.items) {
    value = eval(*item);
    if (truthy(value) != expr.is_and) break;
  }
  return value;
}

Value Interpreter::eval_arithmetic(const ChainExpr& expr) {
  Value value = eval(*expr.first);
  for (const auto& [op, operand] : expr.rest) {
    const Value right = eval(*operand);
    value = arithmetic(*this, op, value, right);
  }
  return value;
}

Value Interpreter::eval_compare(const ChainExpr& expr) {
  Value left = eval(*expr.first);
  for (const auto& [op, operand] : expr.rest) {
    Value right = eval(*operand);
    if (!compare(*this, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval_conditional(const ConditionalExpr& expr) {
  if (truthy(eval(*expr.condition))) return eval(*expr.value);
  if (expr.otherwise != nullptr) return eval(*expr.otherwise);
  return undefined("the inline if-expression on line " + std::to_string(expr.line) +
                   " evaluated to false and no else section was defined");
}

Value Interpreter::eval_slice(const SliceExpr& expr) {
  const Value object = eval(*expr.object);
  const Value start = eval_optional(expr.start);
  const Value stop = eval_optional(expr.stop);
  const Value step = eval_optional(expr.step);
  return get_slice(*this, object, start, stop, step);
}

// ---------------------------------------------------------------------------------------------------
// Calls

void Interpreter::add_named(CallArgs& args, std::string name, Value value) {
  for (const auto& other : args.named) {
    if (other.first == name)
      fail_template("got multiple values for keyword argument '" + name + "'");
  }
  args.named.emplace_back(std::move(name), std::move(value));
}

CallArgs Interpreter::eval_arguments(const Arguments& arguments) {
  CallArgs args;
  for (const auto& argument : arguments.positional) args.positional.push_back(eval(*argument));
  for (const auto& [name, argument] : arguments.named) {
    args.named.emplace_back(name, eval(*argument));
  }
  if (arguments.more_positional != nullptr) {
    const std::vector<Value> more = to_vector(*this, eval(*arguments.more_positional));
    args.positional.insert(args.positional.end(), more.begin(), more.end());
  }
  if (arguments.more_named != nullptr) {
    const Value more = eval(*arguments.more_named);
    if (!more.is(Kind::kDict)) {
      fail_template("argument after ** must be a mapping, not " + std::string(type_name(more)));
    }
    for (const auto& [key, value] : more.dict().entries) {
      if (!key.is_string()) fail_template("keywords must be strings");
      add_named(args, std::string(key.view()), value);
      work(args.named.size() / 8);
    }
  }
  return args;
}

Value Interpreter::eval_call(const CallExpr& expr, const Value* caller) {
  const Value callee = eval(*expr.callee);
  CallArgs args = eval_arguments(expr.arguments);
  if (caller != nullptr) add_named(args, "caller", *caller);
  line_ = expr.line;
  return call(callee, args);
}

Value Interpreter::call(const Value& callee, const CallArgs& args) {
  const Nested nested(*this);
  work();
  if (callee.is_undefined()) fail_template(std::string(undefined_message(callee)));
  if (!callee.is(Kind::kObject) || !callee.object().callable()) {
    fail_template("'" + std::string(type_name(callee)) + "' object is not callable");
  }
  return callee.object().call(*this, args);
}

Value Interpreter::eval_filter(const FilterExpr& expr, const Value* innermost) {
  const Nested nested(*this);
  Value input;
  if (expr.input == nullptr) {
    input = *innermost;
  } else if (innermost != nullptr) {
    input = eval_filter(static_cast<const FilterExpr&>(*expr.input), innermost);
  } else {
    input = eval(*expr.input);
  }
  const CallArgs args = eval_arguments(expr.arguments);
  line_ = expr.line;
  if (expr.function == nullptr) fail_template("there is no filter named '" + expr.name + "'");
  return expr.function(*this, input, args);
}

bool Interpreter::eval_test(const TestExpr& expr) {
  const Value input = eval(*expr.input);
  const CallArgs args = eval_arguments(expr.arguments);
  line_ = expr.line;
  if (expr.function == nullptr) fail_template("there is no test named '" + expr.name + "'");
  return expr.function(*this, input, args);
}

}  // namespace minfer::jinja
