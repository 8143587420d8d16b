// Callable values: built-in functions and methods bound to their object.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "text/jinja/builtins.h"
#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// A function with a name. Keeps the value it is bound to, if any, in its closure.
class FunctionData : public ObjectData {
 public:
  using Body = std::function<Value(Runtime&, const CallArgs&)>;

  FunctionData(std::string_view name, Body body) : name_(name), body_(std::move(body)) {}
  std::string_view type_name() const override { return "function"; }
  std::string repr() override { return "<function " + name_ + ">"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const CallArgs& args) override { return body_(runtime, args); }

 private:
  std::string name_;
  Body body_;
};

/// A function bound to nothing but what `body` captured; `nesting` is that of the deepest value in
/// it.
inline Value make_function(Runtime& runtime, std::string_view name, FunctionData::Body body,
                           uint32_t nesting = 0) {
  auto data = std::make_shared<FunctionData>(name, std::move(body));
  data->nesting = nesting + 1;
  if (data->nesting > kMaxNesting) fail_template("values nested too deeply");
  return runtime.object(std::move(data));
}

inline Value make_method(Runtime& runtime, const Value& self, std::string_view name,
                         MethodFn method) {
  return make_function(
      runtime, name,
      [self, method](Runtime& rt, const CallArgs& args) { return method(rt, self, args); },
      self.nesting());
}

}  // namespace minfer::jinja
