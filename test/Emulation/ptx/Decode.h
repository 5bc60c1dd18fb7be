// From syntax to the compact form. A Selection is one instruction on its way: a family of instructions takes
// from it the modifiers and operands that it understands and leaves a handler. What no family takes is
// refused.
#ifndef COLOSSAL_EMULATION_PTX_DECODE_H
#define COLOSSAL_EMULATION_PTX_DECODE_H

#include "Parse.h"
#include "Program.h"

#include <map>
#include <unordered_map>

namespace colossal::ptx {

enum class Type : std::uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  BF16,
  F16x2,
  BF16x2,
  F32,
  F64,
  F32x2,
  Tf32,
  E4M3,
  E5M2,
  E4M3x2,
  E5M2x2,
  S16x2,
  U16x2
};
/// Bytes of a value; of Tf32 four, of a predicate none.
unsigned bytesOf(Type type);
bool isFloat(Type type);
bool isSigned(Type type);

/// What a name stands for that has an address.
struct Symbol {
  Space space = Space::Generic;
  std::uint64_t address = 0; ///< in its space; of Local relative to the frame
  std::size_t size = 0;
};

struct Register {
  unsigned bytes = 0;
  bool predicate = false;
  Slot slot = kNoSlot;
};

class Decoder;

class Selection {
public:
  Selection(Decoder &decoder, const Statement &statement);

  std::string_view base() const { return opcode; }
  /// Takes a modifier away if it is there.
  bool take(std::string_view modifier);
  /// The first of these that is there; its number, or -1.
  int takeOne(std::initializer_list<std::string_view> modifiers);
  /// Takes the first modifier away that is a type, or gives Type::None.
  Type takeType();
  /// Takes away what only guides caches, scopes that all mean the same here, and hints.
  void takeHints();
  /// Refuses unless every modifier was taken.
  void finish() const;
  [[noreturn]] void refuse(const std::string &what) const;

  std::size_t count() const { return statement.operands.size(); }
  const Operand &operand(std::size_t index) const;
  /// Refuses another number of operands.
  void expect(std::size_t operands) const;
  void expect(std::size_t least, std::size_t most) const;

  /// A register or number of exactly the type's size.
  Slot source(const Operand &operand, Type type);
  Slot source(std::size_t index, Type type) { return source(operand(index), type); }
  /// A register as it is, or a number of the type's size; its size comes back.
  Slot sourceOfAnySize(const Operand &operand, Type type, unsigned &bytes);
  Slot destination(const Operand &operand, Type type);
  Slot destination(std::size_t index, Type type) { return destination(operand(index), type); }
  Slot destinationOfAnySize(const Operand &operand, unsigned &bytes);
  /// A predicate; `negated` says whether ! stands before it.
  Slot predicate(const Operand &operand, bool &negated);
  Slot predicateDestination(std::string_view name);
  /// An operand that must be a number.
  std::int64_t number(std::size_t index) const;
  bool isNumber(std::size_t index) const { return operand(index).kind == Operand::Integer; }
  /// The address operand in `space`, into result's base, a, immediate and space.
  void memory(const Operand &operand, Space space);
  /// Null if the name is no symbol.
  const Symbol *symbol(std::string_view name) const;
  /// Appends to the program's lists; the first sets result.list.
  void append(std::int32_t value);
  /// The special register of this name, if it is one that changes while the warp runs.
  bool isClock(const Operand &operand) const;
  /// Accesses of the instruction are multiples of so many bytes.
  void noteGranule(Space space, unsigned bytes);

  void jump(std::string_view label);
  void jumpTable(std::string_view name);
  std::uint32_t callSite();
  void noteFence();

  Instruction result;
  const Statement &statement;

private:
  Decoder &decoder;
  std::string_view opcode;
  std::vector<std::string_view> modifiers;
};

// The families. Each returns false if the opcode is none of its own.
bool selectInteger(Selection &selection);
bool selectFloat(Selection &selection);
bool selectCompare(Selection &selection);
bool selectConvert(Selection &selection);
bool selectAccess(Selection &selection);
bool selectAtomic(Selection &selection);
bool selectMatrix(Selection &selection);
bool selectCollective(Selection &selection);
bool selectControl(Selection &selection);

/// The compact form of a kernel. `variables` are the module's in global and constant memory. What is refused
/// is put into `diagnostics`; the program then is of no use.
Program decode(const Syntax &syntax, const SyntaxFunction &kernel,
               const std::map<std::string_view, Symbol> &variables, std::vector<Refused> &diagnostics);

} // namespace colossal::ptx

#endif
