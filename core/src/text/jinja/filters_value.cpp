// Filters on single values: defaults, numbers, JSON.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/iteration.h"
#include "text/jinja/json.h"
#include "text/jinja/number_text.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace minfer::jinja {

namespace {

Value default_filter(Runtime&, const Value& input, const CallArgs& args) {
  const BoundArgs bound("default", args, {"default_value", "boolean"});
  const bool replaces = input.is_undefined() || (bound.truthy_or(1, false) && !truthy(input));
  if (!replaces) return input;
  if (bound.has(0)) return bound[0];
  return Value(Kind::kString, std::make_shared<StringData>());
}

Value attr(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("attr", args, {"name"}, 1);
  const std::string name(bound.text(0).view());
  // Only attributes count, not items of the same name.
  if (input.is(Kind::kDict) && find_method(input, name) == nullptr) {
    return rt.undefined("'dict object' has no attribute '" + name + "'");
  }
  return get_attribute(rt, input, name);
}

// ---------------------------------------------------------------------------------------------------
// Numbers

Value truncate_float(double value, Origin origin) {
  if (std::isnan(value)) fail_template("cannot convert float NaN to integer");
  if (!(std::abs(value) < 0x1p126)) fail_template("this float is too large for an integer");
  return Value::integer(static_cast<Int>(std::trunc(value)), origin);
}

Value int_filter(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("int", args, {"default", "base"});
  const Value fallback = bound.has(0) ? bound[0] : Value::integer(0);
  if (input.is_undefined()) fail_template(std::string(undefined_message(input)));
  if (input.is_integral()) return Value::integer(input.as_int(), input.origin());
  if (input.is(Kind::kFloat)) {
    return std::isnan(input.as_double()) ? fallback
                                         : truncate_float(input.as_double(), input.origin());
  }
  if (!input.is_string()) return fallback;
  rt.work_on(input.text().size());
  const Origin origin = input.overall_origin();
  const Int base = bound.integer_or(1, 10);
  if (base == 0 || (base >= 2 && base <= 36)) {
    if (const auto value = parse_integer(input.view(), static_cast<int>(base))) {
      return Value::integer(*value, origin);
    }
  }
  // "42.7" is no integer, but its value as a float is cut to one.
  const auto as_float = parse_float(input.view());
  if (!as_float || !std::isfinite(*as_float)) return fallback;
  return truncate_float(*as_float, origin);
}

Value float_filter(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("float", args, {"default"});
  const Value fallback = bound.has(0) ? bound[0] : Value::floating(0.0);
  if (input.is_undefined()) fail_template(std::string(undefined_message(input)));
  if (input.is_number()) return Value::floating(input.as_double(), input.origin());
  if (!input.is_string()) return fallback;
  rt.work_on(input.text().size());
  const auto value = parse_float(input.view());
  return value ? Value::floating(*value, input.overall_origin()) : fallback;
}

Value abs_filter(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("abs", args, {});
  if (input.is(Kind::kFloat)) return Value::floating(std::abs(input.as_double()), input.origin());
  const bool negative = input.is_integral() && input.as_int() < 0;
  return apply_sign(rt, input, negative);
}

Value round_integer(Int value, Int precision, Origin origin) {
  if (precision >= 0 || value == 0) return Value::integer(value, origin);
  if (precision < -38) return Value::integer(0, origin);
  Int unit = 1;
  for (Int i = 0; i > precision; --i) {
    if (__builtin_mul_overflow(unit, Int{10}, &unit)) return Value::integer(0, origin);
  }
  const Int rest = ((value % unit) + unit) % unit;
  Int low = value - rest;
  // Ties go to the even multiple.
  const bool up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
  if (up && __builtin_add_overflow(low, unit, &low))
    fail_template("the integer result is too large");
  return Value::integer(low, origin);
}

/// Rounds the exact decimal value, ties to even, as Python's round() does.
double round_float(double value, Int precision) {
  if (!std::isfinite(value)) return value;
  if (precision > 330) return value;
  if (precision < -310) return std::copysign(0.0, value);
  if (precision >= 0) {
    return *parse_float(fmt::format("{:.{}f}", value, static_cast<int>(precision)));
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / unit) * unit;
}

Value round_filter(Runtime&, const Value& input, const CallArgs& args) {
  const BoundArgs bound("round", args, {"precision", "method"});
  const Int precision = bound.integer_or(0, 0);
  const std::string_view method = bound.has(1) && bound[1].is_string() ? bound[1].view() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    fail_template("round: method must be common, ceil or floor");
  }
  if (!input.is_number()) {
    fail_template("round needs a number, got " + std::string(type_name(input)));
  }
  const Origin origin = input.origin();
  if (method == "common") {
    if (input.is_integral()) return round_integer(input.as_int(), precision, origin);
    return Value::floating(round_float(input.as_double(), precision), origin);
  }
  if (precision > 300 || precision < -300) fail_template("round: precision out of range");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_double() * scale;
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::floating(whole == 0 ? 0.0 : whole / scale, origin);  // never a negative zero
}

Value filesizeformat(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("filesizeformat", args, {"binary"});
  const bool binary = bound.truthy_or(0, false);
  static constexpr std::array<const char*, 8> kDecimal = {"kB", "MB", "GB", "TB",
                                                          "PB", "EB", "ZB", "YB"};
  static constexpr std::array<const char*, 8> kBinary = {"KiB", "MiB", "GiB", "TiB",
                                                         "PiB", "EiB", "ZiB", "YiB"};
  std::optional<double> bytes;
  if (input.is_number()) bytes = input.as_double();
  if (input.is_string()) bytes = parse_float(input.view());
  if (!bytes || std::isnan(*bytes)) fail_template("filesizeformat needs a number");
  const double base = binary ? 1024 : 1000;
  const Origin origin = input.overall_origin();
  if (*bytes == 1) return rt.string("1 Byte", origin);
  if (*bytes < base) {
    return rt.string(fmt::format("{:.0f} Bytes", std::trunc(*bytes)), origin);
  }
  size_t prefix = 0;
  double unit = base * base;
  while (prefix + 1 < kDecimal.size() && *bytes >= unit) {
    ++prefix;
    unit *= base;
  }
  return rt.string(
      fmt::format("{:.1f} {}", base * *bytes / unit, (binary ? kBinary : kDecimal)[prefix]),
      origin);
}

// ---------------------------------------------------------------------------------------------------
// JSON

Value tojson(Runtime& rt, const Value& input, const CallArgs& args) {
  const BoundArgs bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.truthy_or(0, false);
  style.sort_keys = bound.truthy_or(3, false);
  if (!bound.none_or_absent(1)) {
    if (bound[1].is_string()) {
      style.indent = bound[1].text();
    } else {
      TextBuilder spaces(rt);
      spaces.repeat(' ', bound.integer_or(1, 0), Origin::kTemplate);
      style.indent = spaces.take();
    }
    style.item_separator = Text(",", Origin::kTemplate);
  }
  if (!bound.none_or_absent(2)) {
    const std::vector<Value> separators = to_vector(rt, bound[2]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      fail_template("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  TextBuilder out(rt);
  append_json(rt, out, input, style);
  return out.finish();
}

constexpr Named<FilterFn> kFilters[] = {
    {"abs", abs_filter},
    {"attr", attr},
    {"d", default_filter},
    {"default", default_filter},
    {"filesizeformat", filesizeformat},
    {"float", float_filter},
    {"int", int_filter},
    {"round", round_filter},
    {"tojson", tojson},
};

}  // namespace

std::span<const Named<FilterFn>> value_filters() {
  return kFilters;
}

}  // namespace minfer::jinja
