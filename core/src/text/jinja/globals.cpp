// Global functions: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#include <array>
#include <ctime>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/functions.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"

namespace minfer::jinja {

namespace {

constexpr Int kMaxRange = 100'000;

Value range(Runtime& rt, const CallArgs& args) {
  const BoundArgs bound("range", args, {"start", "stop", "step"}, 1);
  const auto part = [&](size_t i, Int fallback) {
    const Int value = bound.integer_or(i, fallback);
    if (value > INT64_MAX || value < INT64_MIN) fail_template("range() takes 64-bit integers");
    return value;
  };
  const Int first = part(0, 0);
  const Int step = part(2, 1);
  if (step == 0) fail_template("range() arg 3 must not be zero");
  Value value = bound.has(1) ? rt.range(first, part(1, 0), step) : rt.range(0, first, 1);
  if (value.range().length > kMaxRange) {
    fail_template("range too big: the most is " + std::to_string(static_cast<int>(kMaxRange)) +
                  " elements");
  }
  return value;
}

/// Entries of dict(mapping or pairs, **named), in order.
std::shared_ptr<DictData> collect_entries(Runtime& rt, std::string_view name,
                                          const CallArgs& args) {
  auto entries = rt.new_dict();
  if (args.positional.size() > 1) {
    fail_template(std::string(name) + "() takes at most one positional argument");
  }
  if (!args.positional.empty() && args.positional[0].is_undefined()) {
    fail_template(std::string(undefined_message(args.positional[0])));
  }
  if (!args.positional.empty() && args.positional[0].is(Kind::kDict)) {
    for (const auto& [key, value] : args.positional[0].dict().entries) entries->set(key, value);
  } else if (!args.positional.empty()) {
    for (const Value& pair : to_vector(rt, args.positional[0])) {
      const std::vector<Value> parts = to_vector(rt, pair);
      if (parts.size() != 2) fail_template(std::string(name) + "() needs pairs of key and value");
      entries->set(parts[0], parts[1]);
    }
  }
  for (const auto& [key, value] : args.named) entries->set(rt.string(key), value);
  return entries;
}

Value dict(Runtime& rt, const CallArgs& args) {
  return rt.dict(collect_entries(rt, "dict", args));
}

Value make_namespace(Runtime& rt, const CallArgs& args) {
  const auto entries = collect_entries(rt, "namespace", args);
  for (const auto& [key, value] : entries->entries) {
    if (!key.is_string()) fail_template("names of namespace attributes must be strings");
    if (key.view().starts_with('_')) {
      fail_template("names of namespace attributes may not start with '_': '" +
                    std::string(key.view()) + "'");
    }
  }
  return rt.new_namespace(entries->entries);
}

// ---------------------------------------------------------------------------------------------------
// cycler and joiner

class CyclerData : public ObjectData, public std::enable_shared_from_this<CyclerData> {
 public:
  explicit CyclerData(std::vector<Value> items) : items_(std::move(items)) {
    for (const Value& item : items_) nesting = std::max(nesting, item.nesting() + 1);
    if (nesting > kMaxNesting) fail_template("values nested too deeply");
  }
  std::string_view type_name() const override { return "Cycler"; }

  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    if (name == "current") return items_[position_];
    if (name != "next" && name != "reset") return std::nullopt;
    const bool is_next = name == "next";
    return make_function(
        runtime, name,
        [self = shared_from_this(), is_next](Runtime&, const CallArgs& args) {
          const BoundArgs bound("next", args, {});
          return is_next ? self->next() : self->reset();
        },
        nesting);
  }

 private:
  Value next() {
    const Value item = items_[position_];
    position_ = (position_ + 1) % items_.size();
    return item;
  }
  Value reset() {
    position_ = 0;
    return Value::none();
  }

  std::vector<Value> items_;
  size_t position_ = 0;
};

Value cycler(Runtime& rt, const CallArgs& args) {
  if (args.positional.empty() || !args.named.empty())
    fail_template("cycler() needs at least one item");
  return rt.object(std::make_shared<CyclerData>(args.positional));
}

class JoinerData : public ObjectData {
 public:
  explicit JoinerData(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const CallArgs& args) override {
    const BoundArgs bound("joiner", args, {});
    return std::exchange(used_, true) ? separator_ : runtime.string(Text());
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value joiner(Runtime& rt, const CallArgs& args) {
  const BoundArgs bound("joiner", args, {"sep"});
  return rt.object(
      std::make_shared<JoinerData>(bound.has(0) ? to_string(rt, bound[0]) : rt.string(", ")));
}

// ---------------------------------------------------------------------------------------------------
// What transformers adds

Value raise_exception(Runtime& rt, const CallArgs& args) {
  const BoundArgs bound("raise_exception", args, {"message"}, 1);
  const Value message = to_string(rt, bound[0]);
  fail_template(std::string(message.view()));
}

/// The format without the directives of the zone, which Python leaves empty for local times, and
/// with microseconds, which a time_t has none of.
std::string portable_format(std::string_view format) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f') {
      out += "000000";
    } else if (directive != 'z' && directive != 'Z') {
      out += '%';
      out += directive;
    }
  }
  return out;
}

Value strftime_now(Runtime& rt, const CallArgs& args) {
  const BoundArgs bound("strftime_now", args, {"format"}, 1);
  const Text& format = bound.text(0);
  const std::time_t now = rt.now();
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) fail_template("the time cannot be shown");
  if (format.empty()) return rt.string(Text());
  // A leading mark tells an empty result from a buffer that is too small. The format comes from the
  // template, so its length bounds that of the result but for padded widths, which are cut off
  // here.
  const std::string marked = "!" + portable_format(format.view());
  std::string buffer(marked.size() * 32 + 256, '\0');
  rt.need_room(buffer.size());
  const size_t size = std::strftime(buffer.data(), buffer.size(), marked.c_str(), &local);
  if (size == 0) fail_template("strftime_now: the result is too long");
  return rt.string(std::string_view(buffer).substr(1, size - 1), format.overall_origin());
}

constexpr Named<GlobalFn> kGlobals[] = {
    {"cycler", cycler},
    {"dict", dict},
    {"joiner", joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};

}  // namespace

std::optional<Value> find_global(std::string_view name) {
  for (const auto& entry : kGlobals) {
    if (entry.name != name) continue;
    const GlobalFn function = entry.function;
    return Value(Kind::kObject, std::make_shared<FunctionData>(
                                    name, [function](Runtime& rt, const CallArgs& args) {
                                      return function(rt, args);
                                    }));
  }
  return std::nullopt;
}

}  // namespace minfer::jinja
