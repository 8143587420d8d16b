// Filters on sequences and mappings as a whole.
#include <algorithm>
#include <set>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace minfer::jinja {

namespace {

/// Strings in lower case, everything else as it is: how case-insensitive filters compare.
Value fold_case(Runtime& rt, const Value& value) {
  return value.is_string() ? lower_case(rt, value.text()) : value;
}

/// The key that a filter with an `attribute` argument sorts or compares by.
Value sort_key(Runtime& rt, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = attribute == nullptr ? item : get_path(rt, item, *attribute);
  return case_sensitive ? key : fold_case(rt, key);
}

const Value* attribute_of(const BoundArgs& bound, size_t index) {
  return bound.none_or_absent(index) ? nullptr : &bound[index];
}

struct Keyed {
  Value key, item;
};

void sort_by_key(Runtime& rt, std::vector<Keyed>& items, bool reverse) {
  // Equal elements keep their order in either direction.
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(rt, b.key, a.key) : less(rt, a.key, b.key);
  });
}

Value take_items(Runtime& rt, std::vector<Keyed> keyed, Origin origin) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return rt.list(std::move(items), origin);
}

// ---------------------------------------------------------------------------------------------------
// Size and ends

Value length(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("length", args, {});
  return Value::integer(static_cast<Int>(length_of(rt, input)));
}

Value first(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("first", args, {});
  auto item = Iteration(rt, input).next();
  return item ? std::move(*item) : rt.undefined("No first item, sequence was empty.");
}

/// What reversed() accepts: sequences, mappings and their views, but not iterators.
void check_reversible(const Value& value) {
  if (is_iterable(value) && !value.is(Kind::kIterator)) return;
  fail_template("'" + std::string(type_name(value)) + "' object is not reversible");
}

Value last(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("last", args, {});
  check_reversible(input);
  if (input.is_string()) {
    const Text& text = input.text();
    if (text.empty()) return rt.undefined("No last item, sequence was empty.");
    return rt.string(text.substr(previous_char(text.view(), text.size()), text.size()));
  }
  const std::vector<Value> items = to_vector(rt, input);
  return items.empty() ? rt.undefined("No last item, sequence was empty.") : items.back();
}

Value list(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("list", args, {});
  return rt.list(to_vector(rt, input), input.origin());
}

Value reverse(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("reverse", args, {});
  if (input.is_string()) {
    return get_slice(rt, input, Value(), Value(), Value::integer(-1));
  }
  std::vector<Value> items = to_vector(rt, input);
  std::reverse(items.begin(), items.end());
  return input.is(Kind::kIterator) ? rt.list(std::move(items)) : rt.iterator(std::move(items));
}

Value join(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("join", args, {"d", "attribute"});
  const Value separator = bound.has(0) ? to_string(rt, bound[0]) : rt.string(Text());
  const Value* attribute = attribute_of(bound, 1);
  std::vector<Value> items = to_vector(rt, input);
  for (Value& item : items) {
    if (attribute != nullptr) item = get_path(rt, item, *attribute);
    item = to_string(rt, item);
  }
  return join_texts(rt, separator.text(), items);
}

// ---------------------------------------------------------------------------------------------------
// Order

Value sort(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound.truthy_or(1, false);
  const Value* attribute = attribute_of(bound, 2);
  // "a,b" sorts by several attributes, so that the key is always a list of them.
  std::vector<Value> paths;
  if (attribute != nullptr && attribute->is_string()) {
    std::string_view rest = attribute->view();
    for (size_t comma = rest.find(','); comma != std::string_view::npos; comma = rest.find(',')) {
      paths.push_back(rt.string(rest.substr(0, comma)));
      rest.remove_prefix(comma + 1);
    }
    paths.push_back(rt.string(rest));
  } else if (attribute != nullptr) {
    paths.push_back(*attribute);
  }
  std::vector<Keyed> keyed;
  for (Value& item : to_vector(rt, input)) {
    std::vector<Value> key;
    for (const Value& path : paths) key.push_back(sort_key(rt, item, &path, case_sensitive));
    if (paths.empty()) key.push_back(sort_key(rt, item, nullptr, case_sensitive));
    keyed.push_back({rt.list(std::move(key)), std::move(item)});
  }
  sort_by_key(rt, keyed, bound.truthy_or(0, false));
  return take_items(rt, std::move(keyed), input.origin());
}

Value unique(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("unique", args, {"case_sensitive", "attribute"});
  const bool case_sensitive = bound.truthy_or(0, false);
  const Value* attribute = attribute_of(bound, 1);
  return rt.generate([&](std::vector<Value>& items) {
    std::set<Value, KeyLess> seen(KeyLess{&rt});
    for (Value& item : to_vector(rt, input)) {
      const Value key = sort_key(rt, item, attribute, case_sensitive);
      if (!is_hashable(key))
        fail_template("unhashable type: '" + std::string(type_name(key)) + "'");
      if (seen.insert(key).second) items.push_back(std::move(item));
    }
  });
}

Value extreme(Runtime& rt, const Value& input, const CallArgs& args, bool largest) {
  const BoundArgs bound(largest ? "max" : "min", args, {"case_sensitive", "attribute"});
  const bool case_sensitive = bound.truthy_or(0, false);
  const Value* attribute = attribute_of(bound, 1);
  std::optional<Keyed> best;
  for (Value& item : to_vector(rt, input)) {
    Value key = sort_key(rt, item, attribute, case_sensitive);
    const bool better =
        !best || (largest ? less(rt, best->key, key, ">") : less(rt, key, best->key));
    if (better) best = Keyed{std::move(key), std::move(item)};
  }
  return best ? best->item : rt.undefined("No aggregated item, sequence was empty.");
}

Value min(Runtime& rt, const Value& input, const CallArgs& args) {
  return extreme(rt, input, args, false);
}

Value max(Runtime& rt, const Value& input, const CallArgs& args) {
  return extreme(rt, input, args, true);
}

Value sum(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("sum", args, {"attribute", "start"});
  const Value* attribute = attribute_of(bound, 0);
  Value total = bound.has(1) ? bound[1] : Value::integer(0);
  if (total.is_string()) fail_template("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : to_vector(rt, input)) {
    total = arithmetic(rt, Operator::kAdd, total,
                       attribute == nullptr ? item : get_path(rt, item, *attribute));
  }
  return total;
}

Value dictsort(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const bool case_sensitive = bound.truthy_or(0, false);
  const std::string_view by = bound.has(1) && bound[1].is_string() ? bound[1].view() : "key";
  if (by != "key" && by != "value") {
    fail_template("dictsort can only sort by either \"key\" or \"value\"");
  }
  if (input.is_undefined()) fail_template(std::string(undefined_message(input)));
  if (!input.is(Kind::kDict)) {
    fail_template("dictsort needs a mapping, got " + std::string(type_name(input)));
  }
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : input.dict().entries) {
    const Value& part = by == "key" ? key : value;
    keyed.push_back(
        {case_sensitive ? part : fold_case(rt, part), rt.tuple({key, value}, input.origin())});
  }
  sort_by_key(rt, keyed, bound.truthy_or(2, false));
  return take_items(rt, std::move(keyed), input.origin());
}

Value items(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("items", args, {});
  return rt.generate([&](std::vector<Value>& pairs) {
    if (input.is_undefined()) return;
    if (!input.is(Kind::kDict)) fail_template("Can only get item pairs from a mapping.");
    for (const auto& [key, value] : input.dict().entries) {
      pairs.push_back(rt.tuple({key, value}, input.origin()));
    }
  });
}

// ---------------------------------------------------------------------------------------------------
// Grouping

Value batch(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("batch", args, {"linecount", "fill_with"}, 1);
  return rt.generate([&](std::vector<Value>& rows) {
    const Int size = bound.integer_or(0, 1);
    std::vector<Value> row;
    const auto flush = [&] { rows.push_back(rt.list(std::exchange(row, {}))); };
    for (Value& item : to_vector(rt, input)) {
      if (static_cast<Int>(row.size()) == size) flush();
      row.push_back(std::move(item));
    }
    if (row.empty()) return;
    const Int missing = size - static_cast<Int>(row.size());
    if (!bound.none_or_absent(1) && missing > 0) {
      rt.need_room(static_cast<uint64_t>(std::min(missing, Int{1} << 48)) * sizeof(Value));
      row.insert(row.end(), static_cast<size_t>(missing), bound[1]);
    }
    flush();
  });
}

Value slice(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("slice", args, {"slices", "fill_with"}, 1);
  return rt.generate([&](std::vector<Value>& columns) {
    const Int slices = bound.integer_or(0, 1);
    const std::vector<Value> all = to_vector(rt, input);
    if (slices == 0) fail_template("slice: division by zero");
    const Int count = static_cast<Int>(all.size());
    const Int each = slices > 0 ? count / slices : 0, extra = slices > 0 ? count % slices : 0;
    Int begin = 0;
    for (Int i = 0; i < slices; ++i) {
      const Int end = begin + each + (i < extra ? 1 : 0);
      std::vector<Value> column(all.begin() + static_cast<ptrdiff_t>(begin),
                                all.begin() + static_cast<ptrdiff_t>(end));
      if (!bound.none_or_absent(1) && i >= extra) column.push_back(bound[1]);
      columns.push_back(rt.list(std::move(column)));
      begin = end;
    }
  });
}

Value groupby(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.truthy_or(2, false);
  const auto value_of = [&](const Value& item) {
    Value value = get_path(rt, item, bound[0]);
    return value.is_undefined() && !bound.none_or_absent(1) ? bound[1] : value;
  };
  std::vector<Keyed> keyed;
  for (Value& item : to_vector(rt, input)) {
    Value key = value_of(item);
    keyed.push_back({case_sensitive ? key : fold_case(rt, key), std::move(item)});
  }
  sort_by_key(rt, keyed, false);
  std::vector<Value> groups;
  for (size_t begin = 0, end; begin < keyed.size(); begin = end) {
    std::vector<Value> members;
    for (end = begin; end < keyed.size() && equal(rt, keyed[end].key, keyed[begin].key); ++end) {
      members.push_back(keyed[end].item);
    }
    // The key shown is the first member's own, not its lower case.
    if (members.empty()) break;
    Value shown = value_of(members.front());
    groups.push_back(rt.group(std::move(shown), rt.list(std::move(members))));
  }
  return rt.list(std::move(groups));
}

constexpr Named<FilterFn> kFilters[] = {
    {"batch", batch},     {"count", length}, {"dictsort", dictsort}, {"first", first},
    {"groupby", groupby}, {"items", items},  {"join", join},         {"last", last},
    {"length", length},   {"list", list},    {"max", max},           {"min", min},
    {"reverse", reverse}, {"slice", slice},  {"sort", sort},         {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const Named<FilterFn>> sequence_filters() {
  return kFilters;
}

}  // namespace minfer::jinja
