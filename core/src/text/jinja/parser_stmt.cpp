// Statements: the body between tags, and each tag's own grammar.
#include <array>

#include "text/jinja/parser_base.h"
#include "text/jinja/scoping.h"

namespace minfer::jinja {

namespace {

using EndTags = std::initializer_list<std::string_view>;

class Parser : private ExpressionParser {
 public:
  explicit Parser(std::string_view source) : ExpressionParser(source) {}

  TemplateAst run() {
    TemplateAst ast;
    ast.body.statements = parse_body({}, {});
    ast.names = std::move(names_);
    resolve_scopes(ast);
    return ast;
  }

 private:
  using StmtPtr = std::unique_ptr<Stmt>;

  /// Statements up to one of `end_tags`, whose name stays the current token; to the end of the
  /// template when there are none. `opener` is the tag being closed.
  Block parse_body(EndTags end_tags, std::string_view opener);
  /// The rest of a tag, then its body.
  Block parse_tag_body(EndTags end_tags, std::string_view opener);
  /// The same up to the one tag that ends it, which is consumed.
  Block parse_closed_body(std::string_view end_tag, std::string_view opener);
  StmtPtr parse_statement();
  [[noreturn]] void fail_unclosed(EndTags end_tags, std::string_view opener) const;

  StmtPtr parse_if();
  StmtPtr parse_for();
  StmtPtr parse_set();
  StmtPtr parse_macro();
  StmtPtr parse_call_block();
  StmtPtr parse_filter_block();
  StmtPtr parse_with();
  StmtPtr parse_generation();
  StmtPtr parse_block();
  StmtPtr parse_break();
  StmtPtr parse_continue();
  StmtPtr parse_print();
  void parse_signature(MacroStmt& macro);
  void parse_macro_body(MacroStmt& macro, std::string_view end_tag, std::string_view opener);

  template <class T>
  std::unique_ptr<T> open(StmtKind kind) {
    return std::make_unique<T>(kind, take().line);
  }

  std::vector<std::string> blocks_;  ///< names of {% block %}s so far
};

/// Restores a member when the scope ends.
template <class T>
class Restore {
 public:
  Restore(T& variable, T value) : variable_(variable), old_(variable) { variable = value; }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  ~Restore() { variable_ = old_; }

 private:
  T& variable_;
  T old_;
};

// ---------------------------------------------------------------------------------------------------
// Bodies

void Parser::fail_unclosed(EndTags end_tags, std::string_view opener) const {
  std::string expected;
  for (const std::string_view tag : end_tags) {
    expected += (expected.empty() ? "'" : " or '") + std::string(tag) + "'";
  }
  const std::string found = current().kind == TokenKind::kEnd
                                ? "unexpected end of the template"
                                : "unknown or misplaced tag '" + current().text + "'";
  if (expected.empty()) fail_here(found);
  fail_here(found + ": '" + std::string(opener) + "' is still open, expected " + expected);
}

Block Parser::parse_body(EndTags end_tags, std::string_view opener) {
  const Nested nested(*this);
  Block body;
  while (true) {
    const Token& token = current();
    if (token.kind == TokenKind::kEnd) {
      if (end_tags.size() > 0) fail_unclosed(end_tags, opener);
      return body;
    }
    if (token.kind == TokenKind::kText) {
      auto text = std::make_unique<TextStmt>(StmtKind::kText, token.line);
      text->text = Text(token.text, Origin::kTemplate);
      body.push_back(std::move(text));
      take();
    } else if (token.kind == TokenKind::kPrintBegin) {
      auto print = open<PrintStmt>(StmtKind::kPrint);
      print->value = parse_tuple(true);
      expect(TokenKind::kPrintEnd, "}}");
      body.push_back(std::move(print));
    } else {
      expect(TokenKind::kBlockBegin, "{%");
      for (const std::string_view tag : end_tags) {
        if (current().is_name(tag)) return body;
      }
      if (current().kind != TokenKind::kName) {
        fail_here("expected the name of a tag, got " + describe(current()));
      }
      if (StmtPtr statement = parse_statement()) {
        body.push_back(std::move(statement));
      } else {
        fail_unclosed(end_tags, opener);
      }
      expect(TokenKind::kBlockEnd, "%}");
    }
  }
}

Block Parser::parse_tag_body(EndTags end_tags, std::string_view opener) {
  skip_operator(":");
  expect(TokenKind::kBlockEnd, "%}");
  return parse_body(end_tags, opener);
}

Block Parser::parse_closed_body(std::string_view end_tag, std::string_view opener) {
  Block body = parse_tag_body({end_tag}, opener);
  take();
  return body;
}

/// nullptr for a tag that does not exist.
Parser::StmtPtr Parser::parse_statement() {
  struct Tag {
    std::string_view name;
    StmtPtr (Parser::*parse)();
  };
  static constexpr Tag kTags[] = {
      {"if", &Parser::parse_if},
      {"for", &Parser::parse_for},
      {"set", &Parser::parse_set},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call_block},
      {"filter", &Parser::parse_filter_block},
      {"with", &Parser::parse_with},
      {"generation", &Parser::parse_generation},
      {"block", &Parser::parse_block},
      {"break", &Parser::parse_break},
      {"continue", &Parser::parse_continue},
      {"print", &Parser::parse_print},
  };
  static constexpr std::array<std::string_view, 5> kOtherFiles = {"include", "import", "from",
                                                                  "extends", "autoescape"};
  const std::string& name = current().text;
  for (const Tag& tag : kTags) {
    if (tag.name == name) return (this->*tag.parse)();
  }
  for (const std::string_view other : kOtherFiles) {
    if (other != name) continue;
    fail_here("'" + name + "' is not supported: a chat template is one file of plain text");
  }
  return nullptr;
}

// ---------------------------------------------------------------------------------------------------
// Control flow

Parser::StmtPtr Parser::parse_if() {
  auto statement = open<IfStmt>(StmtKind::kIf);
  const Restore<bool> lenient(lenient_names_, true);
  while (true) {
    ExprPtr condition = parse_tuple(false);
    Block body = parse_tag_body({"elif", "else", "endif"}, "if");
    statement->branches.emplace_back(std::move(condition), std::move(body));
    const Token tag = take();
    if (tag.text == "elif") continue;
    if (tag.text == "else") statement->otherwise = parse_closed_body("endif", "if");
    return statement;
  }
}

Parser::StmtPtr Parser::parse_for() {
  auto statement = open<ForStmt>(StmtKind::kFor);
  const Restore<bool> lenient(lenient_names_, false);
  const Restore<uint32_t> any_loops(any_loops_, any_loops_ + 1);
  statement->target = parse_target(false);
  if (!skip_name("in")) fail_here("expected 'in', got " + describe(current()));
  statement->iterable = parse_tuple(false);
  if (skip_name("if")) statement->filter = parse_expression();
  statement->recursive = skip_name("recursive");
  {
    // A recursive body is a function of its own, but loop controls inside it mean its own loop too.
    const Restore<uint32_t> loops(loops_, loops_ + 1);
    statement->body.statements = parse_tag_body({"endfor", "else"}, "for");
  }
  if (take().text == "else") statement->otherwise.statements = parse_closed_body("endfor", "for");
  return statement;
}

Parser::StmtPtr Parser::parse_break() {
  if (loops_ == 0) fail_here("'break' outside of a loop");
  return open<Stmt>(StmtKind::kBreak);
}

Parser::StmtPtr Parser::parse_continue() {
  if (loops_ == 0) fail_here("'continue' outside of a loop");
  return open<Stmt>(StmtKind::kContinue);
}

// ---------------------------------------------------------------------------------------------------
// Variables, scopes, output

Parser::StmtPtr Parser::parse_set() {
  const int line = take().line;
  ExprPtr target = parse_target(true);
  if (skip_operator("=")) {
    auto statement = std::make_unique<SetStmt>(StmtKind::kSet, line);
    statement->target = std::move(target);
    statement->value = parse_tuple(true);
    return statement;
  }
  auto statement = std::make_unique<SetBlockStmt>(StmtKind::kSetBlock, line);
  statement->target = std::move(target);
  const Restore<bool> lenient(lenient_names_, false);
  statement->filter = parse_filters(nullptr);
  statement->body.statements = parse_closed_body("endset", "set");
  return statement;
}

Parser::StmtPtr Parser::parse_filter_block() {
  auto statement = open<FilterBlockStmt>(StmtKind::kFilterBlock);
  const Restore<bool> lenient(lenient_names_, false);
  statement->filter = parse_filters(nullptr, true);
  statement->body.statements = parse_closed_body("endfilter", "filter");
  return statement;
}

Parser::StmtPtr Parser::parse_with() {
  auto statement = open<WithStmt>(StmtKind::kWith);
  const Restore<bool> lenient(lenient_names_, false);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!statement->bindings.empty()) expect_operator(",");
    ExprPtr target = parse_target(false);
    expect_operator("=");
    statement->bindings.emplace_back(std::move(target), parse_expression());
  }
  statement->body.statements = parse_closed_body("endwith", "with");
  return statement;
}

Parser::StmtPtr Parser::parse_generation() {
  auto statement = open<ScopeStmt>(StmtKind::kScope);
  // Rendered through a function of its own in the reference, so loop controls cannot cross it.
  const Restore<uint32_t> loops(loops_, 0);
  const Restore<bool> lenient(lenient_names_, false);
  statement->body.statements = parse_closed_body("endgeneration", "generation");
  return statement;
}

Parser::StmtPtr Parser::parse_block() {
  auto statement = open<ScopeStmt>(StmtKind::kScope);
  statement->at_root = true;
  const std::string name = expect_name("the name of the block");
  if (skip_name("scoped")) statement->at_root = false;
  for (const std::string& other : blocks_) {
    if (other == name) fail(statement->line, "the block '" + name + "' is defined twice");
  }
  blocks_.push_back(name);
  if (current().is_name("required")) {
    fail_here("a required block needs a template that extends this one, which is not supported");
  }
  const Restore<uint32_t> loops(loops_, 0);
  const Restore<bool> lenient(lenient_names_, false);
  statement->body.statements = parse_closed_body("endblock", "block");
  skip_name(name);
  return statement;
}

Parser::StmtPtr Parser::parse_print() {
  auto statement = open<ScopeStmt>(StmtKind::kScope);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!statement->body.statements.empty()) expect_operator(",");
    auto print = std::make_unique<PrintStmt>(StmtKind::kPrint, current().line);
    print->value = parse_expression();
    statement->body.statements.push_back(std::move(print));
  }
  return statement;
}

// ---------------------------------------------------------------------------------------------------
// Macros

void Parser::parse_signature(MacroStmt& macro) {
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    std::string name = expect_name("the name of a parameter");
    for (const auto& other : macro.parameters) {
      if (other.second == name) fail_here("the parameter '" + name + "' is declared twice");
    }
    const NameId id = name_id(name);
    macro.parameters.emplace_back(id, std::move(name));
    if (skip_operator("=")) {
      macro.defaults.push_back(parse_expression());
    } else if (!macro.defaults.empty()) {
      fail_here("a parameter without a default follows one with a default");
    }
  }
  take();
}

void Parser::parse_macro_body(MacroStmt& macro, std::string_view end_tag, std::string_view opener) {
  const Restore<uint32_t> loops(loops_, 0);
  const Restore<bool> lenient(lenient_names_, false);
  macro.varargs_id = name_id("varargs");
  macro.kwargs_id = name_id("kwargs");
  macro.caller_id = name_id("caller");
  macros_.push_back(&macro);
  macro.body.statements = parse_closed_body(end_tag, opener);
  macros_.pop_back();
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const std::string& name = macro.parameters[i].second;
    if (name == "varargs") macro.uses_varargs = false;
    if (name == "kwargs") macro.uses_kwargs = false;
    if (name != "caller") continue;
    const bool has_default = i + macro.defaults.size() >= macro.parameters.size();
    if (macro.uses_caller && !has_default) {
      fail(macro.line, "the special parameter 'caller' must have a default");
    }
    macro.uses_caller = false;
  }
}

Parser::StmtPtr Parser::parse_macro() {
  auto statement = open<MacroStmt>(StmtKind::kMacro);
  statement->name = expect_name("the name of the macro");
  statement->id = name_id(statement->name);
  parse_signature(*statement);
  parse_macro_body(*statement, "endmacro", "macro");
  return statement;
}

Parser::StmtPtr Parser::parse_call_block() {
  auto statement = open<CallBlockStmt>(StmtKind::kCallBlock);
  statement->caller = std::make_unique<MacroStmt>(StmtKind::kMacro, statement->line);
  statement->caller->name = "caller";
  if (current().is_operator("(")) parse_signature(*statement->caller);
  statement->call = parse_expression();
  if (statement->call->kind != ExprKind::kCall) {
    fail(statement->line, "expected a call after 'call'");
  }
  parse_macro_body(*statement->caller, "endcall", "call");
  return statement;
}

}  // namespace

TemplateAst parse_template(std::string_view source) {
  return Parser(source).run();
}

}  // namespace minfer::jinja
