// MacroData: a macro as a value, bound to the scope it was defined in.
#pragma once

#include "text/jinja/interpreter.h"

namespace minfer::jinja {

class MacroData : public ObjectData {
 public:
  MacroData(Interpreter& interpreter, const MacroStmt& macro, std::shared_ptr<Scope> scope)
      : interpreter_(interpreter), macro_(macro), scope_(std::move(scope)) {}

  std::string_view type_name() const override { return "Macro"; }
  std::string repr() override { return "<Macro '" + macro_.name + "'>"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    if (name == "name") return runtime.string(macro_.name);
    return std::nullopt;
  }
  bool callable() const override { return true; }
  Value call(Runtime&, const CallArgs& args) override {
    return interpreter_.call_macro(macro_, scope_, args);
  }

 private:
  Interpreter& interpreter_;
  const MacroStmt& macro_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace minfer::jinja
