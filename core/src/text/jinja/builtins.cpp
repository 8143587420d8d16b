#include "text/jinja/builtins.h"

#include <initializer_list>

namespace minfer::jinja {

namespace {

template <class Fn>
Fn find_in(std::initializer_list<std::span<const Named<Fn>>> tables, std::string_view name) {
  for (const auto& table : tables) {
    for (const auto& entry : table) {
      if (entry.name == name) return entry.function;
    }
  }
  return nullptr;
}

}  // namespace

FilterFn find_filter(std::string_view name) {
  return find_in<FilterFn>(
      {text_filters(), sequence_filters(), selection_filters(), value_filters()}, name);
}

MethodFn find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::kString:
      return find_in<MethodFn>({string_methods(), string_search_methods()}, name);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return find_in<MethodFn>({list_methods()}, name);
    case Kind::kDict:
      return find_in<MethodFn>({dict_methods()}, name);
    default:
      return nullptr;
  }
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input,
                   const CallArgs& args) {
  const Runtime::Nested nested(runtime);  // map('map', 'map', ...) nests without nested syntax
  const FilterFn filter = find_filter(name);
  if (filter == nullptr) fail_template("there is no filter named '" + std::string(name) + "'");
  return filter(runtime, input, args);
}

bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const CallArgs& args) {
  const TestFn test = find_test(name);
  if (test == nullptr) fail_template("there is no test named '" + std::string(name) + "'");
  return test(runtime, input, args);
}

}  // namespace minfer::jinja
