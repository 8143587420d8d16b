// The tests of `x is name`.
#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/escape.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

void no_arguments(const CallArgs& args) {
  if (!args.empty()) fail_template("this test takes no arguments");
}

const Value& one_argument(const CallArgs& args) {
  if (args.positional.size() == 1 && args.named.empty()) return args.positional[0];
  fail_template("this test takes one argument");
}

template <Kind kKind>
bool is_kind(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return input.is(kKind);
}

bool is_defined(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return !input.is_undefined();
}

template <bool kWanted>
bool is_the_bool(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return input.is(Kind::kBool) && input.as_bool() == kWanted;
}

bool is_number(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return input.is_number();
}

bool is_sequence(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return input.is_undefined() || input.is_string() || input.is_sequence() ||
         input.is(Kind::kDict) || input.is(Kind::kRange);
}

bool is_iterable_test(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return is_iterable(input);
}

bool is_callable(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  // Undefined has a __call__, which only serves to fail.
  return input.is_undefined() || (input.is(Kind::kObject) && input.object().callable());
}

bool is_escaped(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return is_markup(input);
}

template <Operator kOperator>
bool compares(Runtime& rt, const Value& input, const CallArgs& args) {
  return compare(rt, kOperator, input, one_argument(args));
}

bool divides(Runtime& rt, const Value& input, const Value& divisor) {
  const Value rest = arithmetic(rt, Operator::kMod, input, divisor);
  return rest.is_number() && compare_numbers(rest, Value::integer(0)) == 0;
}

bool is_even(Runtime& rt, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return divides(rt, input, Value::integer(2));
}

bool is_odd(Runtime& rt, const Value& input, const CallArgs& args) {
  no_arguments(args);
  const Value rest = arithmetic(rt, Operator::kMod, input, Value::integer(2));
  return rest.is_number() && compare_numbers(rest, Value::integer(1)) == 0;
}

bool is_divisible_by(Runtime& rt, const Value& input, const CallArgs& args) {
  return divides(rt, input, one_argument(args));
}

/// str.islower() and str.isupper(): some cased letter, and none of the other case.
bool has_case(Runtime& rt, const Value& input, uint32_t wanted) {
  const Value value = to_string(rt, input);
  const std::string_view text = value.view();
  rt.work_on(text.size());
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const Char ch = decode_char(text, at);
    const uint32_t bits = char_class(ch.code) & (kLower | kUpper | kTitle);
    if (bits & ~wanted) return false;
    any |= bits != 0;
    at += ch.size;
  }
  return any;
}

bool is_lower(Runtime& rt, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return has_case(rt, input, kLower);
}

bool is_upper(Runtime& rt, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return has_case(rt, input, kUpper);
}

bool is_same(Runtime&, const Value& input, const CallArgs& args) {
  const Value& other = one_argument(args);
  if (input.kind() != other.kind()) return false;
  if (input.data() != nullptr) return input.data() == other.data();
  return !input.is_number() || (compare_numbers(input, other) == 0 && !input.is(Kind::kFloat));
}

bool is_filter(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return input.is_string() && find_filter(input.view()) != nullptr;
}

bool is_test(Runtime&, const Value& input, const CallArgs& args) {
  no_arguments(args);
  return input.is_string() && find_test(input.view()) != nullptr;
}

constexpr Named<TestFn> kTests[] = {
    {"!=", compares<Operator::kNe>},
    {"<", compares<Operator::kLt>},
    {"<=", compares<Operator::kLe>},
    {"==", compares<Operator::kEq>},
    {">", compares<Operator::kGt>},
    {">=", compares<Operator::kGe>},
    {"boolean", is_kind<Kind::kBool>},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible_by},
    {"eq", compares<Operator::kEq>},
    {"equalto", compares<Operator::kEq>},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_the_bool<false>},
    {"filter", is_filter},
    {"float", is_kind<Kind::kFloat>},
    {"ge", compares<Operator::kGe>},
    {"greaterthan", compares<Operator::kGt>},
    {"gt", compares<Operator::kGt>},
    {"in", compares<Operator::kIn>},
    {"integer", is_kind<Kind::kInt>},
    {"iterable", is_iterable_test},
    {"le", compares<Operator::kLe>},
    {"lessthan", compares<Operator::kLt>},
    {"lower", is_lower},
    {"lt", compares<Operator::kLt>},
    {"mapping", is_kind<Kind::kDict>},
    {"ne", compares<Operator::kNe>},
    {"none", is_kind<Kind::kNone>},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_kind<Kind::kString>},
    {"test", is_test},
    {"true", is_the_bool<true>},
    {"undefined", is_kind<Kind::kUndefined>},
    {"upper", is_upper},
};

}  // namespace

TestFn find_test(std::string_view name) {
  for (const auto& entry : kTests) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace minfer::jinja
