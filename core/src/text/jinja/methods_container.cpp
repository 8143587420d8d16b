// Methods of list, tuple, range and dict. Those that would change their object are refused in
// access.cpp.
#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/iteration.h"

namespace minfer::jinja {

namespace {

Value index(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("index", args, {"value", "start", "stop"}, 1);
  const std::vector<Value> items = to_vector(rt, self);
  const SliceRange slice =
      settle_slice(bound.has(1) ? bound[1] : Value::none(), bound.has(2) ? bound[2] : Value::none(),
                   Value::none(), static_cast<Int>(items.size()));
  for (Int i = slice.start; i < slice.start + slice.count; ++i) {
    if (equal(rt, items[static_cast<size_t>(i)], bound[0])) return Value::integer(i);
  }
  fail_template("the value is not in the " + std::string(type_name(self)));
}

Value count(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("count", args, {"value"}, 1);
  Int matches = 0;
  for (const Value& item : to_vector(rt, self)) matches += equal(rt, item, bound[0]) ? 1 : 0;
  return Value::integer(matches);
}

Value copy_list(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("copy", args, {});
  if (!self.is(Kind::kList)) {
    fail_template("'" + std::string(type_name(self)) + "' object has no attribute 'copy'");
  }
  return rt.list(self.items(), self.origin());
}

constexpr Named<MethodFn> kListMethods[] = {
    {"copy", copy_list}, {"count", count}, {"index", index}};

// ---------------------------------------------------------------------------------------------------

Value keys(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("keys", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries) items.push_back(key);
  return rt.view("dict_keys", std::move(items), self.origin());
}

Value values(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("values", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries) items.push_back(value);
  return rt.view("dict_values", std::move(items), self.origin());
}

Value items(Runtime& rt, const Value& self, const CallArgs& args) {
  const BoundArgs bound("items", args, {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict().entries) {
    pairs.push_back(rt.tuple({key, value}, self.origin()));
  }
  return rt.view("dict_items", std::move(pairs), self.origin());
}

Value get(Runtime&, const Value& self, const CallArgs& args) {
  const BoundArgs bound("get", args, {"key", "default"}, 1);
  const Value* found = self.dict().find(bound[0]);
  if (found != nullptr) return *found;
  return bound.has(1) ? bound[1] : Value::none();
}

Value copy_dict(Runtime&, const Value& self, const CallArgs& args) {
  const BoundArgs bound("copy", args, {});
  return self;  // dicts never change, so that a copy cannot be told from the original
}

constexpr Named<MethodFn> kDictMethods[] = {
    {"copy", copy_dict}, {"get", get}, {"items", items}, {"keys", keys}, {"values", values},
};

}  // namespace

std::span<const Named<MethodFn>> list_methods() {
  return kListMethods;
}
std::span<const Named<MethodFn>> dict_methods() {
  return kDictMethods;
}

}  // namespace minfer::jinja
