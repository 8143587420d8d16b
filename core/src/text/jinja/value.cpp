#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "text/jinja/runtime.h"

namespace minfer::jinja {

Value Value::boolean(bool b, Origin origin) {
  Value value(Kind::kBool);
  value.bool_ = b;
  value.origin_ = origin;
  return value;
}

Value Value::integer(Int i, Origin origin) {
  Value value(Kind::kInt);
  value.int_ = i;
  value.origin_ = origin;
  return value;
}

Value Value::floating(double d, Origin origin) {
  Value value(Kind::kFloat);
  value.double_ = d;
  value.origin_ = origin;
  return value;
}

double Value::as_double() const {
  return kind_ == Kind::kFloat ? double_ : static_cast<double>(as_int());
}

Origin Value::overall_origin() const {
  return is_string() ? text().overall_origin() : origin_;
}

const Text& Value::text() const {
  return static_cast<const StringData&>(*data_).text;
}
const std::vector<Value>& Value::items() const {
  return static_cast<const ListData&>(*data_).items;
}
const DictData& Value::dict() const {
  return static_cast<const DictData&>(*data_);
}
const RangeData& Value::range() const {
  return static_cast<const RangeData&>(*data_);
}

// The two kinds that change after they were made; everything else is shared as constant.
IteratorData& Value::iterator() const {
  return const_cast<IteratorData&>(static_cast<const IteratorData&>(*data_));
}
ObjectData& Value::object() const {
  return const_cast<ObjectData&>(static_cast<const ObjectData&>(*data_));
}

std::string_view undefined_message(const Value& value) {
  if (value.data() == nullptr) return "the value is undefined";
  return static_cast<const UndefinedData&>(*value.data()).message;
}

Value ObjectData::call(Runtime&, const CallArgs&) {
  fail_template("'" + std::string(type_name()) + "' object is not callable");
}

std::optional<Value> NamespaceData::attribute(Runtime&, std::string_view name) {
  for (const auto& [key, value] : attributes) {
    if (key.view() == name) return value;
  }
  return std::nullopt;
}

void NamespaceData::set(Value name, Value value) {
  for (auto& [key, old] : attributes) {
    if (key.view() == name.view()) {
      // The old value may be the last owner of much; it must not die while `old` is half written.
      std::swap(old, value);
      return;
    }
  }
  attributes.emplace_back(std::move(name), std::move(value));
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return static_cast<const ListData&>(*value.data()).view_name;
    case Kind::kIterator:
      return "generator";
    case Kind::kObject:
      return value.object().type_name();
  }
  return "object";
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0.0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kRange:
      return value.range().length != 0;
    case Kind::kIterator:
    case Kind::kObject:
      return true;
  }
  return true;
}

bool is_hashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
      return false;
    case Kind::kView:
      return static_cast<const ListData&>(*value.data()).view_name == "dict_values";
    case Kind::kTuple:
      return static_cast<const ListData&>(*value.data()).hashable;
    default:
      return true;
  }
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  }
  if (!a.is_integral() && !b.is_integral()) {
    const double x = a.as_double(), y = b.as_double();
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
  }
  if (!a.is_integral()) {
    const int mirrored = compare_numbers(b, a);
    return mirrored == 2 ? 2 : -mirrored;
  }
  // An int against a float: exact, where converting the int might round.
  const double d = b.as_double();
  if (std::isnan(d)) return 2;
  if (d >= 0x1p127) return -1;
  if (d < -0x1p127) return 1;
  const double whole = std::trunc(d);
  const Int i = a.as_int(), j = static_cast<Int>(whole);
  if (i != j) return i < j ? -1 : 1;
  return d > whole ? -1 : d < whole ? 1 : 0;
}

// ---------------------------------------------------------------------------------------------------
// Equality and order

namespace {

bool equal_items(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& x, const Value& y) { return equal(runtime, x, y); });
}

bool equal_dicts(Runtime& runtime, const DictData& a, const DictData& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(runtime, entry.second, *other);
  });
}

bool equal_ranges(const RangeData& a, const RangeData& b) {
  if (a.length != b.length) return false;
  return a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step));
}

/// Views of keys and items compare as sets.
bool equal_views(Runtime& runtime, const Value& a, const Value& b) {
  if (type_name(a) == "dict_values" || type_name(b) == "dict_values") return false;
  if (a.items().size() != b.items().size()) return false;
  return std::all_of(a.items().begin(), a.items().end(), [&](const Value& x) {
    return std::any_of(b.items().begin(), b.items().end(),
                       [&](const Value& y) { return equal(runtime, x, y); });
  });
}

}  // namespace

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.work();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.data() == b.data() && a.data() != nullptr) return true;
  switch (a.kind()) {
    case Kind::kString:
      if (a.text().size() != b.text().size()) return false;
      runtime.work_on(a.text().size());
      return a.view() == b.view();
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(runtime, a.items(), b.items());
    case Kind::kDict:
      return equal_dicts(runtime, a.dict(), b.dict());
    case Kind::kRange:
      return equal_ranges(a.range(), b.range());
    case Kind::kView:
      return equal_views(runtime, a, b);
    case Kind::kIterator:
      return false;
    case Kind::kObject: {
      const auto* x = a.object_as<NamespaceData>();
      return x != nullptr && x == b.object_as<NamespaceData>();
    }
    default:
      return true;  // none and undefined
  }
}

bool less(Runtime& runtime, const Value& a, const Value& b, std::string_view op) {
  runtime.work();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  if (a.is_string() && b.is_string()) {
    runtime.work_on(std::min(a.text().size(), b.text().size()));
    return a.view() < b.view();
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!equal(runtime, x[i], y[i])) return less(runtime, x[i], y[i], op);
    }
    return x.size() < y.size();
  }
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) fail_template(std::string(undefined_message(*side)));
  }
  fail_template("'" + std::string(op) + "' not supported between instances of '" +
                std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "'");
}

namespace {

int key_rank(const Value& value) {
  if (value.is_number()) return 0;
  return 1 + static_cast<int>(value.kind());
}

}  // namespace

bool KeyLess::operator()(const Value& a, const Value& b) const {
  if (runtime != nullptr) runtime->work();
  const int rank_a = key_rank(a), rank_b = key_rank(b);
  if (rank_a != rank_b) return rank_a < rank_b;
  switch (a.kind()) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat: {
      // NaN comes after every other number, so that the order stays strict.
      const auto is_nan = [](const Value& v) {
        return v.is(Kind::kFloat) && std::isnan(v.as_double());
      };
      if (is_nan(a) || is_nan(b)) return !is_nan(a);
      return compare_numbers(a, b) == -1;
    }
    case Kind::kString:
      return a.view() < b.view();
    case Kind::kTuple:
      return std::lexicographical_compare(a.items().begin(), a.items().end(), b.items().begin(),
                                          b.items().end(), *this);
    case Kind::kRange: {
      const RangeData &x = a.range(), &y = b.range();
      return std::tie(x.length, x.start, x.step) < std::tie(y.length, y.start, y.step);
    }
    case Kind::kNone:
    case Kind::kUndefined:
      return false;
    default:
      return a.data().get() < b.data().get();
  }
}

// ---------------------------------------------------------------------------------------------------
// Dictionaries

namespace {
constexpr size_t kLinearEntries = 8;
constexpr size_t kAbsent = std::numeric_limits<size_t>::max();
}  // namespace

size_t DictData::index_of(const Value& key) const {
  if (!is_hashable(key)) {
    fail_template("unhashable type: '" + std::string(type_name(key)) + "'");
  }
  if (entries.size() > kLinearEntries) {
    const auto found = index_.find(key);
    return found == index_.end() ? kAbsent : found->second;
  }
  const KeyLess before{runtime_};
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!before(entries[i].first, key) && !before(key, entries[i].first)) return i;
  }
  return kAbsent;
}

void DictData::set(const Value& key, const Value& value) {
  const size_t found = index_of(key);
  if (found != kAbsent) {
    entries[found].second = value;
    return;
  }
  entries.emplace_back(key, value);
  if (entries.size() == kLinearEntries + 1) {
    for (size_t i = 0; i < entries.size(); ++i) index_.emplace(entries[i].first, i);
  } else if (entries.size() > kLinearEntries) {
    index_.emplace(key, entries.size() - 1);
  }
}

const Value* DictData::find(const Value& key) const {
  const size_t found = index_of(key);
  return found == kAbsent ? nullptr : &entries[found].second;
}

const Value* DictData::find(std::string_view key) const {
  if (entries.size() > kLinearEntries) {
    auto data = std::make_shared<StringData>();
    data->text.append(key, Origin::kTemplate);
    return find(Value(Kind::kString, std::move(data)));
  }
  for (const auto& [name, value] : entries) {
    if (name.is_string() && name.view() == key) return &value;
  }
  return nullptr;
}

}  // namespace minfer::jinja
