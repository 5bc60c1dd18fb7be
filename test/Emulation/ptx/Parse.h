// The syntax of a PTX module: declarations, and instructions as opcode and operands. Knows the grammar, and
// nothing about what instructions mean. All views point into the text, which must outlive the tree.
#ifndef COLOSSAL_EMULATION_PTX_PARSE_H
#define COLOSSAL_EMULATION_PTX_PARSE_H

#include "Ptx.h"

#include <stdexcept>

namespace colossal::ptx {

/// What is refused, and where; thrown while a module is loaded, and turned into a diagnostic there.
struct Refused : std::runtime_error {
  Refused(unsigned line, const std::string &what) : std::runtime_error(what), line(line) {}
  unsigned line;
};

struct Operand {
  enum Kind { Name, Integer, Single, Double, Vector, Address, Sink } kind = Sink;
  std::string_view name;         ///< Name; or the base of an Address, empty if it is a number
  std::string_view second;       ///< of NAME|SECOND
  bool negated = false;          ///< !NAME
  std::int64_t value = 0;        ///< Integer; bits of Single and Double; the displacement of an Address
  std::vector<Operand> elements; ///< Vector; arguments and results of a call
};

struct SyntaxVariable {
  std::string_view space, type, name;
  unsigned line = 0;
  std::size_t alignment = 1, elementSize = 1, count = 1;
  bool external = false, unsized = false;
  struct Value {
    std::int64_t bits = 0;
    std::string_view symbol; ///< its address is added to `bits`
    bool generic = false;
  };
  std::vector<Value> values;
  std::size_t size() const { return elementSize * count; }
};

struct SyntaxRegisters {
  std::string_view type;
  std::string_view name;
  std::optional<unsigned> count; ///< NAME<count>: NAME0 to NAME(count-1)
};

struct Statement {
  enum Kind { Instruction, Label, Registers, Variable, ScopeBegin, ScopeEnd, Targets } kind;
  unsigned line = 0;
  std::string_view name; ///< opcode with its modifiers; label; name of branch targets
  std::string_view predicate;
  bool negated = false;
  std::vector<Operand> operands;
  SyntaxRegisters registers;
  SyntaxVariable variable;
};

struct SyntaxFunction {
  std::string_view name;
  unsigned line = 0;
  bool entry = false, defined = false;
  std::vector<SyntaxVariable> parameters, results;
  std::optional<Dim3> requiredBlock;
  std::optional<std::uint64_t> maximalThreads;
  std::vector<Statement> body;
};

struct Syntax {
  std::vector<SyntaxVariable> variables;
  std::vector<SyntaxFunction> functions;
};

/// Bytes of a value of a fundamental type such as ".b32" or "u64"; 0 if there is no such type.
std::size_t typeSize(std::string_view type);

/// Throws Refused where the text is no PTX.
Syntax parse(std::string_view text);

} // namespace colossal::ptx

#endif
