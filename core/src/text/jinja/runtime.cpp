#include "text/jinja/runtime.h"

#include <algorithm>

namespace minfer::jinja {

namespace {

/// Rough bytes of an object beyond its elements: control block, vtable, vectors.
constexpr uint64_t kObjectBytes = 112;

void note_nesting(Data& data, const Value& inside) {
  data.nesting = std::max(data.nesting, inside.nesting() + 1);
  if (data.nesting > kMaxNesting) {
    fail_template("values nested deeper than " + std::to_string(kMaxNesting) + " levels");
  }
}

}  // namespace

Runtime::~Runtime() {
  // Namespaces may refer to each other in circles and chains: all are alive here, so that emptying
  // one never recurses into the next.
  for (const auto& data : namespaces_) data->attributes.clear();
}

Runtime::Nested::Nested(Runtime& runtime) : runtime_(runtime) {
  if (runtime_.depth_ >= runtime_.max_depth_) {
    fail_template("calls, blocks and expressions nested deeper than " +
                  std::to_string(runtime_.max_depth_) + " levels");
  }
  ++runtime_.depth_;
}

Value Runtime::string(Text text, bool markup) {
  auto data = std::make_shared<StringData>();
  data->charge.take(budget_, kObjectBytes + text.size());
  data->text = std::move(text);
  data->markup = markup;
  return Value(Kind::kString, std::move(data));
}

Value Runtime::string(std::string_view bytes, Origin origin) {
  return string(Text(bytes, origin));
}

Value Runtime::sequence(Kind kind, std::vector<Value> items, Origin origin,
                        std::string_view view_name) {
  work(1 + items.size() / 8);
  auto data = std::make_shared<ListData>();
  data->charge.take(budget_, kObjectBytes + items.size() * sizeof(Value));
  for (const Value& item : items) note_nesting(*data, item);
  data->hashable = std::all_of(items.begin(), items.end(), is_hashable);
  data->items = std::move(items);
  data->view_name = view_name;
  return Value(kind, std::move(data), origin);
}

Value Runtime::list(std::vector<Value> items, Origin origin) {
  return sequence(Kind::kList, std::move(items), origin, {});
}

Value Runtime::tuple(std::vector<Value> items, Origin origin) {
  return sequence(Kind::kTuple, std::move(items), origin, {});
}

Value Runtime::view(std::string_view name, std::vector<Value> items, Origin origin) {
  return sequence(Kind::kView, std::move(items), origin, name);
}

Value Runtime::iterator(std::vector<Value> items, std::optional<std::string> failure) {
  work(1 + items.size() / 8);
  auto data = std::make_shared<IteratorData>();
  data->charge.take(budget_, kObjectBytes + items.size() * sizeof(Value));
  for (const Value& item : items) note_nesting(*data, item);
  data->items = std::move(items);
  data->failure = std::move(failure);
  return Value(Kind::kIterator, std::move(data));
}

Value Runtime::group(Value key, Value items) {
  auto data = std::make_shared<ListData>();
  data->charge.take(budget_, kObjectBytes + 2 * sizeof(Value));
  data->items = {std::move(key), std::move(items)};
  for (const Value& item : data->items) note_nesting(*data, item);
  data->is_group = true;
  data->hashable = false;  // the second item is a list
  return Value(Kind::kTuple, std::move(data));
}

Value Runtime::range(Int start, Int stop, Int step) {
  auto data = std::make_shared<RangeData>();
  data->charge.take(budget_, kObjectBytes);
  data->start = start;
  data->stop = stop;
  data->step = step;
  if (step > 0 && start < stop) data->length = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) data->length = (start - stop - 1) / -step + 1;
  return Value(Kind::kRange, std::move(data));
}

Value Runtime::dict(std::shared_ptr<DictData> data, Origin origin) {
  const size_t entries = data->entries.size();
  work(1 + entries / 8);
  data->charge.take(budget_, kObjectBytes + entries * (2 * sizeof(Value) + kObjectBytes));
  for (const auto& [key, value] : data->entries) {
    note_nesting(*data, key);
    note_nesting(*data, value);
  }
  return Value(Kind::kDict, std::move(data), origin);
}

Value Runtime::undefined(std::string message) {
  auto data = std::make_shared<UndefinedData>();
  data->charge.take(budget_, kObjectBytes + message.size());
  data->message = std::move(message);
  return Value(Kind::kUndefined, std::move(data));
}

Value Runtime::object(std::shared_ptr<ObjectData> data) {
  data->charge.take(budget_, kObjectBytes);
  return Value(Kind::kObject, std::move(data));
}

Value Runtime::new_namespace(std::vector<std::pair<Value, Value>> attributes) {
  auto data = std::make_shared<NamespaceData>();
  data->charge.take(budget_, kObjectBytes + attributes.size() * 2 * sizeof(Value));
  data->attributes = std::move(attributes);
  namespaces_.push_back(data);
  return Value(Kind::kObject, std::move(data));
}

void TextBuilder::repeat(const Text& other, Int count) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 62, kBlockBytes = 4096;
  if (count <= 0 || other.empty()) return;
  if (count > static_cast<Int>(kMostBytes / other.size())) runtime_.need_room(UINT64_MAX);
  auto copies = static_cast<uint64_t>(count);
  runtime_.need_room(copies * other.size());
  // Short texts are repeated in blocks.
  Text block = other;
  uint64_t in_block = 1;
  while (in_block * 2 <= copies && block.size() * 2 <= kBlockBytes) {
    block.append(Text(block));
    in_block *= 2;
  }
  for (; copies >= in_block; copies -= in_block) append(block);
  append(block, 0, static_cast<size_t>(copies) * other.size());
}

Value TextBuilder::finish(bool markup) {
  runtime_.work_on(text_.size());
  charge_.release();
  return runtime_.string(std::exchange(text_, Text()), markup);
}

// ---------------------------------------------------------------------------------------------------
// Arguments

BoundArgs::BoundArgs(std::string_view function, const CallArgs& args,
                     std::initializer_list<std::string_view> names, size_t required)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  const std::string call = std::string(function) + "()";
  if (args.positional.size() > names_.size()) {
    fail_template(call + " takes at most " + std::to_string(names_.size()) + " arguments, got " +
                  std::to_string(args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      fail_template(call + " has no parameter '" + name + "'");
    }
    const Value*& slot = values_[static_cast<size_t>(found - names_.begin())];
    if (slot != nullptr) fail_template(call + " got two values for '" + name + "'");
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      fail_template(call + " needs its argument '" + std::string(names_[i]) + "'");
    }
  }
}

Int BoundArgs::integer_or(size_t index, Int fallback) const {
  if (!has(index)) return fallback;
  if (!(*this)[index].is_integral()) {
    fail_template(std::string(function_) + "() needs an integer for '" +
                  std::string(names_[index]) + "', got " + std::string(type_name((*this)[index])));
  }
  return (*this)[index].as_int();
}

const Text& BoundArgs::text(size_t index) const {
  if (!has(index) || !(*this)[index].is_string()) {
    fail_template(std::string(function_) + "() needs a string for '" + std::string(names_[index]) +
                  "', got " + std::string(has(index) ? type_name((*this)[index]) : "nothing"));
  }
  return (*this)[index].text();
}

}  // namespace minfer::jinja
