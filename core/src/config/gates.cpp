// The gate registry: declaration, parsing, and resolution of environment over config over default.
#include "minfer/gates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdlib>

#include "minfer/log.h"
#include "minfer/nearest.h"

extern char** environ;

namespace minfer {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : char(c);
  });
  return out;
}

std::string expected_values(const GateSpec& spec) {
  switch (spec.type) {
    case GateType::kBool:
      return "on or off";
    case GateType::kInt:
      return fmt::format("an integer from {} to {}", spec.min_value, spec.max_value);
    case GateType::kEnum:
      return fmt::format("one of {}", fmt::join(spec.choices, ", "));
  }
  return {};
}

Result<int64_t> parse_value(const GateSpec& spec, std::string_view text, const std::string& where) {
  const std::string value = lower(text);
  switch (spec.type) {
    case GateType::kBool:
      for (const char* yes : {"1", "on", "true", "yes"})
        if (value == yes) return 1;
      for (const char* no : {"0", "off", "false", "no"})
        if (value == no) return 0;
      break;
    case GateType::kInt: {
      int64_t number = 0;
      const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (ec == std::errc() && end == value.data() + value.size() && number >= spec.min_value &&
          number <= spec.max_value)
        return number;
      break;
    }
    case GateType::kEnum:
      for (size_t i = 0; i < spec.choices.size(); ++i)
        if (value == lower(spec.choices[i])) return static_cast<int64_t>(i);
      break;
  }
  return fail(
      ErrorCode::kConfig,
      fmt::format("gate {}: '{}' is not {}", spec.name, text.substr(0, 80), expected_values(spec)),
      where, did_you_mean(text, spec.choices));
}

/// Checks what a declaration claims, so that every later value can be trusted.
Result<void> check_spec(const GateSpec& spec) {
  const auto bad = [&](const std::string& what) {
    return fail(ErrorCode::kPlugin, fmt::format("gate '{}': {}", spec.name, what), spec.owner);
  };
  const bool legal = spec.name.starts_with("MINFER_") && spec.name.size() > 7 &&
                     spec.name.size() <= 64 &&
                     std::all_of(spec.name.begin(), spec.name.end(), [](char c) {
                       return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
                     });
  if (!legal) return bad("a name is MINFER_ followed by capitals, digits and '_', 64 at most");
  if (spec.type == GateType::kEnum && spec.choices.empty()) return bad("an enum without choices");
  if (spec.min_value > spec.max_value)
    return bad(fmt::format("range {}..{} is empty", spec.min_value, spec.max_value));
  if (spec.default_value < spec.min_value || spec.default_value > spec.max_value)
    return bad(fmt::format("default {} lies outside {}..{}", spec.default_value, spec.min_value,
                           spec.max_value));
  return {};
}

std::vector<std::string> names_of(std::span<const Gate> gates, std::string_view owner) {
  std::vector<std::string> names;
  for (const Gate& gate : gates)
    if (owner.empty() || gate.spec.owner == owner) names.push_back(gate.spec.name);
  return names;
}

/// A misspelt variable would silently change nothing, so near misses of declared gates are
/// reported.
void warn_about_misspelt_environment(std::span<const Gate> gates) {
  const std::vector<std::string> names = names_of(gates, {});
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("MINFER_") || std::find(names.begin(), names.end(), name) != names.end())
      continue;
    // All names share a prefix, which must not count as likeness.
    const std::string* near = nullptr;
    size_t least = 1 + std::min<size_t>(2, (name.size() - 7) / 3);
    for (const std::string& known : names)
      if (const size_t edits = edit_distance(name, known, least); edits < least)
        least = edits, near = &known;
    if (near)
      log(LogLevel::kWarn,
          fmt::format("environment variable {} is not a gate; did you mean {}?", name, *near));
  }
}

}  // namespace

const char* name_of(GateScope scope) {
  switch (scope) {
    case GateScope::kLoad:
      return "load";
    case GateScope::kPlan:
      return "plan";
    case GateScope::kRun:
      return "run";
  }
  return "unknown";
}

const char* name_of(GateSource source) {
  switch (source) {
    case GateSource::kDefault:
      return "default";
    case GateSource::kConfig:
      return "config";
    case GateSource::kEnvironment:
      return "environment";
    case GateSource::kFlag:
      return "command line";
  }
  return "unknown";
}

std::string Gate::value_text() const {
  switch (spec.type) {
    case GateType::kBool:
      return value ? "on" : "off";
    case GateType::kInt:
      return std::to_string(value);
    case GateType::kEnum:
      return spec.choices[static_cast<size_t>(value)];
  }
  return {};
}

Result<void> GateRegistry::declare(std::string_view owner, std::vector<GateSpec> specs) {
  std::vector<Gate> added;
  for (GateSpec& spec : specs) {
    spec.owner = owner;
    if (spec.type == GateType::kBool) spec.min_value = 0, spec.max_value = 1;
    if (spec.type == GateType::kEnum)
      spec.min_value = 0, spec.max_value = static_cast<int64_t>(spec.choices.size()) - 1;
    MINFER_TRY(check_spec(spec));
    const auto same = [&](const Gate& gate) { return gate.spec.name == spec.name; };
    if (const Gate* taken = find(spec.name))
      return fail(ErrorCode::kPlugin,
                  fmt::format("gate {} is already declared by '{}'", spec.name, taken->spec.owner),
                  std::string(owner));
    if (std::any_of(added.begin(), added.end(), same))
      return fail(ErrorCode::kPlugin, fmt::format("gate {} is declared twice", spec.name),
                  std::string(owner));
    added.push_back({.spec = spec, .value = spec.default_value, .source = GateSource::kDefault});
  }
  owners_.emplace_back(owner);
  gates_.insert(gates_.end(), added.begin(), added.end());
  return {};
}

Result<void> GateRegistry::resolve(const GateTexts& config, const GateTexts& locations) {
  for (const auto& [owner, texts] : config) {
    if (std::find(owners_.begin(), owners_.end(), owner) == owners_.end()) {
      log(LogLevel::kInfo,
          fmt::format("gates of '{}' have no effect: only {} {} loaded", owner,
                      fmt::join(owners_, ", "), owners_.size() == 1 ? "is" : "are"));
      continue;
    }
    for (const auto& [name, text] : texts) {
      std::string where = fmt::format("gates.{}", owner);
      if (const auto group = locations.find(owner); group != locations.end())
        if (const auto at = group->second.find(name); at != group->second.end()) where = at->second;
      const Gate* gate = find(name);
      if (!gate || gate->spec.owner != owner) {
        std::string hint = did_you_mean(name, names_of(gates_, owner));
        if (gate) hint = fmt::format("it belongs under gates.{}", gate->spec.owner);
        return fail(ErrorCode::kConfig, fmt::format("'{}' has no gate {}", owner, name), where,
                    hint);
      }
      MINFER_ASSIGN(const int64_t value, parse_value(gate->spec, text, where));
      assign(*gate, value, GateSource::kConfig);
    }
  }
  for (const Gate& gate : gates_) {
    const char* text = std::getenv(gate.spec.name.c_str());
    if (!text) continue;
    MINFER_ASSIGN(const int64_t value, parse_value(gate.spec, text, "environment"));
    assign(gate, value, GateSource::kEnvironment);
  }
  warn_about_misspelt_environment(gates_);
  return {};
}

Result<void> GateRegistry::set(std::string_view name, std::string_view text, GateSource source) {
  const Gate* gate = find(name);
  if (!gate)
    return fail(ErrorCode::kConfig, fmt::format("there is no gate {}", name), {},
                did_you_mean(name, names_of(gates_, {})));
  MINFER_ASSIGN(const int64_t value, parse_value(gate->spec, text, {}));
  assign(*gate, value, source);
  return {};
}

const Gate* GateRegistry::find(std::string_view name) const {
  const auto it = std::find_if(gates_.begin(), gates_.end(),
                               [&](const Gate& gate) { return gate.spec.name == name; });
  return it == gates_.end() ? nullptr : &*it;
}

std::vector<int64_t> GateRegistry::values(std::string_view owner) const {
  std::vector<int64_t> values;
  for (const Gate& gate : gates_)
    if (gate.spec.owner == owner) values.push_back(gate.value);
  return values;
}

int64_t GateRegistry::value(std::string_view name) const {
  const Gate* gate = find(name);
  assert(gate && "value() is for gates that the caller declared");
  return gate ? gate->value : 0;
}

void GateRegistry::assign(const Gate& gate, int64_t value, GateSource source) {
  Gate& mine = gates_[static_cast<size_t>(&gate - gates_.data())];
  mine.value = value;
  mine.source = source;
}

}  // namespace minfer
