// Filters that apply other filters and tests to each element: map, select and their kin.
#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"

namespace minfer::jinja {

namespace {

/// The arguments from index `from` on.
CallArgs rest_of(const CallArgs& args, size_t from) {
  CallArgs rest;
  rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(from),
                         args.positional.end());
  rest.named = args.named;
  return rest;
}

std::string name_argument(const Value& name, std::string_view filter) {
  if (!name.is_string()) fail_template(std::string(filter) + " needs the name of a filter or test");
  return std::string(name.view());
}

void map_attribute(Runtime& rt, const Value& input, const CallArgs& args,
                   std::vector<Value>& mapped) {
  const BoundArgs bound("map", args, {"attribute", "default"}, 1);
  for (const Value& item : to_vector(rt, input)) {
    Value value = get_path(rt, item, bound[0]);
    if (value.is_undefined() && !bound.none_or_absent(1)) value = bound[1];
    mapped.push_back(std::move(value));
  }
}

Value map(Runtime& rt, const Value& input, const CallArgs& args) {
  return rt.generate([&](std::vector<Value>& mapped) {
    if (!truthy(input)) return;
    const bool by_attribute = args.positional.empty() &&
                              std::any_of(args.named.begin(), args.named.end(),
                                          [](const auto& a) { return a.first == "attribute"; });
    if (by_attribute) return map_attribute(rt, input, args, mapped);
    if (args.positional.empty()) fail_template("map requires the name of a filter, or attribute=");
    const std::string name = name_argument(args.positional[0], "map");
    const CallArgs rest = rest_of(args, 1);
    for (const Value& item : to_vector(rt, input)) {
      rt.work();
      mapped.push_back(apply_filter(rt, name, item, rest));
    }
  });
}

Value choose(Runtime& rt, const Value& input, const CallArgs& args, bool by_attribute,
             bool wanted) {
  return rt.generate([&](std::vector<Value>& chosen) {
    if (!truthy(input)) return;
    const size_t test_index = by_attribute ? 1 : 0;
    if (by_attribute && args.positional.empty()) fail_template("missing the name of an attribute");
    const bool has_test = args.positional.size() > test_index;
    const std::string test = has_test ? name_argument(args.positional[test_index], "select") : "";
    const CallArgs rest = has_test ? rest_of(args, test_index + 1) : CallArgs{};
    for (Value& item : to_vector(rt, input)) {
      rt.work();
      const Value tested = by_attribute ? get_path(rt, item, args.positional[0]) : item;
      const bool passes = has_test ? apply_test(rt, test, tested, rest) : truthy(tested);
      if (passes == wanted) chosen.push_back(std::move(item));
    }
  });
}

Value select(Runtime& rt, const Value& input, const CallArgs& args) {
  return choose(rt, input, args, false, true);
}
Value reject(Runtime& rt, const Value& input, const CallArgs& args) {
  return choose(rt, input, args, false, false);
}
Value selectattr(Runtime& rt, const Value& input, const CallArgs& args) {
  return choose(rt, input, args, true, true);
}
Value rejectattr(Runtime& rt, const Value& input, const CallArgs& args) {
  return choose(rt, input, args, true, false);
}

constexpr Named<FilterFn> kFilters[] = {
    {"map", map},       {"reject", reject},         {"rejectattr", rejectattr},
    {"select", select}, {"selectattr", selectattr},
};

}  // namespace

std::span<const Named<FilterFn>> selection_filters() {
  return kFilters;
}

}  // namespace minfer::jinja
