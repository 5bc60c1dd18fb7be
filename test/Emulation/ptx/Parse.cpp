// A recursive-descent parser of PTX. Debug information and what only guides ptxas is skipped.
#include "Parse.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace colossal::ptx {
namespace {

struct Token {
  enum Kind { Word, Number, String, Symbol, End } kind = End;
  std::string_view text;
  unsigned line = 0;
};

bool isWordStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}
bool isWordPart(char c) {
  return isWordStart(c) || std::isdigit(static_cast<unsigned char>(c));
}

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) { next(); }

  const Token &peek() const { return token; }
  Token take() {
    Token taken = token;
    next();
    return taken;
  }
  /// Everything up to the end of the current token's line.
  void skipLine() {
    unsigned line = token.line;
    while (token.kind != Token::End && token.line == line)
      next();
  }

private:
  void next() {
    skipSpace();
    token.line = line;
    std::size_t begin = at;
    if (at >= text.size()) {
      token = {Token::End, {}, line};
      return;
    }
    char c = text[at];
    if (isWordStart(c)) {
      token.kind = Token::Word;
      while (at < text.size() && (isWordPart(text[at]) || isScope()))
        at += isScope() ? 2 : 1;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      token.kind = Token::Number;
      while (at < text.size() && isWordPart(text[at]))
        ++at;
    } else if (c == '"') {
      token.kind = Token::String;
      at = std::min(text.find('"', at + 1), text.size() - 1) + 1;
    } else {
      token.kind = Token::Symbol;
      ++at;
    }
    token.text = text.substr(begin, at - begin);
  }

  /// The :: of ".shared::cta" belongs to the word; the : of a label does not.
  bool isScope() const { return text.compare(at, 2, "::") == 0; }

  void skipSpace() {
    while (at < text.size()) {
      if (text[at] == '\n')
        ++line;
      if (std::isspace(static_cast<unsigned char>(text[at])) || text[at] == '\0') {
        ++at;
      } else if (text.compare(at, 2, "//") == 0) {
        at = std::min(text.find('\n', at), text.size());
      } else if (text.compare(at, 2, "/*") == 0) {
        std::size_t end = text.find("*/", at + 2);
        for (; at < std::min(end, text.size()); ++at)
          line += text[at] == '\n';
        at = end == std::string_view::npos ? text.size() : end + 2;
      } else {
        return;
      }
    }
  }

  std::string_view text;
  std::size_t at = 0;
  unsigned line = 1;
  Token token;
};

class Parser {
public:
  explicit Parser(std::string_view text) : lexer(text) {}

  Syntax parse() {
    Syntax syntax;
    while (lexer.peek().kind != Token::End)
      parseTopLevel(syntax);
    return syntax;
  }

private:
  [[noreturn]] void refuse(const std::string &what) const { throw Refused(lexer.peek().line, what); }
  bool at(std::string_view text) const {
    return lexer.peek().text == text && lexer.peek().kind != Token::String;
  }
  bool accept(std::string_view text) {
    if (!at(text))
      return false;
    lexer.take();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text))
      refuse("expected '" + std::string(text) + "', found '" + std::string(lexer.peek().text) + "'");
  }
  std::string_view word() {
    if (lexer.peek().kind != Token::Word)
      refuse("expected a name, found '" + std::string(lexer.peek().text) + "'");
    return lexer.take().text;
  }

  /// Integers, and floating-point literals as the bits of a Single or Double.
  Operand number() {
    bool minus = false;
    while (at("-") || at("+"))
      minus ^= lexer.take().text == "-";
    if (lexer.peek().kind != Token::Number)
      refuse("expected a number, found '" + std::string(lexer.peek().text) + "'");
    std::string text(lexer.take().text);
    Operand operand;
    if (text.size() > 2 && text[0] == '0' && std::strchr("fFdD", text[1])) {
      bool single = text[1] == 'f' || text[1] == 'F';
      operand.kind = single ? Operand::Single : Operand::Double;
      std::uint64_t bits = std::strtoull(text.c_str() + 2, nullptr, 16);
      operand.value = static_cast<std::int64_t>(minus ? bits ^ (single ? 1ull << 31 : 1ull << 63) : bits);
      return operand;
    }
    if (text.find('.') != std::string::npos) {
      double value = std::strtod(text.c_str(), nullptr);
      value = minus ? -value : value;
      operand.kind = Operand::Double;
      std::memcpy(&operand.value, &value, sizeof value);
      return operand;
    }
    if (text.back() == 'U')
      text.pop_back();
    bool binary = text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B');
    operand.kind = Operand::Integer;
    char *end = nullptr;
    std::uint64_t value = std::strtoull(text.c_str() + (binary ? 2 : 0), &end, binary ? 2 : 0);
    if (*end)
      refuse("no number: '" + text + "'");
    operand.value = static_cast<std::int64_t>(minus ? 0 - value : value);
    return operand;
  }
  std::uint64_t integer() {
    Operand operand = number();
    if (operand.kind != Operand::Integer)
      refuse("expected an integer");
    return static_cast<std::uint64_t>(operand.value);
  }

  Dim3 dimensions() {
    Dim3 result;
    result.x = static_cast<std::uint32_t>(integer());
    if (accept(","))
      result.y = static_cast<std::uint32_t>(integer());
    if (accept(","))
      result.z = static_cast<std::uint32_t>(integer());
    return result;
  }

  void skipBraces() {
    expect("{");
    for (int depth = 1; depth; lexer.take()) {
      if (lexer.peek().kind == Token::End)
        refuse("a section without its end");
      depth += at("{") ? 1 : at("}") ? -1 : 0;
    }
  }

  void parseTopLevel(Syntax &syntax) {
    if (accept(";"))
      return;
    if (at(".version") || at(".target") || at(".address_size") || at(".file") || at(".loc"))
      return lexer.skipLine();
    if (accept(".section")) {
      word();
      return skipBraces();
    }
    if (accept(".pragma")) {
      lexer.take();
      return expect(";");
    }
    bool external = false;
    while (at(".visible") || at(".weak") || at(".extern") || at(".common"))
      external |= lexer.take().text == ".extern";
    if (at(".entry") || at(".func"))
      syntax.functions.push_back(function());
    else if (at(".global") || at(".const") || at(".shared"))
      for (SyntaxVariable &variable : variables(external))
        syntax.variables.push_back(std::move(variable));
    else
      refuse("unknown directive '" + std::string(lexer.peek().text) + "'");
  }

  SyntaxFunction function() {
    SyntaxFunction function;
    function.line = lexer.peek().line;
    function.entry = lexer.take().text == ".entry";
    if (at("("))
      function.results = parameterList();
    function.name = word();
    if (at("("))
      function.parameters = parameterList();
    while (!at("{") && !at(";"))
      functionDirective(function);
    if (accept(";"))
      return function;
    function.defined = true;
    expect("{");
    for (int depth = 1; depth;) {
      if (lexer.peek().kind == Token::End)
        refuse("a function without its end");
      Statement statement;
      statement.line = lexer.peek().line;
      if (accept("{")) {
        statement.kind = Statement::ScopeBegin;
        ++depth;
      } else if (accept("}")) {
        statement.kind = Statement::ScopeEnd;
        --depth;
      } else {
        parseStatement(function.body);
        continue;
      }
      if (depth)
        function.body.push_back(statement);
    }
    return function;
  }

  void functionDirective(SyntaxFunction &function) {
    if (accept(".reqntid"))
      function.requiredBlock = dimensions();
    else if (accept(".maxntid"))
      function.maximalThreads = dimensions().count();
    else if (at(".minnctapersm") || at(".maxnctapersm") || at(".maxnreg")) {
      lexer.take();
      integer();
    } else if (accept(".pragma")) {
      lexer.take();
      expect(";");
    } else if (!accept(".noreturn"))
      refuse("unknown directive of a function: '" + std::string(lexer.peek().text) + "'");
  }

  std::vector<SyntaxVariable> parameterList() {
    std::vector<SyntaxVariable> list;
    expect("(");
    while (!accept(")")) {
      list.push_back(variable(word()));
      if (!at(")"))
        expect(",");
    }
    return list;
  }

  /// What follows the state space, up to the initializer.
  SyntaxVariable variable(std::string_view space) {
    SyntaxVariable variable;
    variable.line = lexer.peek().line;
    variable.space = space;
    std::size_t vector = 1;
    bool pointer = false;
    while (lexer.peek().text.substr(0, 1) == ".") {
      if (accept(".align")) {
        // The alignment after .ptr is that of what the parameter points to.
        std::size_t alignment = integer();
        if (!pointer)
          variable.alignment = alignment;
      } else if (accept(".ptr"))
        pointer = true;
      else if (accept(".v2"))
        vector = 2;
      else if (accept(".v4"))
        vector = 4;
      else if (pointer && (at(".global") || at(".shared") || at(".const") || at(".local")))
        lexer.take();
      else if (accept(".attribute")) {
        while (!accept(")"))
          lexer.take();
      } else {
        variable.type = word();
        variable.elementSize = typeSize(variable.type) * vector;
        if (!variable.elementSize)
          refuse("unknown type '" + std::string(variable.type) + "'");
      }
    }
    variable.alignment = std::max(variable.alignment, variable.elementSize);
    variable.name = word();
    while (accept("[")) {
      if (accept("]")) {
        variable.unsized = true;
        continue;
      }
      variable.count *= integer();
      expect("]");
    }
    return variable;
  }

  std::vector<SyntaxVariable> variables(bool external) {
    std::vector<SyntaxVariable> list;
    std::string_view space = word();
    list.push_back(variable(space));
    if (accept("=")) {
      initializer(list.back());
      if (list.back().unsized)
        list.back().count = list.back().values.size();
    } else if (list.back().unsized && space != ".shared") {
      refuse("an array without a size");
    }
    while (accept(",")) {
      SyntaxVariable another = list.back();
      another.name = word();
      another.values.clear();
      list.push_back(another);
    }
    expect(";");
    for (SyntaxVariable &variable : list)
      variable.external = external;
    return list;
  }

  void initializer(SyntaxVariable &variable) {
    if (accept("{")) {
      while (!accept("}")) {
        initializer(variable);
        if (!at("}"))
          expect(",");
      }
      return;
    }
    SyntaxVariable::Value value;
    if (lexer.peek().kind == Token::Word) {
      value.generic = accept("generic");
      if (value.generic)
        expect("(");
      value.symbol = word();
      if (value.generic)
        expect(")");
      if (at("+") || at("-"))
        value.bits = static_cast<std::int64_t>(integer());
    } else {
      value.bits = number().value;
    }
    variable.values.push_back(value);
  }

  void parseStatement(std::vector<Statement> &body) {
    Statement statement;
    statement.line = lexer.peek().line;
    if (accept(";"))
      return;
    if (at(".loc") || at(".file"))
      return lexer.skipLine();
    if (accept(".pragma")) {
      lexer.take();
      return expect(";");
    }
    if (accept(".reg"))
      return registers(body);
    if (at(".local") || at(".shared") || at(".param") || at(".global") || at(".const")) {
      for (SyntaxVariable &variable : variables(false)) {
        statement.kind = Statement::Variable;
        statement.variable = std::move(variable);
        body.push_back(statement);
      }
      return;
    }
    if (accept("@")) {
      statement.negated = accept("!");
      statement.predicate = word();
    }
    statement.name = word();
    if (accept(":")) {
      statement.kind = Statement::Label;
      if (accept(".branchtargets")) {
        statement.kind = Statement::Targets;
        do
          statement.operands.push_back(operand());
        while (accept(","));
        expect(";");
      } else if (at(".callprototype")) {
        refuse("indirect calls are not executed");
      }
      body.push_back(statement);
      return;
    }
    statement.kind = Statement::Instruction;
    while (!accept(";")) {
      statement.operands.push_back(operand());
      if (!at(";"))
        expect(",");
    }
    body.push_back(statement);
  }

  void registers(std::vector<Statement> &body) {
    Statement statement;
    statement.kind = Statement::Registers;
    statement.line = lexer.peek().line;
    statement.registers.type = word();
    do {
      statement.registers.name = word();
      statement.registers.count.reset();
      if (accept("<")) {
        statement.registers.count = static_cast<unsigned>(integer());
        expect(">");
      }
      body.push_back(statement);
    } while (accept(","));
    expect(";");
  }

  Operand operand() {
    Operand operand;
    if (accept("{") || at("(")) {
      std::string_view close = accept("(") ? ")" : "}";
      operand.kind = Operand::Vector;
      while (!accept(close)) {
        operand.elements.push_back(this->operand());
        if (!at(close))
          expect(",");
      }
      return operand;
    }
    if (accept("[")) {
      operand.kind = Operand::Address;
      if (lexer.peek().kind == Token::Word) {
        operand.name = word();
        if (at("+") || at("-"))
          operand.value = static_cast<std::int64_t>(integer());
      } else {
        operand.value = static_cast<std::int64_t>(integer());
      }
      expect("]");
      return operand;
    }
    operand.negated = accept("!");
    if (lexer.peek().kind != Token::Word)
      return number();
    operand.name = word();
    if (operand.name == "_") {
      operand.kind = Operand::Sink;
    } else {
      operand.kind = Operand::Name;
      if (at("+") || at("-"))
        operand.value = static_cast<std::int64_t>(integer());
    }
    if (accept("|"))
      operand.second = word();
    return operand;
  }

  Lexer lexer;
};

} // namespace

std::size_t typeSize(std::string_view type) {
  if (!type.empty() && type[0] == '.')
    type.remove_prefix(1);
  if (type == "pred")
    return 1;
  if (type == "f16x2" || type == "bf16x2")
    return 4;
  if (type == "bf16")
    return 2;
  unsigned bits = 0;
  if (type.size() < 2 || !std::strchr("busf", type[0]) ||
      std::from_chars(type.data() + 1, type.data() + type.size(), bits).ptr != type.data() + type.size())
    return 0;
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

Syntax parse(std::string_view text) {
  return Parser(text).parse();
}

} // namespace colossal::ptx
