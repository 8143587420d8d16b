#include "text/jinja/iteration.h"

#include "text/jinja/search.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

Iteration::Iteration(Runtime& runtime, Value iterable)
    : runtime_(&runtime), source_(std::move(iterable)) {
  if (!is_iterable(source_)) {
    fail_template("'" + std::string(type_name(source_)) + "' object is not iterable");
  }
}

std::optional<Value> Iteration::next() {
  runtime_->work();
  switch (source_.kind()) {
    case Kind::kString: {
      const Text& text = source_.text();
      if (position_ >= text.size()) return std::nullopt;
      const size_t begin = position_;
      position_ += decode_char(text.view(), begin).size;
      return runtime_->string(text.substr(begin, position_));
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      if (position_ >= source_.items().size()) return std::nullopt;
      return source_.items()[position_++];
    case Kind::kDict:
      if (position_ >= source_.dict().entries.size()) return std::nullopt;
      return source_.dict().entries[position_++].first;
    case Kind::kRange:
      if (static_cast<Int>(position_) >= source_.range().length) return std::nullopt;
      return source_.range().at(static_cast<Int>(position_++));
    case Kind::kIterator: {
      IteratorData& data = source_.iterator();
      if (data.position < data.items.size()) return data.items[data.position++];
      if (data.failure) fail_template(*data.failure);
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<size_t> Iteration::known_length() const {
  if (source_.is(Kind::kIterator)) return std::nullopt;
  return length_of(*runtime_, source_);
}

std::vector<Value> to_vector(Runtime& runtime, const Value& iterable) {
  if (iterable.is_sequence() || iterable.is(Kind::kView)) {
    runtime.work(iterable.items().size() / 8);
    runtime.need_room(iterable.items().size() * sizeof(Value));
    return iterable.items();
  }
  std::vector<Value> items;
  Iteration walk(runtime, iterable);
  while (auto item = walk.next()) items.push_back(std::move(*item));
  return items;
}

size_t length_of(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      runtime.work_on(value.text().size());
      return count_chars(value.view());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return value.items().size();
    case Kind::kDict:
      return value.dict().entries.size();
    case Kind::kRange:
      return static_cast<size_t>(value.range().length);
    default:
      fail_template("object of type '" + std::string(type_name(value)) + "' has no len()");
  }
}

namespace {

bool range_contains(const RangeData& range, const Value& item) {
  if (!item.is_number() || range.length == 0) return false;
  const Value low = range.step > 0 ? range.at(0) : range.at(range.length - 1);
  const Value high = range.step > 0 ? range.at(range.length - 1) : range.at(0);
  if (compare_numbers(low, item) == 1 || compare_numbers(item, high) != -1) {
    return compare_numbers(item, high) == 0;
  }
  const Int whole = item.is_integral() ? item.as_int() : static_cast<Int>(item.as_double());
  return compare_numbers(Value::integer(whole), item) == 0 &&
         (whole - range.start) % range.step == 0;
}

}  // namespace

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        fail_template("'in <string>' requires string as left operand, not " +
                      std::string(type_name(item)));
      }
      return find_text(runtime, container.view(), item.view(), 0) != kNotFound;
    case Kind::kDict:
      return container.dict().find(item) != nullptr;
    case Kind::kRange:
      return range_contains(container.range(), item);
    default:
      break;
  }
  if (!is_iterable(container)) {
    fail_template("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
  Iteration walk(runtime, container);
  while (const auto element = walk.next()) {
    if (equal(runtime, *element, item)) return true;
  }
  return false;
}

}  // namespace minfer::jinja
