#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/escape.h"
#include "text/jinja/format.h"
#include "text/jinja/iteration.h"

namespace minfer::jinja {

namespace {

std::string_view spelling(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSub:
      return "-";
    case Operator::kMul:
      return "*";
    case Operator::kDiv:
      return "/";
    case Operator::kFloorDiv:
      return "//";
    case Operator::kMod:
      return "%";
    case Operator::kPow:
      return "**";
    case Operator::kEq:
      return "==";
    case Operator::kNe:
      return "!=";
    case Operator::kLt:
      return "<";
    case Operator::kLe:
      return "<=";
    case Operator::kGt:
      return ">";
    case Operator::kGe:
      return ">=";
    case Operator::kIn:
      return "in";
    case Operator::kNotIn:
      return "not in";
  }
  return "?";
}

[[noreturn]] void fail_types(Operator op, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) fail_template(std::string(undefined_message(*side)));
  }
  fail_template("unsupported operand types for " + std::string(spelling(op)) + ": '" +
                std::string(type_name(left)) + "' and '" + std::string(type_name(right)) + "'");
}

[[noreturn]] void fail_overflow() {
  fail_template("the integer result is too large");
}

/// An integer result, unless it is the one value whose negation would not fit.
Value checked_integer(Int result, Origin origin) {
  constexpr Int kLargest = static_cast<Int>(~static_cast<unsigned __int128>(0) >> 1);
  if (result < -kLargest) fail_overflow();
  return Value::integer(result, origin);
}

// ---------------------------------------------------------------------------------------------------
// Numbers

Int floor_divide(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int floor_modulo(Int a, Int b) {
  const Int rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

/// Python's float floor division: the whole multiple that floor_modulo leaves.
double floor_divide(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

Value integer_power(Int base, Int exponent, Origin origin) {
  if (exponent < 0) {
    if (base == 0) fail_template("0 cannot be raised to a negative power");
    return Value::floating(std::pow(static_cast<double>(base), static_cast<double>(exponent)),
                           origin);
  }
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base, origin);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1, origin);
  if (exponent > 127) fail_overflow();
  Int result = 1;
  for (Int i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return checked_integer(result, origin);
}

Value integer_arithmetic(Operator op, Int a, Int b, Origin origin) {
  Int result = 0;
  const bool divides = op == Operator::kDiv || op == Operator::kFloorDiv || op == Operator::kMod;
  if (divides && b == 0) fail_template("division by zero");
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return checked_integer(result, origin);
    case Operator::kSub:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return checked_integer(result, origin);
    case Operator::kMul:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return checked_integer(result, origin);
    case Operator::kDiv:
      return Value::floating(static_cast<double>(a) / static_cast<double>(b), origin);
    case Operator::kFloorDiv:
    case Operator::kMod:
      return Value::integer(op == Operator::kMod ? floor_modulo(a, b) : floor_divide(a, b), origin);
    default:
      return integer_power(a, b, origin);
  }
}

Value float_arithmetic(Operator op, double a, double b, Origin origin) {
  const bool divides = op == Operator::kDiv || op == Operator::kFloorDiv || op == Operator::kMod;
  if (divides && b == 0) fail_template("float division by zero");
  switch (op) {
    case Operator::kAdd:
      return Value::floating(a + b, origin);
    case Operator::kSub:
      return Value::floating(a - b, origin);
    case Operator::kMul:
      return Value::floating(a * b, origin);
    case Operator::kDiv:
      return Value::floating(a / b, origin);
    case Operator::kFloorDiv:
      return Value::floating(floor_divide(a, b), origin);
    case Operator::kMod:
      return Value::floating(floor_modulo(a, b), origin);
    default:
      break;
  }
  if (a == 0 && b < 0) fail_template("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && std::floor(b) != b) {
    fail_template("a negative number to a fractional power is not a real number");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    fail_template("the result of ** is too large");
  }
  return Value::floating(result, origin);
}

// ---------------------------------------------------------------------------------------------------
// Sequences

Value add_sequences(Runtime& runtime, const Value& left, const Value& right) {
  const Origin origin = combine(left.origin(), right.origin());
  runtime.need_room((left.items().size() + right.items().size()) * sizeof(Value));
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is(Kind::kList) ? runtime.list(std::move(items), origin)
                              : runtime.tuple(std::move(items), origin);
}

Value repeat_sequence(Runtime& runtime, const Value& sequence, Int count) {
  count = std::max<Int>(count, 0);
  if (sequence.is_string()) {
    TextBuilder out(runtime);
    out.repeat(sequence.text(), count);
    return out.finish();
  }
  const std::vector<Value>& once = sequence.items();
  Int bytes = 0;
  if (__builtin_mul_overflow(count, static_cast<Int>(once.size() * sizeof(Value)), &bytes) ||
      bytes > Int{UINT64_MAX}) {
    bytes = Int{UINT64_MAX};
  }
  runtime.need_room(static_cast<uint64_t>(bytes));
  std::vector<Value> items;
  if (!once.empty()) {
    items.reserve(once.size() * static_cast<size_t>(count));
    for (Int i = 0; i < count; ++i) items.insert(items.end(), once.begin(), once.end());
  }
  return sequence.is(Kind::kList) ? runtime.list(std::move(items), sequence.origin())
                                  : runtime.tuple(std::move(items), sequence.origin());
}

Value add_strings(Runtime& runtime, const Value& left, const Value& right) {
  TextBuilder out(runtime);
  const bool markup = is_markup(left) || is_markup(right);
  // Adding to text that is marked safe escapes the side that is not.
  for (const Value* side : {&left, &right}) {
    if (markup && !is_markup(*side)) {
      append_escaped(out, side->text());
    } else {
      out.append(side->text());
    }
  }
  return out.finish(markup);
}

}  // namespace

Value arithmetic(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    const Origin origin = combine(left.origin(), right.origin());
    if (left.is_integral() && right.is_integral()) {
      return integer_arithmetic(op, left.as_int(), right.as_int(), origin);
    }
    return float_arithmetic(op, left.as_double(), right.as_double(), origin);
  }
  if (op == Operator::kMod && left.is_string()) {
    return format_percent(runtime, left.text(), right);
  }
  if (op == Operator::kAdd && left.is_string() && right.is_string()) {
    return add_strings(runtime, left, right);
  }
  if (op == Operator::kAdd && left.is_sequence() && left.kind() == right.kind()) {
    return add_sequences(runtime, left, right);
  }
  if (op == Operator::kMul) {
    const auto repeatable = [](const Value& v) { return v.is_string() || v.is_sequence(); };
    if (repeatable(left) && right.is_integral())
      return repeat_sequence(runtime, left, right.as_int());
    if (left.is_integral() && repeatable(right))
      return repeat_sequence(runtime, right, left.as_int());
  }
  fail_types(op, left, right);
}

Value apply_sign(Runtime&, const Value& value, bool negative) {
  if (value.is_undefined()) fail_template(std::string(undefined_message(value)));
  if (!value.is_number()) {
    fail_template("bad operand type for unary " + std::string(negative ? "-" : "+") + ": '" +
                  std::string(type_name(value)) + "'");
  }
  if (value.is(Kind::kFloat)) {
    return Value::floating(negative ? -value.as_double() : value.as_double(), value.origin());
  }
  if (!negative) return Value::integer(value.as_int(), value.origin());
  return integer_arithmetic(Operator::kSub, 0, value.as_int(), value.origin());
}

bool compare(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEq:
      return equal(runtime, left, right);
    case Operator::kNe:
      return !equal(runtime, left, right);
    case Operator::kIn:
      return contains(runtime, right, left);
    case Operator::kNotIn:
      return !contains(runtime, right, left);
    case Operator::kLt:
      return less(runtime, left, right, "<");
    case Operator::kGt:
      return less(runtime, right, left, ">");
    default:
      break;
  }
  // <= and >= are not the negation of the other order where NaN is involved.
  const bool is_le = op == Operator::kLe;
  const Value &low = is_le ? left : right, &high = is_le ? right : left;
  return less(runtime, low, high, is_le ? "<=" : ">=") || equal(runtime, low, high);
}

}  // namespace minfer::jinja
