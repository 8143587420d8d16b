#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace minfer::jinja {

namespace {

constexpr size_t kNowhere = std::string_view::npos;

/// Line ends become \n and one at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(normalize(source)), source_(owned_) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_text();
    push(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string what) const { throw SyntaxError{line_, std::move(what)}; }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  bool looking_at(std::string_view what, size_t from) const {
    return source_.substr(from).starts_with(what);
  }

  /// Moves to `to`, counting lines.
  void advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    line_starts_here_ = to > 0 && source_[to - 1] == '\n';
    at_ = to;
  }

  size_t skip_space(size_t from) const {
    while (from < source_.size()) {
      const Char ch = decode_char(source_, from);
      if (!is_space(ch.code)) break;
      from += ch.size;
    }
    return from;
  }

  /// The end of [at_, end) without the whitespace that a tag with control `sign` takes before it.
  size_t strip_before_tag(size_t begin, size_t end, char sign, bool is_print) const {
    size_t kept = end;
    while (kept > begin) {
      const size_t previous = previous_char(source_, kept);
      if (previous < begin || !is_space(decode_char(source_, previous).code)) break;
      kept = previous;
    }
    if (sign == '-') return kept;
    if (sign == '+' || is_print) return end;
    const size_t newline = source_.substr(begin, end - begin).rfind('\n');
    if (newline == kNowhere) return line_starts_here_ && kept == begin ? begin : end;
    const size_t line_begin = begin + newline + 1;
    return kept <= line_begin ? line_begin : end;
  }

  /// Text up to the next tag, then the tag.
  void lex_text() {
    const size_t begin = at_;
    size_t tag = begin;
    do {
      tag = source_.find('{', tag);
      if (tag == kNowhere || tag + 1 >= source_.size()) {
        tag = kNowhere;
        break;
      }
      const char next = source_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    } while (true);
    if (tag == kNowhere) {
      push_text(begin, source_.size());
      advance(source_.size());
      return;
    }
    const char next = source_[tag + 1];
    size_t inside = tag + 2;
    char sign = 0;
    if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) {
      sign = source_[inside++];
    }
    push_text(begin, strip_before_tag(begin, tag, sign, next == '{'));
    advance(tag);
    if (next == '#') {
      lex_comment(inside);
    } else if (next == '{') {
      push(TokenKind::kPrintBegin, {});
      advance(inside);
      lex_code("}}");
    } else if (const auto body = raw_body(inside)) {
      lex_raw(*body);
    } else {
      push(TokenKind::kBlockBegin, {});
      advance(inside);
      lex_code("%}");
    }
  }

  void push_text(size_t from, size_t to) {
    if (from < to) push(TokenKind::kText, std::string(source_.substr(from, to - from)));
  }

  /// The position after a closing tag at `from` (its sign included), or nothing when there is none.
  /// `close` is "%}", "#}" or "}}".
  std::optional<size_t> closing(std::string_view close, size_t from) const {
    const bool is_print = close == "}}";
    if (looking_at("-", from) && looking_at(close, from + 1)) return skip_space(from + 3);
    if (!is_print && looking_at("+", from) && looking_at(close, from + 1)) return from + 3;
    if (!looking_at(close, from)) return std::nullopt;
    return from + (!is_print && looking_at("\n", from + 2) ? 3 : 2);
  }

  void lex_comment(size_t from) {
    for (size_t end = source_.find("#}", from); end != kNowhere;
         end = source_.find("#}", end + 1)) {
      const bool signed_end = end > from && (source_[end - 1] == '-' || source_[end - 1] == '+');
      if (const auto after = closing("#}", signed_end ? end - 1 : end)) return advance(*after);
    }
    fail("the comment has no end: expected '#}'");
  }

  /// Where the text after `{% raw %}` begins when `from` is inside such a tag.
  std::optional<size_t> raw_body(size_t from) const {
    from = skip_space(from);
    if (!looking_at("raw", from)) return std::nullopt;
    from = skip_space(from + 3);
    if (looking_at("-%}", from)) return skip_space(from + 3);
    if (looking_at("%}", from)) return from + 2;
    return std::nullopt;
  }

  void lex_raw(size_t body) {
    for (size_t tag = source_.find("{%", body); tag != kNowhere;
         tag = source_.find("{%", tag + 1)) {
      size_t inside = tag + 2;
      char sign = 0;
      if (looking_at("-", inside) || looking_at("+", inside)) sign = source_[inside++];
      inside = skip_space(inside);
      if (!looking_at("endraw", inside)) continue;
      const auto after = closing("%}", skip_space(inside + 6));
      if (!after) continue;
      advance(body);
      push_text(body, strip_before_tag(body, tag, sign, false));
      return advance(*after);
    }
    fail("the raw block has no end: expected '{% endraw %}'");
  }

  /// Tokens of an expression or statement up to `close`.
  void lex_code(std::string_view close) {
    std::string open;  // brackets not yet closed
    while (true) {
      if (open.empty()) {
        if (const auto after = closing(close, at_)) {
          push(close == "}}" ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, {});
          return advance(*after);
        }
      }
      if (at_ >= source_.size())
        fail("unexpected end of template: expected '" + std::string(close) + "'");
      lex_token(open);
    }
  }

  void lex_token(std::string& open) {
    const Char ch = decode_char(source_, at_);
    const char c = source_[at_];
    if (is_space(ch.code)) return advance(skip_space(at_));
    if (is_digit(c)) return lex_number();
    if (is_letter(c) || c == '_' || (ch.code >= 0x80 && is_alnum(ch.code))) return lex_name();
    if (c == '\'' || c == '"') return lex_string();
    lex_operator(open);
  }

  void lex_name() {
    size_t end = at_;
    while (end < source_.size()) {
      const Char ch = decode_char(source_, end);
      if (source_[end] != '_' && !is_alnum(ch.code)) break;
      end += ch.size;
    }
    push(TokenKind::kName, std::string(source_.substr(at_, end - at_)));
    advance(end);
  }

  /// Past digits that `accept` takes, single underscores allowed between them.
  template <class Accept>
  size_t skip_digits(size_t from, Accept accept) const {
    while (from < source_.size()) {
      const bool joined = source_[from] == '_' && from + 1 < source_.size();
      const size_t digit = joined ? from + 1 : from;
      if (!accept(source_[digit])) break;
      from = digit + 1;
    }
    return from;
  }

  void lex_number() {
    const char prefix = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : 0;
    size_t end = at_ + 1;
    TokenKind kind = TokenKind::kInteger;
    if (source_[at_] == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
      const auto in_base = [prefix](char c) {
        if (prefix == 'x') return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
        return c >= '0' && c <= (prefix == 'o' ? '7' : '1');
      };
      const size_t digits_end = skip_digits(at_ + 2, in_base);
      if (digits_end > at_ + 2) end = digits_end;
    } else {
      const size_t whole = skip_digits(at_ + 1, is_digit);
      end = float_end(whole);
      if (end > whole) {
        kind = TokenKind::kFloat;
      } else {
        // A leading zero is a number of its own, as in Python's grammar for decimal literals.
        end = source_[at_] == '0' ? skip_digits(at_ + 1, [](char c) { return c == '0'; }) : whole;
      }
    }
    std::string digits(source_.substr(at_, end - at_));
    std::erase(digits, '_');
    push(kind, std::move(digits));
    advance(end);
  }

  /// The end of a float whose whole part ends at `whole`; `whole` when it is no float.
  size_t float_end(size_t whole) const {
    if (at_ > 0 && source_[at_ - 1] == '.') return whole;  // foo.1.2 is two subscripts
    size_t end = whole;
    if (looking_at(".", end) && end + 1 < source_.size() && is_digit(source_[end + 1])) {
      end = skip_digits(end + 2, is_digit);
    }
    if (end < source_.size() && (source_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (looking_at("+", exponent) || looking_at("-", exponent)) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        end = skip_digits(exponent + 1, is_digit);
      }
    }
    return end;
  }

  void lex_string() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("the string has no closing " + std::string(1, quote));
    std::string error;
    const auto value = unescape(source_.substr(at_ + 1, end - at_ - 1), error);
    if (!value) fail(error);
    push(TokenKind::kString, *value);
    advance(end + 1);
  }

  void lex_operator(std::string& open) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto op = std::find_if(kOperators.begin(), kOperators.end(),
                                 [&](std::string_view o) { return looking_at(o, at_); });
    if (op == kOperators.end()) {
      const Char ch = decode_char(source_, at_);
      fail("unexpected character '" + std::string(source_.substr(at_, ch.size)) + "'");
    }
    const char c = op->front();
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : static_cast<char>(c + 2);
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail("unexpected '" + std::string(*op) + "'");
      if (open.back() != c) {
        fail("unexpected '" + std::string(*op) + "', expected '" + std::string(1, open.back()) +
             "'");
      }
      open.pop_back();
    }
    push(TokenKind::kOperator, std::string(*op));
    advance(at_ + op->size());
  }

  std::string owned_;
  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_here_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kText:
      return "text";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace minfer::jinja
