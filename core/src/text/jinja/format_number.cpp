// Numbers in the styles that both languages of format strings share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/number_text.h"

namespace minfer::jinja {

namespace {

constexpr int kMaxPrecision = 1000;

std::string group_digits(const std::string& digits, char separator, size_t every) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string integer_digits(Int magnitude, char type) {
  switch (type) {
    case 'b':
      return fmt::format("{:b}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    default:
      return integer_text(magnitude);
  }
}

std::string float_digits(double magnitude, const NumberStyle& style) {
  const bool upper = style.type == 'E' || style.type == 'F' || style.type == 'G';
  if (std::isnan(magnitude)) return upper ? "NAN" : "nan";
  if (std::isinf(magnitude)) return upper ? "INF" : "inf";
  const int precision = style.precision < 0 ? 6 : style.precision;
  switch (style.type) {
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'f':
    case 'F':
      return style.alternate ? fmt::format("{:#.{}f}", magnitude, precision)
                             : fmt::format("{:.{}f}", magnitude, precision);
    case '%':
      return fmt::format("{:.{}f}", magnitude * 100, precision) + "%";
    case 'g':
    case 'G':
    case 'n': {
      const int significant = std::max(precision, 1);
      std::string digits = style.alternate ? fmt::format("{:#.{}g}", magnitude, significant)
                                           : fmt::format("{:.{}g}", magnitude, significant);
      if (upper) std::replace(digits.begin(), digits.end(), 'e', 'E');
      return digits;
    }
    default:
      break;
  }
  if (style.precision < 0) return float_text(magnitude);
  std::string digits = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

}  // namespace

NumberParts style_number(const Value& number, const NumberStyle& style) {
  if (style.precision > kMaxPrecision) {
    fail_template("a precision of more than " + std::to_string(kMaxPrecision) + " digits");
  }
  const bool float_type =
      style.type != 0 && std::string_view("eEfFgG%").find(style.type) != std::string_view::npos;
  NumberParts parts;
  bool negative = false;
  if (number.is_integral() && !float_type) {
    const Int value = number.as_int();
    negative = value < 0;
    parts.digits = integer_digits(negative ? -value : value, style.type);
    if (style.alternate && (style.type | 0x20) != ('d' | 0x20) && style.type != 0) {
      parts.prefix = std::string("0") + style.type;
    }
  } else {
    const double value = number.as_double();
    negative = std::signbit(value) && !std::isnan(value);
    parts.digits = float_digits(std::abs(value), style);
  }
  if (style.grouping != 0) {
    const bool by_four = style.type == 'b' || style.type == 'o' || (style.type | 0x20) == 'x';
    parts.digits = group_digits(parts.digits, style.grouping, by_four ? 4 : 3);
  }
  if (negative) {
    parts.prefix.insert(parts.prefix.begin(), '-');
  } else if (style.sign != '-') {
    parts.prefix.insert(parts.prefix.begin(), style.sign);
  }
  return parts;
}

}  // namespace minfer::jinja
