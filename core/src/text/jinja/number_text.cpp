#include "text/jinja/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

std::string_view strip_space(std::string_view text) {
  while (!text.empty()) {
    const Char first = decode_char(text, 0);
    if (!is_space(first.code)) break;
    text.remove_prefix(first.size);
  }
  while (!text.empty()) {
    const size_t last = previous_char(text, text.size());
    if (!is_space(decode_char(text, last).code)) break;
    text = text.substr(0, last);
  }
  return text;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

/// The base that a prefix such as 0x names, or 0.
int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

/// Removes underscores between digits; nothing when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && digit_value(text[i - 1]) < 10 &&
                         digit_value(text[i + 1]) < 10;
    if (!between) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<Int> parse_integer(std::string_view text, int base) {
  text = strip_space(text);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const int prefix = prefix_base(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    base = prefix;
  } else if (base == 0) {
    base = 10;
    const bool only_zeros = text.find_first_not_of("0_") == std::string_view::npos;
    if (text.size() > 1 && text[0] == '0' && !only_zeros) return std::nullopt;
  }
  if (text.empty() || text.front() == '_' || text.back() == '_') return std::nullopt;
  Int value = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && text[i - 1] != '_') continue;
    const int digit = digit_value(text[i]);
    if (digit >= base || __builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit}, &value)) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  const auto clean = without_underscores(strip_space(text));
  if (!clean || clean->empty()) return std::nullopt;
  std::string_view digits = *clean;
  bool negative = false;
  if (digits[0] == '-' || digits[0] == '+') {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  std::string word(digits);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = HUGE_VAL;
  } else if (word == "nan") {
    value = std::nan("");
  } else {
    if (digits.empty() || (digits[0] != '.' && digit_value(digits[0]) > 9)) return std::nullopt;
    const char* end = digits.data() + digits.size();
    const auto [stop, status] = std::from_chars(digits.data(), end, value);
    if (stop != end) return std::nullopt;
    if (status == std::errc::result_out_of_range) {
      // Too large for a double is infinite, too small is zero; from_chars leaves the value alone.
      const size_t exponent = word.find('e');
      const bool tiny = exponent == std::string::npos
                            ? word.find_first_of("123456789.") == word.find('.')
                            : word.find('-', exponent) != std::string::npos;
      value = tiny ? 0.0 : HUGE_VAL;
    } else if (status != std::errc()) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

std::string integer_text(Int value) {
  return fmt::format("{}", value);
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view scientific(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const size_t exponent_digits = e + (scientific[e + 1] == '+' ? 2 : 1);
  std::from_chars(scientific.data() + exponent_digits, end.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  // Positional notation from the same shortest digits.
  std::string digits(scientific.substr(0, e));
  const std::string sign = digits[0] == '-' ? "-" : "";
  std::erase(digits, '-');
  std::erase(digits, '.');
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto point = static_cast<size_t>(exponent) + 1;
  if (digits.size() < point) digits.append(point - digits.size(), '0');
  const std::string fraction = digits.substr(point);
  return sign + digits.substr(0, point) + "." + (fraction.empty() ? "0" : fraction);
}

}  // namespace minfer::jinja
