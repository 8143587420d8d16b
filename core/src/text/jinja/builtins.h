// Tables of built-in filters, tests, methods and globals, looked up by name.
//
// The tables are constant; functions keep no state, so lookups and functions are safe from any
// thread.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace minfer::jinja {

using FilterFn = Value (*)(Runtime&, const Value& input, const CallArgs&);
using TestFn = bool (*)(Runtime&, const Value& input, const CallArgs&);
using MethodFn = Value (*)(Runtime&, const Value& self, const CallArgs&);
using GlobalFn = Value (*)(Runtime&, const CallArgs&);

template <class Fn>
struct Named {
  std::string_view name;
  Fn function;
};

// One table a file: filters_text.cpp, filters_sequence.cpp, filters_number.cpp, ...
std::span<const Named<FilterFn>> text_filters();
std::span<const Named<FilterFn>> sequence_filters();
std::span<const Named<FilterFn>> selection_filters();
std::span<const Named<FilterFn>> value_filters();
std::span<const Named<MethodFn>> string_methods();
std::span<const Named<MethodFn>> string_search_methods();
std::span<const Named<MethodFn>> list_methods();
std::span<const Named<MethodFn>> dict_methods();

/// nullptr when there is no such name.
FilterFn find_filter(std::string_view name);
TestFn find_test(std::string_view name);
MethodFn find_method(const Value& self, std::string_view name);

/// The value of a global such as `range`, or nothing.
std::optional<Value> find_global(std::string_view name);

/// Applies a filter or test by name; throws when there is none.
Value apply_filter(Runtime& runtime, std::string_view name, const Value& input,
                   const CallArgs& args);
bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const CallArgs& args);

}  // namespace minfer::jinja
