// Runtime: what filters, tests and functions need from the rendering they run in.
//
// It makes values (charging the budget), calls callables, knows the clock and owns what may refer
// to itself. One rendering, one thread.
#pragma once

#include <ctime>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace minfer::jinja {

/// Arguments of a call: positional ones, then named ones with distinct names.
struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  bool empty() const { return positional.empty() && named.empty(); }
};

class Runtime {
 public:
  Runtime(Budget& budget, uint32_t max_depth, std::time_t now)
      : budget_(budget), max_depth_(max_depth), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime();

  void work(uint64_t steps = 1) { budget_.work(steps); }
  /// Charges for a pass over `bytes` of text.
  void work_on(size_t bytes) { budget_.work(1 + bytes / 64); }
  void need_room(uint64_t bytes) const { budget_.need_room(bytes); }
  std::time_t now() const { return now_; }

  Value string(Text text, bool markup = false);
  Value string(std::string_view bytes, Origin origin = Origin::kTemplate);
  Value list(std::vector<Value> items, Origin origin = Origin::kTemplate);
  Value tuple(std::vector<Value> items, Origin origin = Origin::kTemplate);
  /// An iterator over what `fill` puts into the vector it is given. Generators run when they are
  /// asked for elements, so a failure of `fill` only shows when the iterator gets that far.
  template <class Fill>
  Value generate(Fill fill) {
    std::vector<Value> items;
    std::optional<std::string> failure;
    try {
      fill(items);
    } catch (const Failure& error) {
      failure = error.what();
    }
    return iterator(std::move(items), std::move(failure));
  }
  Value iterator(std::vector<Value> items, std::optional<std::string> failure = {});
  Value view(std::string_view name, std::vector<Value> items, Origin origin);
  Value range(Int start, Int stop, Int step);
  /// A (key, list) pair as groupby gives them.
  Value group(Value key, Value items);
  /// Takes a filled dict; nobody may change it afterwards.
  Value dict(std::shared_ptr<DictData> data, Origin origin = Origin::kTemplate);
  std::shared_ptr<DictData> new_dict() { return std::make_shared<DictData>(*this); }
  Value undefined(std::string message);
  Value object(std::shared_ptr<ObjectData> data);
  /// A namespace that lives until the rendering ends, whatever refers to it.
  Value new_namespace(std::vector<std::pair<Value, Value>> attributes);

  /// Calls any value; throws when it is not callable.
  virtual Value call(const Value& callee, const CallArgs& args) = 0;

  Budget& budget() { return budget_; }

  /// Counts one level of nested calls, blocks and expressions for as long as it lives; throws when
  /// there are too many.
  class Nested {
   public:
    explicit Nested(Runtime& runtime);
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --runtime_.depth_; }

   private:
    Runtime& runtime_;
  };

 private:
  Value sequence(Kind kind, std::vector<Value> items, Origin origin, std::string_view view_name);

  Budget& budget_;
  uint32_t depth_ = 0;
  const uint32_t max_depth_;
  const std::time_t now_;
  std::vector<std::shared_ptr<NamespaceData>> namespaces_;
};

/// Builds one text piece by piece, charged while it grows.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}

  void append(std::string_view bytes, Origin origin) {
    charge_.take(runtime_.budget(), bytes.size());
    text_.append(bytes, origin);
  }
  void append(const Text& other) { append(other, 0, other.size()); }
  /// Bytes [from, to) of `other`.
  void append(const Text& other, size_t from, size_t to) {
    charge_.take(runtime_.budget(), to - from);
    text_.append(other, from, to);
  }
  /// `count` copies; none when it is negative.
  void repeat(const Text& other, Int count);
  void repeat(char byte, Int count, Origin origin) {
    repeat(Text(std::string_view(&byte, 1), origin), count);
  }

  size_t size() const { return text_.size(); }
  const Text& text() const { return text_; }
  Text take() { return std::move(text_); }
  /// The string; charges the work of making it. The builder is empty afterwards.
  Value finish(bool markup = false);

 private:
  Runtime& runtime_;
  Text text_;
  Charge charge_;
};

/// Arguments matched to parameter names, as Python binds them.
class BoundArgs {
 public:
  /// `names` are the parameters in order, the first `required` of which must be given.
  BoundArgs(std::string_view function, const CallArgs& args,
            std::initializer_list<std::string_view> names, size_t required = 0);

  bool has(size_t index) const { return values_[index] != nullptr; }
  const Value& operator[](size_t index) const { return *values_[index]; }
  /// Absent or none.
  bool none_or_absent(size_t index) const { return !has(index) || values_[index]->is_none(); }
  bool truthy_or(size_t index, bool fallback) const {
    return has(index) ? truthy(*values_[index]) : fallback;
  }
  /// The argument as an integer; throws when it is given and is not one.
  Int integer_or(size_t index, Int fallback) const;
  /// The argument as a string; throws when it is not one.
  const Text& text(size_t index) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace minfer::jinja
