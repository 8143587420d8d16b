// LoopData: the special variable `loop`, and the walk over the elements behind it.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "text/jinja/interpreter.h"

namespace minfer::jinja {

class LoopData : public ObjectData, public std::enable_shared_from_this<LoopData> {
 public:
  LoopData(Interpreter& interpreter, const ForStmt& loop, Value iterable,
           std::shared_ptr<Scope> outer, uint32_t depth0);

  /// Moves to the next element that passes the loop's filter; false at the end. Elements are
  /// filtered one at a time, so that a filter sees what earlier iterations did.
  bool advance();
  const Value& current() const { return *current_; }
  /// Lets go of every value. A loop that outlives its statement only knows its counters.
  void finish();

  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  std::string repr() override;
  bool callable() const override { return true; }
  /// loop(children): renders the body again for them.
  Value call(Runtime& runtime, const CallArgs& args) override;

 private:
  std::optional<Value> pull();
  const std::optional<Value>& peek();
  Int length();
  Value cycle(const CallArgs& args) const;
  Value changed(Runtime& runtime, const CallArgs& args);

  Interpreter& interpreter_;
  const ForStmt& loop_;
  std::shared_ptr<Scope> outer_;
  std::optional<Iteration> source_;
  std::deque<Value> ahead_;  ///< pulled but not yet current
  bool exhausted_ = false;
  std::optional<Value> before_, current_, next_;
  std::optional<std::vector<Value>> last_changed_;
  std::optional<Int> length_;
  Int index0_ = -1;
  uint32_t depth0_;
};

}  // namespace minfer::jinja
