#include "text/jinja/access.h"

#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/functions.h"
#include "text/jinja/number_text.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

std::string repr_of(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  append_repr(runtime, out, value);
  return std::string(out.text().view());
}

std::string described(const Value& value) {
  return value.is_none() ? "None" : std::string(type_name(value)) + " object";
}

Value no_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  return runtime.undefined("'" + described(value) + "' has no attribute '" + std::string(name) +
                           "'");
}

/// Methods that would change their object: the reference runs templates in a sandbox that forbids
/// them.
bool is_mutator(const Value& value, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kOfLists = {
      "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 5> kOfDicts = {"clear", "pop", "popitem",
                                                               "setdefault", "update"};
  if (value.is(Kind::kList))
    return std::find(kOfLists.begin(), kOfLists.end(), name) != kOfLists.end();
  return value.is(Kind::kDict) &&
         std::find(kOfDicts.begin(), kOfDicts.end(), name) != kOfDicts.end();
}

/// getattr(value, name), or nothing when there is no such attribute.
std::optional<Value> own_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (is_mutator(value, name)) {
    return runtime.undefined(
        "access to attribute '" + std::string(name) + "' of '" + std::string(type_name(value)) +
        "' object is unsafe: templates may not change lists and dicts; build a "
        "new one, or use a namespace");
  }
  if (const MethodFn method = find_method(value, name)) {
    return make_method(runtime, value, name, method);
  }
  if (value.is(Kind::kObject)) return value.object().attribute(runtime, name);
  if (value.is(Kind::kTuple) && static_cast<const ListData&>(*value.data()).is_group) {
    if (name == "grouper") return value.items()[0];
    if (name == "list") return value.items()[1];
  }
  if (value.is(Kind::kRange)) {
    const RangeData& range = value.range();
    if (name == "start") return Value::integer(range.start);
    if (name == "stop") return Value::integer(range.stop);
    if (name == "step") return Value::integer(range.step);
  }
  return std::nullopt;
}

/// The index from the front that `index` means in a sequence of `length`; nothing when it is
/// outside.
std::optional<size_t> settle_index(Int index, Int length) {
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<size_t>(index);
}

/// value[index], or nothing where Python raises TypeError, IndexError or KeyError.
std::optional<Value> own_item(Runtime& runtime, const Value& value, const Value& index) {
  if (value.is(Kind::kDict)) {
    if (!is_hashable(index)) return std::nullopt;
    const Value* found = value.dict().find(index);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (!index.is_integral()) return std::nullopt;
  const Int position = index.as_int();
  if (value.is_sequence()) {
    const auto at = settle_index(position, static_cast<Int>(value.items().size()));
    return at ? std::optional<Value>(value.items()[*at]) : std::nullopt;
  }
  if (value.is(Kind::kRange)) {
    const auto at = settle_index(position, value.range().length);
    return at ? std::optional<Value>(value.range().at(static_cast<Int>(*at))) : std::nullopt;
  }
  if (value.is_string()) {
    const std::string_view text = value.view();
    runtime.work_on(text.size());
    const auto at = settle_index(position, static_cast<Int>(count_chars(text)));
    if (!at) return std::nullopt;
    const size_t begin = char_offset(text, *at);
    return runtime.string(value.text().substr(begin, begin + decode_char(text, begin).size));
  }
  return std::nullopt;
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) fail_template(std::string(undefined_message(value)));
  if (auto attribute = own_attribute(runtime, value, name)) return std::move(*attribute);
  if (value.is(Kind::kDict)) {
    if (const Value* item = value.dict().find(name)) return *item;
  }
  return no_attribute(runtime, value, name);
}

Value get_item(Runtime& runtime, const Value& value, const Value& index) {
  if (value.is_undefined()) fail_template(std::string(undefined_message(value)));
  if (auto item = own_item(runtime, value, index)) return std::move(*item);
  if (index.is_string()) {
    if (auto attribute = own_attribute(runtime, value, index.view())) return std::move(*attribute);
    return no_attribute(runtime, value, index.view());
  }
  return runtime.undefined(described(value) + " has no element " + repr_of(runtime, index));
}

// ---------------------------------------------------------------------------------------------------
// Slices

namespace {

/// A bound as Python clips it: negative ones count from the end, the rest stays within [low, high].
Int settle_bound(const Value& bound, Int fallback, Int length, Int low, Int high) {
  if (bound.is_undefined() || bound.is_none()) return fallback;
  if (!bound.is_integral()) fail_template("slice indices must be integers or none");
  Int index = bound.as_int();
  if (index < 0) index = index < -length ? low : index + length;
  return std::clamp(index, low, high);
}

}  // namespace

SliceRange settle_slice(const Value& start, const Value& stop, const Value& step, Int length) {
  Int stride = 1;
  if (!step.is_undefined() && !step.is_none()) {
    if (!step.is_integral()) fail_template("slice indices must be integers or none");
    stride = step.as_int();
    if (stride == 0) fail_template("slice step cannot be zero");
    // A longer stride than the sequence visits one element; clipping it keeps the sums small.
    stride = std::clamp<Int>(stride, -length - 1, length + 1);
  }
  if (stride > 0) {
    const Int from = settle_bound(start, 0, length, 0, length);
    const Int to = settle_bound(stop, length, length, 0, length);
    return {from, to, stride, from < to ? (to - from - 1) / stride + 1 : 0};
  }
  const Int from = settle_bound(start, length - 1, length, -1, length - 1);
  const Int to = settle_bound(stop, -1, length, -1, length - 1);
  return {from, to, stride, from > to ? (from - to - 1) / -stride + 1 : 0};
}

namespace {

Value slice_string(Runtime& runtime, const Text& text, const Value& start, const Value& stop,
                   const Value& step) {
  const std::string_view bytes = text.view();
  runtime.work_on(bytes.size());
  const SliceRange slice = settle_slice(start, stop, step, static_cast<Int>(count_chars(bytes)));
  if (slice.count == 0) return runtime.string(Text());
  const size_t begin = char_offset(bytes, static_cast<size_t>(slice.start));
  TextBuilder out(runtime);
  if (slice.step == 1) {
    const size_t bytes_long = char_offset(bytes.substr(begin), static_cast<size_t>(slice.count));
    out.append(text, begin, begin + bytes_long);
    return out.finish();
  }
  size_t at = begin;
  for (Int taken = 0; taken < slice.count; ++taken) {
    runtime.work();
    out.append(text, at, at + decode_char(bytes, at).size);
    if (taken + 1 == slice.count) break;
    for (Int i = 0; i < slice.step; ++i) at += decode_char(bytes, at).size;
    for (Int i = 0; i > slice.step; --i) at = previous_char(bytes, at);
  }
  return out.finish();
}

}  // namespace

/// Slicing slices of ranges multiplies their steps, which must stay far from overflowing.
constexpr Int kLongestStep = Int{1} << 80;

Value get_slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
                const Value& step) {
  if (value.is_undefined()) fail_template(std::string(undefined_message(value)));
  for (const Value* bound : {&start, &stop, &step}) {
    if (bound->is_undefined() && bound->data() != nullptr) {
      fail_template("slice indices must be integers or none, not undefined");
    }
  }
  if (value.is_string()) return slice_string(runtime, value.text(), start, stop, step);
  if (value.is_sequence()) {
    const std::vector<Value>& all = value.items();
    const SliceRange slice = settle_slice(start, stop, step, static_cast<Int>(all.size()));
    runtime.need_room(static_cast<uint64_t>(slice.count) * sizeof(Value));
    std::vector<Value> items;
    items.reserve(static_cast<size_t>(slice.count));
    for (Int i = 0; i < slice.count; ++i) {
      items.push_back(all[static_cast<size_t>(slice.start + i * slice.step)]);
    }
    return value.is(Kind::kList) ? runtime.list(std::move(items), value.origin())
                                 : runtime.tuple(std::move(items), value.origin());
  }
  if (value.is(Kind::kRange)) {
    const RangeData& range = value.range();
    const SliceRange slice = settle_slice(start, stop, step, range.length);
    if (range.step > kLongestStep || range.step < -kLongestStep)
      fail_template("range step too large");
    return runtime.range(range.start + slice.start * range.step,
                         range.start + slice.stop * range.step, slice.step * range.step);
  }
  fail_template("'" + std::string(type_name(value)) + "' object cannot be sliced");
}

Value get_path(Runtime& runtime, const Value& value, const Value& path) {
  if (path.is_none()) return value;
  if (!path.is_string()) return get_item(runtime, value, path);
  Value current = value;
  std::string_view rest = path.view();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    const auto number = is_number ? parse_integer(part, 10) : std::nullopt;
    current = get_item(runtime, current, number ? Value::integer(*number) : runtime.string(part));
    if (dot == std::string_view::npos) return current;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace minfer::jinja
