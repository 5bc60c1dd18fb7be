//===- ScalarProgram.h - element code as a list of instructions -------------===//
//
// What the folder interprets: straight-line blocks over numbered slots, with loops and choices that run other
// blocks. No IR in it; ScalarEmitter builds it. A slot holds an integer (zero-extended from its width) or a
// float (as the double that equals it); instructions say which.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_CODEGEN_FOLDING_SCALARPROGRAM_H
#define COLOSSAL_CODEGEN_FOLDING_SCALARPROGRAM_H

#include <cstdint>
#include <functional>
#include <vector>

namespace colossal {

struct Cell {
  uint64_t integer = 0;
  double real = 0;
};

/// A number type. Arithmetic on f32, f16 and bf16 is done in double and rounded, which equals rounding once
/// for the four basic operations and the square root (double has more than twice their digits, and two).
struct NumberType {
  enum Kind : uint8_t { Integer, F64, F32, F16, BF16 };
  NumberType() = default;
  explicit NumberType(Kind kind) : kind(kind) {}
  NumberType(unsigned width, bool isUnsigned) : width(width), isUnsigned(isUnsigned) {}

  Kind kind = Integer;
  uint8_t width = 64; ///< of an integer
  bool isUnsigned = false;
  bool isFloat() const { return kind != Integer; }
};

double roundTo(NumberType::Kind kind, double value);
/// Zero-extended low bits.
uint64_t truncateTo(unsigned width, uint64_t value);
int64_t signExtend(unsigned width, uint64_t value);
/// Float to integer truncates; what does not fit wraps as conversion through i32 (width below 32) or i64
/// does, and conversions that do not fit these either give their least value. i1 is "differs from 0".
Cell convertNumber(Cell value, NumberType from, NumberType to);
/// The bits of a number seen as one of another type of the same width.
Cell bitcastNumber(Cell value, NumberType from, NumberType to);

enum class Opcode : uint8_t {
  // floats: result in `type`
  AddF,
  SubF,
  MulF,
  DivF,
  RemF,
  NegF,
  AbsF,
  MaximumF,
  MinimumF,
  Pow,
  Function,
  // integers of type.width
  Add,
  Sub,
  Mul,
  DivS,
  DivU,
  RemS,
  RemU,
  And,
  Or,
  Xor,
  Shl,
  ShrU,
  ShrS,
  MaxS,
  MaxU,
  MinS,
  MinU,
  AbsI,
  CompareF,
  CompareI, // `immediate` is the predicate, of arith's numbering
  Convert,  // from `type` to `target`
  Bitcast,  // the bits of a `type` seen as a `target` of the same width
  Select,
  Copy,
  Load,   // tensor `immediate`; operands: indices, then, if `masked`, mask and otherwise
  Loop,   // runs block `immediate` `extent` times; operands: the accumulators' first values
  Choose, // operand 0 selects block `immediate` or `otherwise`
};

struct Instruction {
  explicit Instruction(Opcode opcode = Opcode::Copy, NumberType type = NumberType(),
                       NumberType target = NumberType())
      : opcode(opcode), type(type), target(target) {}

  Opcode opcode;
  NumberType type, target;
  bool masked = false;
  int64_t immediate = 0;
  int64_t extent = 0;
  int64_t otherwise = 0;
  double (*function)(double) = nullptr;
  std::vector<unsigned> operands, results;
};

/// A run of instructions. A loop's block has the counter and the accumulators as arguments; a loop's or
/// choice's block yields the values of the loop or choice.
struct ScalarBlock {
  std::vector<Instruction> instructions;
  std::vector<unsigned> arguments, yields;
};

/// A tensor as the program reads it.
struct TensorReader {
  std::vector<int64_t> shape;
  std::function<Cell(int64_t)> read; ///< by row-major position; empty: contents unknown
};

struct ScalarProgram {
  std::vector<ScalarBlock>
      blocks; ///< the first is the entry: its arguments are the index, it yields the element
  std::vector<TensorReader> tensors;
  std::vector<std::pair<unsigned, Cell>> constants;
  unsigned slots = 0;
};

/// Runs a program, element after element.
class ScalarInterpreter {
public:
  ScalarInterpreter(const ScalarProgram &program, int64_t instructionLimit);
  /// Computes the element at `index`. False where an unknown tensor is read, a read is out of range, or the
  /// limit of instructions (over all calls) is passed.
  bool run(const std::vector<int64_t> &index, Cell &element);

private:
  bool runBlock(const ScalarBlock &block);
  bool runInstruction(const Instruction &instruction);
  bool runLoad(const Instruction &instruction);
  bool runLoop(const Instruction &instruction);
  void runFloat(const Instruction &instruction);
  void runInteger(const Instruction &instruction);

  const ScalarProgram &program;
  int64_t remaining;
  std::vector<Cell> slots;
};

} // namespace colossal

#endif // COLOSSAL_CODEGEN_FOLDING_SCALARPROGRAM_H
