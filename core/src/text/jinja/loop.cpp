#include "text/jinja/loop.h"

#include "text/jinja/functions.h"
#include "text/jinja/number_text.h"

namespace minfer::jinja {

LoopData::LoopData(Interpreter& interpreter, const ForStmt& loop, Value iterable,
                   std::shared_ptr<Scope> outer, uint32_t depth0)
    : interpreter_(interpreter),
      loop_(loop),
      outer_(std::move(outer)),
      source_(Iteration(interpreter, std::move(iterable))),
      depth0_(depth0) {
  if (loop_.filter == nullptr) {
    if (const auto known = source_->known_length()) length_ = static_cast<Int>(*known);
  }
}

std::optional<Value> LoopData::pull() {
  if (!ahead_.empty()) {
    Value value = std::move(ahead_.front());
    ahead_.pop_front();
    return value;
  }
  while (!exhausted_ && source_) {
    auto value = source_->next();
    if (!value) {
      exhausted_ = true;
    } else if (loop_.filter == nullptr || interpreter_.passes_filter(loop_, *value, outer_)) {
      return value;
    }
  }
  return std::nullopt;
}

const std::optional<Value>& LoopData::peek() {
  if (!next_) next_ = pull();
  return next_;
}

bool LoopData::advance() {
  std::optional<Value> value = next_ ? std::exchange(next_, std::nullopt) : pull();
  if (!value) return false;
  ++index0_;
  before_ = std::exchange(current_, std::move(value));
  return true;
}

void LoopData::finish() {
  source_.reset();
  ahead_.clear();
  before_.reset();
  current_.reset();
  next_.reset();
  last_changed_.reset();
  outer_.reset();
}

Int LoopData::length() {
  if (!length_) {
    // The rest must be pulled to be counted; it waits in ahead_ for its turn.
    std::deque<Value> rest;
    while (auto value = pull()) rest.push_back(std::move(*value));
    ahead_ = std::move(rest);
    length_ = static_cast<Int>(ahead_.size()) + index0_ + 1 + (next_ ? 1 : 0);
  }
  return *length_;
}

std::string LoopData::repr() {
  return "<LoopContext " + integer_text(index0_ + 1) + "/" + integer_text(length()) + ">";
}

Value LoopData::cycle(const CallArgs& args) const {
  if (args.positional.empty()) fail_template("loop.cycle() needs at least one item");
  return args.positional[static_cast<size_t>(index0_) % args.positional.size()];
}

Value LoopData::changed(Runtime& runtime, const CallArgs& args) {
  bool same = last_changed_.has_value() && last_changed_->size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i) {
    same = equal(runtime, (*last_changed_)[i], args.positional[i]);
  }
  if (!same) last_changed_ = args.positional;
  return Value::boolean(!same);
}

std::optional<Value> LoopData::attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0_);
  if (name == "revindex0") return Value::integer(length() - index0_ - 1);
  if (name == "depth") return Value::integer(depth0_ + 1);
  if (name == "depth0") return Value::integer(depth0_);
  if (name == "previtem") {
    return index0_ == 0 || !before_ ? runtime.undefined("there is no previous item") : *before_;
  }
  if (name == "nextitem") {
    const auto& next = peek();
    return next ? *next : runtime.undefined("there is no next item");
  }
  if (name == "cycle") {
    return make_function(
        runtime, name,
        [self = shared_from_this()](Runtime&, const CallArgs& args) { return self->cycle(args); });
  }
  if (name == "changed") {
    return make_function(runtime, name,
                         [self = shared_from_this()](Runtime& rt, const CallArgs& args) {
                           return self->changed(rt, args);
                         });
  }
  return std::nullopt;
}

Value LoopData::call(Runtime&, const CallArgs& args) {
  if (!loop_.recursive || outer_ == nullptr) {
    fail_template("the loop must have the 'recursive' marker to be called recursively");
  }
  const BoundArgs bound("loop", args, {"iterable"}, 1);
  return interpreter_.loop_text(loop_, bound[0], outer_, depth0_ + 1);
}

}  // namespace minfer::jinja
