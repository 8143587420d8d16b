// printf-style formatting: the % operator on strings and the `format` filter.
#include <algorithm>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

constexpr Int kMaxWidth = Int{1} << 40;

/// One % formatting in progress.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& arguments)
      : runtime_(runtime),
        format_(format),
        bytes_(format.view()),
        arguments_(arguments),
        out_(runtime) {}

  Value run() {
    size_t plain = 0;
    while ((at_ = bytes_.find('%', at_)) != std::string_view::npos) {
      out_.append(format_, plain, at_);
      directive();
      plain = at_;
    }
    out_.append(format_, plain, bytes_.size());
    // Whatever has subscripts counts as a mapping, which need not be used up.
    const bool is_mapping = arguments_.is(Kind::kDict) || arguments_.is(Kind::kList) ||
                            arguments_.is(Kind::kRange) || arguments_.is_undefined();
    const size_t given = arguments_.is(Kind::kTuple) ? arguments_.items().size() : 1;
    if (!is_mapping && next_ < given) {
      fail_template("not all arguments converted during string formatting");
    }
    return out_.finish();
  }

 private:
  char peek() const {
    if (at_ >= bytes_.size()) fail_template("incomplete format: a '%' directive has no type");
    return bytes_[at_];
  }

  const Value& next_argument() {
    if (!arguments_.is(Kind::kTuple)) {
      if (next_++ > 0) fail_template("not enough arguments for format string");
      return arguments_;
    }
    if (next_ >= arguments_.items().size()) fail_template("not enough arguments for format string");
    return arguments_.items()[next_++];
  }

  /// A number written out or, for '*', taken from the arguments.
  Int number() {
    if (peek() == '*') {
      ++at_;
      const Value& value = next_argument();
      if (!value.is_integral()) fail_template("* wants int");
      return std::clamp<Int>(value.as_int(), -kMaxWidth, kMaxWidth);
    }
    Int value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = std::min<Int>(value * 10 + (bytes_[at_++] - '0'), kMaxWidth);
    }
    return value;
  }

  void directive() {
    const size_t start = at_++;
    const Value* mapped = nullptr;
    if (peek() == '(') mapped = &mapped_argument();
    bool left = false, zero = false;
    NumberStyle style;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      left |= peek() == '-';
      zero |= peek() == '0';
      style.alternate |= peek() == '#';
      if (peek() == '+' || (peek() == ' ' && style.sign != '+')) style.sign = peek();
    }
    Int width = number();
    if (width < 0) {
      left = true;
      width = -width;
    }
    Int precision = -1;
    if (peek() == '.') {
      ++at_;
      precision = std::max<Int>(number(), 0);
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    const char type = peek();
    ++at_;
    if (type == '%') return out_.append("%", format_.origin_at(start));
    const Value& value = mapped != nullptr ? *mapped : next_argument();
    const Text text = convert(value, type, precision, style, zero && !left, width);
    pad(text, width, left);
  }

  const Value& mapped_argument() {
    const size_t end = bytes_.find(')', at_);
    if (end == std::string_view::npos) fail_template("incomplete format key");
    if (!arguments_.is(Kind::kDict)) fail_template("format requires a mapping");
    const std::string_view key = bytes_.substr(at_ + 1, end - at_ - 1);
    const Value* found = arguments_.dict().find(key);
    if (found == nullptr)
      fail_template("the format string needs the key '" + std::string(key) + "'");
    at_ = end + 1;
    return *found;
  }

  Text convert(const Value& value, char type, Int precision, NumberStyle style, bool zero,
               Int width) {
    TextBuilder text(runtime_);
    if (type == 's' || type == 'r' || type == 'a') {
      type == 's' ? append_str(runtime_, text, value) : append_repr(runtime_, text, value);
      if (precision < 0) return text.take();
      const size_t end = char_offset(text.text().view(), static_cast<size_t>(precision));
      return text.text().substr(0, end);
    }
    if (type == 'c') return character(value);
    if (std::string_view("diuoxXeEfFgG").find(type) == std::string_view::npos) {
      fail_template(std::string("unsupported format character '") + type + "'");
    }
    if (!value.is_number()) {
      fail_template(std::string("%") + type + " format: a number is required, not " +
                    std::string(type_name(value)));
    }
    const bool to_integer = std::string_view("diu").find(type) != std::string_view::npos;
    if (!value.is_integral() && std::string_view("oxX").find(type) != std::string_view::npos) {
      fail_template(std::string("%") + type + " format: an integer is required, not float");
    }
    style.type = to_integer ? 'd' : type;
    style.precision = static_cast<int>(std::min<Int>(precision, 1 << 20));
    const Value number = to_integer && !value.is_integral() ? truncate(value) : value;
    NumberParts parts = style_number(number, style);
    const size_t size = parts.prefix.size() + parts.digits.size();
    if (number.is_integral() && precision > static_cast<Int>(parts.digits.size())) {
      runtime_.need_room(static_cast<uint64_t>(precision));
      parts.digits.insert(0, static_cast<size_t>(precision) - parts.digits.size(), '0');
    } else if (zero && width > static_cast<Int>(size)) {
      runtime_.need_room(static_cast<uint64_t>(width));
      parts.digits.insert(0, static_cast<size_t>(width) - size, '0');
    }
    text.append(parts.prefix + parts.digits, value.origin());
    return text.take();
  }

  static Value truncate(const Value& value) {
    const double whole = std::trunc(value.as_double());
    if (!(std::abs(whole) < 0x1p126)) fail_template("cannot convert this float to an integer");
    return Value::integer(static_cast<Int>(whole), value.origin());
  }

  static Text character(const Value& value) {
    if (value.is_string() && count_chars(value.view()) == 1) return value.text();
    if (!value.is_integral()) fail_template("%c requires int or char");
    if (value.as_int() < 0 || value.as_int() > 0x10FFFF)
      fail_template("%c arg not in range(0x110000)");
    std::string bytes;
    append_char(bytes, static_cast<uint32_t>(value.as_int()));
    return Text(bytes, value.origin());
  }

  void pad(const Text& text, Int width, bool left) {
    const Int fill = width - static_cast<Int>(count_chars(text.view()));
    if (!left) out_.repeat(' ', fill, Origin::kTemplate);
    out_.append(text);
    if (left) out_.repeat(' ', fill, Origin::kTemplate);
  }

  Runtime& runtime_;
  const Text& format_;
  std::string_view bytes_;
  const Value& arguments_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t next_ = 0;  ///< arguments used so far
};

}  // namespace

Value format_percent(Runtime& runtime, const Text& format, const Value& arguments) {
  return PercentFormatter(runtime, format, arguments).run();
}

}  // namespace minfer::jinja
