//===- ScalarProgram.cpp - the interpreter ----------------------------------===//
//
// Numbers are as exact as the types: see NumberType.
//
//===----------------------------------------------------------------------===//
#include "ScalarProgram.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace colossal;

/// Rounds to `digits` binary digits (the first included), to even; the least exponent of a normal number is
/// `leastExponent`, and what passes `greatest` is infinite.
static double roundDigits(double value, int digits, int leastExponent, double greatest) {
  if (!std::isfinite(value) || value == 0)
    return value;
  int exponent = std::ilogb(value);
  int unit = (exponent < leastExponent ? leastExponent : exponent) - (digits - 1);
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::fabs(rounded) > greatest)
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  return std::copysign(rounded, value);
}

double colossal::roundTo(NumberType::Kind kind, double value) {
  switch (kind) {
  case NumberType::F32: return static_cast<float>(value);
  // Through f32, as conversions from f64 go in ONNX Runtime and in kernels.
  case NumberType::F16: return roundDigits(static_cast<float>(value), 11, -14, 65504.0);
  case NumberType::BF16: return roundDigits(static_cast<float>(value), 8, -126, 0x1.fep127);
  default: return value;
  }
}

uint64_t colossal::truncateTo(unsigned width, uint64_t value) {
  return width == 64 ? value : value & ((uint64_t(1) << width) - 1);
}

int64_t colossal::signExtend(unsigned width, uint64_t value) {
  return static_cast<int64_t>(value << (64 - width)) >> (64 - width);
}

static uint64_t convertToInteger(double value, NumberType to) {
  if (to.width == 1)
    return value != 0; // NaN is true
  double whole = std::trunc(value);
  if (to.width == 64 && to.isUnsigned && whole >= 0x1p63)
    return whole < 0x1p64 ? static_cast<uint64_t>(whole) : uint64_t(1) << 63;
  bool through32 = to.width < 32 || (to.width == 32 && !to.isUnsigned);
  double limit = through32 ? 0x1p31 : 0x1p63;
  if (!(whole >= -limit && whole < limit))
    return truncateTo(to.width, through32 ? uint64_t(1) << 31 : uint64_t(1) << 63);
  return truncateTo(to.width, static_cast<uint64_t>(static_cast<int64_t>(whole)));
}

Cell colossal::convertNumber(Cell value, NumberType from, NumberType to) {
  Cell out;
  if (from.isFloat()) {
    if (to.isFloat())
      out.real = roundTo(to.kind, value.real);
    else
      out.integer = convertToInteger(value.real, to);
    return out;
  }
  bool isUnsigned = from.isUnsigned || from.width == 1;
  if (!to.isFloat()) {
    uint64_t wide = isUnsigned ? value.integer : static_cast<uint64_t>(signExtend(from.width, value.integer));
    out.integer = to.width == 1 ? wide != 0 : truncateTo(to.width, wide);
    return out;
  }
  if (to.kind == NumberType::F64)
    out.real = isUnsigned ? static_cast<double>(value.integer)
                          : static_cast<double>(signExtend(from.width, value.integer));
  else // once, not through double
    out.real = roundTo(to.kind, isUnsigned ? static_cast<float>(value.integer)
                                           : static_cast<float>(signExtend(from.width, value.integer)));
  return out;
}

static const llvm::fltSemantics &semanticsOf(NumberType::Kind kind) {
  switch (kind) {
  case NumberType::F32: return llvm::APFloat::IEEEsingle();
  case NumberType::F16: return llvm::APFloat::IEEEhalf();
  case NumberType::BF16: return llvm::APFloat::BFloat();
  default: return llvm::APFloat::IEEEdouble();
  }
}

Cell colossal::bitcastNumber(Cell value, NumberType from, NumberType to) {
  uint64_t bits = value.integer;
  bool loses;
  if (from.isFloat()) {
    llvm::APFloat number(value.real);
    number.convert(semanticsOf(from.kind), llvm::APFloat::rmNearestTiesToEven, &loses);
    bits = number.bitcastToAPInt().getZExtValue();
  }
  Cell out;
  if (to.isFloat()) {
    const llvm::fltSemantics &semantics = semanticsOf(to.kind);
    llvm::APFloat number(semantics, llvm::APInt(llvm::APFloat::getSizeInBits(semantics), bits));
    number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &loses);
    out.real = number.convertToDouble();
  } else {
    out.integer = truncateTo(to.width, bits);
  }
  return out;
}

ScalarInterpreter::ScalarInterpreter(const ScalarProgram &program, int64_t instructionLimit)
    : program(program), remaining(instructionLimit), slots(program.slots) {
  for (auto [slot, cell] : program.constants)
    slots[slot] = cell;
}

bool ScalarInterpreter::run(const std::vector<int64_t> &index, Cell &element) {
  const ScalarBlock &entry = program.blocks.front();
  for (size_t d = 0; d < index.size(); ++d)
    slots[entry.arguments[d]].integer = static_cast<uint64_t>(index[d]);
  if (!runBlock(entry))
    return false;
  element = slots[entry.yields.front()];
  return true;
}

bool ScalarInterpreter::runBlock(const ScalarBlock &block) {
  remaining -= static_cast<int64_t>(block.instructions.size()) + 1;
  if (remaining < 0)
    return false;
  for (const Instruction &instruction : block.instructions)
    if (!runInstruction(instruction))
      return false;
  return true;
}

bool ScalarInterpreter::runInstruction(const Instruction &in) {
  switch (in.opcode) {
  case Opcode::Load: return runLoad(in);
  case Opcode::Loop: return runLoop(in);
  case Opcode::Choose: {
    const ScalarBlock &taken = program.blocks[slots[in.operands[0]].integer ? in.immediate : in.otherwise];
    if (!runBlock(taken))
      return false;
    slots[in.results[0]] = slots[taken.yields[0]];
    return true;
  }
  case Opcode::Select:
    slots[in.results[0]] = slots[slots[in.operands[0]].integer ? in.operands[1] : in.operands[2]];
    return true;
  case Opcode::Copy: slots[in.results[0]] = slots[in.operands[0]]; return true;
  case Opcode::Convert:
    slots[in.results[0]] = convertNumber(slots[in.operands[0]], in.type, in.target);
    return true;
  case Opcode::Bitcast:
    slots[in.results[0]] = bitcastNumber(slots[in.operands[0]], in.type, in.target);
    return true;
  default: break;
  }
  if (in.opcode <= Opcode::Function || in.opcode == Opcode::CompareF)
    runFloat(in);
  else
    runInteger(in);
  return true;
}

bool ScalarInterpreter::runLoad(const Instruction &in) {
  const TensorReader &tensor = program.tensors[in.immediate];
  size_t rank = tensor.shape.size();
  if (in.masked && !slots[in.operands[rank]].integer) {
    slots[in.results[0]] = slots[in.operands[rank + 1]];
    return true;
  }
  if (!tensor.read)
    return false;
  int64_t position = 0;
  for (size_t d = 0; d < rank; ++d) {
    int64_t at = static_cast<int64_t>(slots[in.operands[d]].integer);
    if (at < 0 || at >= tensor.shape[d])
      return false;
    position = position * tensor.shape[d] + at;
  }
  slots[in.results[0]] = tensor.read(position);
  return true;
}

bool ScalarInterpreter::runLoop(const Instruction &in) {
  const ScalarBlock &body = program.blocks[in.immediate];
  std::vector<Cell> carried;
  for (unsigned operand : in.operands)
    carried.push_back(slots[operand]);
  for (int64_t counter = 0; counter < in.extent; ++counter) {
    slots[body.arguments[0]].integer = static_cast<uint64_t>(counter);
    for (size_t i = 0; i < carried.size(); ++i)
      slots[body.arguments[i + 1]] = carried[i];
    if (!runBlock(body))
      return false;
    for (size_t i = 0; i < carried.size(); ++i)
      carried[i] = slots[body.yields[i]];
  }
  for (size_t i = 0; i < carried.size(); ++i)
    slots[in.results[i]] = carried[i];
  return true;
}

static double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  return a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b);
}

/// Predicates as arith numbers them: false, then oeq ogt oge olt ole one ord, then the unordered ones, then
/// true.
static bool compareFloats(int64_t predicate, double a, double b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case 0: return false;
  case 1: return a == b;
  case 2: return a > b;
  case 3: return a >= b;
  case 4: return a < b;
  case 5: return a <= b;
  case 6: return !unordered && a != b;
  case 7: return !unordered;
  case 8: return unordered || a == b;
  case 9: return unordered || a > b;
  case 10: return unordered || a >= b;
  case 11: return unordered || a < b;
  case 12: return unordered || a <= b;
  case 13: return unordered || a != b;
  case 14: return unordered;
  default: return true;
  }
}

void ScalarInterpreter::runFloat(const Instruction &in) {
  double a = slots[in.operands[0]].real, b = in.operands.size() > 1 ? slots[in.operands[1]].real : 0;
  Cell &out = slots[in.results[0]];
  auto set = [&](double value) { out.real = roundTo(in.type.kind, value); };
  switch (in.opcode) {
  case Opcode::AddF: return set(a + b);
  case Opcode::SubF: return set(a - b);
  case Opcode::MulF: return set(a * b);
  case Opcode::DivF: return set(a / b);
  case Opcode::RemF: return set(std::fmod(a, b));
  case Opcode::NegF: return set(-a);
  case Opcode::AbsF: return set(std::fabs(a));
  case Opcode::MaximumF: return set(maximum(a, b));
  case Opcode::MinimumF: return set(-maximum(-a, -b));
  case Opcode::Pow: return set(std::pow(a, b));
  case Opcode::Function: return set(in.function(a));
  default: out.integer = compareFloats(in.immediate, a, b); return;
  }
}

/// Predicates as arith numbers them: eq ne slt sle sgt sge ult ule ugt uge.
static bool compareIntegers(int64_t predicate, unsigned width, uint64_t a, uint64_t b) {
  int64_t x = signExtend(width, a), y = signExtend(width, b);
  switch (predicate) {
  case 0: return a == b;
  case 1: return a != b;
  case 2: return x < y;
  case 3: return x <= y;
  case 4: return x > y;
  case 5: return x >= y;
  case 6: return a < b;
  case 7: return a <= b;
  case 8: return a > b;
  default: return a >= b;
  }
}

void ScalarInterpreter::runInteger(const Instruction &in) {
  unsigned width = in.type.width;
  uint64_t a = slots[in.operands[0]].integer, b = in.operands.size() > 1 ? slots[in.operands[1]].integer : 0;
  int64_t x = signExtend(width, a), y = signExtend(width, b);
  uint64_t &out = slots[in.results[0]].integer;
  auto set = [&](uint64_t value) { out = truncateTo(width, value); };
  // What would trap or is undefined (emission guards it) gives 0.
  bool overflows = y == -1 && x == signExtend(width, uint64_t(1) << (width - 1));
  bool inWidth = b < width;
  switch (in.opcode) {
  case Opcode::Add: return set(a + b);
  case Opcode::Sub: return set(a - b);
  case Opcode::Mul: return set(a * b);
  case Opcode::DivS: return set(b == 0 || overflows ? 0 : x / y);
  case Opcode::DivU: return set(b == 0 ? 0 : a / b);
  case Opcode::RemS: return set(b == 0 || overflows ? 0 : x % y);
  case Opcode::RemU: return set(b == 0 ? 0 : a % b);
  case Opcode::And: return set(a & b);
  case Opcode::Or: return set(a | b);
  case Opcode::Xor: return set(a ^ b);
  case Opcode::Shl: return set(inWidth ? a << b : 0);
  case Opcode::ShrU: return set(inWidth ? a >> b : 0);
  case Opcode::ShrS: return set(inWidth ? x >> b : 0);
  case Opcode::MaxS: return set(x > y ? a : b);
  case Opcode::MaxU: return set(a > b ? a : b);
  case Opcode::MinS: return set(x < y ? a : b);
  case Opcode::MinU: return set(a < b ? a : b);
  case Opcode::AbsI: return set(x < 0 ? uint64_t(0) - a : a);
  default: out = compareIntegers(in.immediate, width, a, b); return;
  }
}
