// Values of the template language: what expressions evaluate to.
//
// The kinds and their behaviour are Python's, since that is what templates are written against.
// Scalars live in the Value; everything else is an immutable object shared by reference, except
// Namespace and the positions of iterators and loops. Objects are charged to the Budget of the
// rendering that made them. Values of one rendering belong to one thread; literals of a parsed
// template may be shared.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/text.h"

namespace minfer::jinja {

class Runtime;
struct CallArgs;

/// 128 bits, so that every integer JSON readers accept (unsigned 64 bit) behaves like Python's.
__extension__ typedef __int128 Int;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,      ///< dict.keys(), dict.values(), dict.items()
  kIterator,  ///< what generators and reversed() return: goes by once, has no length
  kObject,    ///< functions, methods, macros, namespaces, loop, cycler, joiner
};

/// Base of everything a Value refers to. `nesting` is 1 + that of the deepest value inside;
/// containers refuse to be built past kMaxNesting, which is what keeps recursion over values off
/// the stack's end.
struct Data {
  Data() = default;
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  virtual ~Data() = default;

  Charge charge;
  uint32_t nesting = 1;
};

inline constexpr uint32_t kMaxNesting = 200;

class Value {
 public:
  Value() : kind_(Kind::kUndefined) {}
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b, Origin origin = Origin::kTemplate);
  static Value integer(Int i, Origin origin = Origin::kTemplate);
  static Value floating(double d, Origin origin = Origin::kTemplate);
  Value(Kind kind, std::shared_ptr<const Data> data, Origin origin = Origin::kTemplate)
      : data_(std::move(data)), kind_(kind), origin_(origin) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  /// int or bool, which Python counts as an integer.
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }

  bool as_bool() const { return bool_; }
  /// The value of an int or bool.
  Int as_int() const { return kind_ == Kind::kBool ? Int{bool_} : int_; }
  /// The value of any number as a float.
  double as_double() const;

  /// Where a non-string came from. Strings know it byte by byte.
  Origin origin() const { return origin_; }
  void set_origin(Origin origin) { origin_ = origin; }
  /// The above, for strings the combination of all their runs.
  Origin overall_origin() const;

  const std::shared_ptr<const Data>& data() const { return data_; }
  uint32_t nesting() const { return data_ ? data_->nesting : 0; }

  // Each requires the matching kind.
  const Text& text() const;
  std::string_view view() const { return text().view(); }
  const std::vector<Value>& items() const;  ///< of a list, tuple or view
  const struct DictData& dict() const;
  const struct RangeData& range() const;
  struct IteratorData& iterator() const;
  class ObjectData& object() const;

  /// The object as a T, or nullptr when this is something else.
  template <class T>
  T* object_as() const {
    return kind_ == Kind::kObject ? dynamic_cast<T*>(const_cast<Data*>(data_.get())) : nullptr;
  }

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  union {
    bool bool_;
    Int int_ = 0;
    double double_;
  };
  std::shared_ptr<const Data> data_;
  Kind kind_;
  Origin origin_ = Origin::kTemplate;
};

/// An undefined value's explanation, e.g. "'foo' is undefined".
struct UndefinedData : Data {
  std::string message;
};

/// The explanation of an undefined value.
std::string_view undefined_message(const Value& value);

struct StringData : Data {
  Text text;
  bool markup = false;  ///< marked by `safe` or `escape`: not escaped again
};

/// Elements of a list, tuple or view.
struct ListData : Data {
  std::vector<Value> items;
  std::string_view view_name;  ///< of a view: "dict_keys", "dict_values", "dict_items"
  bool is_group = false;       ///< of a tuple: made by groupby, has .grouper and .list
  bool hashable = false;       ///< whether all items are, found once since items may be shared
};

/// range(start, stop, step) with `length` elements.
struct RangeData : Data {
  Int start = 0, stop = 0, step = 1, length = 0;
  Value at(Int index) const { return Value::integer(start + index * step); }
};

/// Elements that go by once.
struct IteratorData : Data {
  std::vector<Value> items;
  size_t position = 0;
  std::optional<std::string> failure;  ///< raised by whoever asks for more than the items
};

/// Strict order over hashable values that agrees with Python's ==: numbers by value, strings by
/// bytes.
struct KeyLess {
  Runtime* runtime;
  bool operator()(const Value& a, const Value& b) const;
};

/// A mapping in order of insertion. Filled once through set(), read-only afterwards.
struct DictData : Data {
  explicit DictData(Runtime& runtime) : runtime_(&runtime) {}

  std::vector<std::pair<Value, Value>> entries;

  /// Adds an entry, or replaces the value of an equal key. The key must be hashable.
  void set(const Value& key, const Value& value);
  /// nullptr when there is no such key. The key must be hashable.
  const Value* find(const Value& key) const;
  /// The same for a string key.
  const Value* find(std::string_view key) const;

 private:
  size_t index_of(const Value& key) const;

  Runtime* runtime_;
  std::map<Value, size_t, KeyLess> index_{KeyLess{runtime_}};  ///< only used past a few entries
};

/// What is neither data nor a number: has attributes, may be called.
class ObjectData : public Data {
 public:
  virtual std::string_view type_name() const = 0;
  virtual std::string repr() { return std::string("<") + std::string(type_name()) + ">"; }
  virtual std::optional<Value> attribute(Runtime&, std::string_view) { return std::nullopt; }
  virtual bool callable() const { return false; }
  /// Only called when callable().
  virtual Value call(Runtime& runtime, const CallArgs& args);
};

/// namespace(): the one mutable value. Kept alive by the Runtime, because it may refer to itself.
class NamespaceData : public ObjectData {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  void set(Value name, Value value);

  std::vector<std::pair<Value, Value>> attributes;
};

/// Python's name for the type, e.g. "str" or "NoneType".
std::string_view type_name(const Value& value);

/// Python's bool(value).
bool truthy(const Value& value);
bool is_hashable(const Value& value);

/// Python's == between any two values; charges the work of comparing.
bool equal(Runtime& runtime, const Value& a, const Value& b);
/// Python's < ; throws where Python raises TypeError. `op` is the operator as written, for the
/// message.
bool less(Runtime& runtime, const Value& a, const Value& b, std::string_view op = "<");
/// -1, 0 or 1 for two numbers, exactly; NaN compares as unordered (2).
int compare_numbers(const Value& a, const Value& b);

}  // namespace minfer::jinja
