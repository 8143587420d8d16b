// Lexer: template source to tokens, with jinja2's whitespace rules applied.
//
// Settings are those that chat templates are written for: trim_blocks, lstrip_blocks, one final
// newline dropped. Pure function, safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace minfer::jinja {

enum class TokenKind : uint8_t {
  kText,        ///< literal text between tags; `text` holds it
  kBlockBegin,  ///< {%
  kBlockEnd,    ///< %}
  kPrintBegin,  ///< {{
  kPrintEnd,    ///< }}
  kName,
  kString,    ///< `text` holds the unescaped value
  kInteger,   ///< `text` holds the digits without underscores, with a 0x, 0o or 0b prefix
  kFloat,     ///< `text` holds the digits without underscores
  kOperator,  ///< `text` holds the operator
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;

  bool is_operator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

/// A template that is not well formed.
struct SyntaxError {
  int line;
  std::string what;
};

/// The tokens of `source`, the last of them kEnd. Throws SyntaxError.
std::vector<Token> tokenize(std::string_view source);

/// How a token is called in messages, e.g. "end of statement block" or "'foo'".
std::string describe(const Token& token);

}  // namespace minfer::jinja
