//===- ScalarEmitter.cpp ----------------------------------------------------===//
//
// Emission into scratch blocks, and their translation into a program.
//
//===----------------------------------------------------------------------===//
#include "ScalarEmitter.h"

#include "dialects/Colossal/NarrowTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace colossal;

NumberType colossal::numberTypeOf(Type element) {
  NumberType type;
  if (element.isF64())
    type.kind = NumberType::F64;
  else if (element.isF32())
    type.kind = NumberType::F32;
  else if (element.isF16())
    type.kind = NumberType::F16;
  else if (element.isBF16())
    type.kind = NumberType::BF16;
  else if (auto integer = dyn_cast<IntegerType>(element)) {
    type.width = integer.getWidth();
    type.isUnsigned = integer.isUnsigned() || integer.getWidth() == 1;
  }
  return type;
}

static Cell readCell(Attribute value, bool isFloat) {
  Cell cell;
  if (isFloat)
    cell.real = cast<FloatAttr>(value).getValueAsDouble();
  else
    cell.integer = cast<IntegerAttr>(value).getValue().getZExtValue();
  return cell;
}

/// Reads elements of `value` by position; empty where it is not dense.
static std::function<Cell(int64_t)> readerOf(Attribute value) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(value);
  if (!dense)
    return {};
  Type element = dense.getElementType();
  if (isNarrow(element)) { // splats too: every position reads the one element
    if (isNarrowFloat(element)) {
      auto begin = dense.value_begin<APFloat>();
      return
          [begin, element](int64_t position) { return Cell{carrierBits(*(begin + position), element), 0}; };
    }
    auto begin = dense.value_begin<APInt>();
    return [begin, element](int64_t position) { return Cell{carrierBits(*(begin + position), element), 0}; };
  }
  if (dense.isSplat()) {
    Cell cell = readCell(dense.getSplatValue<Attribute>(), isa<FloatType>(dense.getElementType()));
    return [cell](int64_t) { return cell; };
  }
  if (isa<FloatType>(dense.getElementType())) {
    auto begin = dense.value_begin<APFloat>();
    return [begin](int64_t position) {
      APFloat value = *(begin + position);
      bool loses;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      return Cell{0, value.convertToDouble()};
    };
  }
  auto begin = dense.value_begin<APInt>();
  return [begin](int64_t position) { return Cell{(*(begin + position)).getZExtValue(), 0}; };
}

ScalarEmitter::ScalarEmitter(Operation *op, ArrayRef<Attribute> operands, unsigned rank)
    : op(op), operands(operands), b(op->getContext()) {
  Block *entry = newBlock();
  b.setInsertionPointToEnd(entry);
  for (unsigned d = 0; d < rank; ++d)
    entryIndex.push_back(uniform(entry->addArgument(b.getI64Type(), loc())));
  for (auto [value, attribute] : llvm::zip_equal(op->getOperands(), operands)) {
    TensorReader tensor;
    if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
      tensor.shape = type.getShape().vec();
      auto elements = dyn_cast_or_null<ElementsAttr>(attribute);
      if (elements && elements.getShapedType().getShape() == type.getShape() &&
          elements.getElementType() == type.getElementType())
        tensor.read = readerOf(attribute);
    }
    program.tensors.push_back(std::move(tensor));
  }
}

ScalarEmitter::~ScalarEmitter() {
  for (auto &block : blocks)
    block->dropAllReferences();
}

Block *ScalarEmitter::newBlock() {
  blocks.push_back(std::make_unique<Block>());
  yields.emplace_back();
  return blocks.back().get();
}

void ScalarEmitter::inBlock(Block *block, llvm::function_ref<void()> emit) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(block);
  emit();
}

SmallVector<Value> ScalarEmitter::place(Instruction instruction, TypeRange results, ValueRange inputs) {
  auto cast = UnrealizedConversionCastOp::create(b, loc(), results, inputs);
  placed[cast] = std::move(instruction);
  return llvm::to_vector_of<Value>(cast.getResults());
}

Value ScalarEmitter::constantCell(Type type, Cell cell) {
  Value value = blocks.front()->addArgument(type, loc());
  program.constants.push_back({slotOf(value), cell});
  return value;
}

Value ScalarEmitter::index64(int64_t value) {
  Value &constant = indexConstants[value];
  if (!constant)
    constant = constantCell(b.getI64Type(), Cell{static_cast<uint64_t>(value), 0});
  return constant;
}

//===----------------------------------------------------------------------===//
// Reads and control
//===----------------------------------------------------------------------===//

Value ScalarEmitter::load(Value tensor, ArrayRef<Lane> index, Value mask, Value otherwise) {
  Type element = elementTypeOf(tensor);
  Instruction instruction(Opcode::Load);
  auto found = llvm::find(op->getOperands(), tensor);
  if (found == op->operand_end()) {
    isComplete = false;
    return constantCell(carrierOf(element), {});
  }
  instruction.immediate = found.getIndex();
  SmallVector<Value> inputs;
  for (const Lane &lane : index)
    inputs.push_back(lane.base);
  if (mask) {
    instruction.masked = true;
    inputs.append({mask, otherwise ? otherwise : scalar(element, 0)});
  }
  return place(std::move(instruction), carrierOf(element), inputs)[0];
}

Value ScalarEmitter::scalarOperand(Value value) {
  Attribute known;
  auto found = llvm::find(op->getOperands(), value);
  if (found != op->operand_end())
    known = operands[found.getIndex()];
  if (auto integer = dyn_cast_or_null<IntegerAttr>(known))
    return index64(integer.getValue().getSExtValue());
  isComplete = false;
  return index64(0);
}

SmallVector<Value> ScalarEmitter::reduce(int64_t extent, ValueRange init,
                                         llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  Instruction instruction(Opcode::Loop);
  instruction.extent = extent;
  instruction.immediate = blocks.size();
  Block *block = newBlock();
  unsigned number = blocks.size() - 1;
  Value counter = block->addArgument(b.getI64Type(), loc());
  for (Value value : init)
    block->addArgument(value.getType(), loc());
  inBlock(block, [&] {
    SmallVector<Value> next = body(counter, block->getArguments().drop_front());
    yields[number] = next;
  });
  return place(std::move(instruction), init.getTypes(), init);
}

Value ScalarEmitter::choose(Value condition, Thunk then, Thunk otherwise) {
  Instruction instruction(Opcode::Choose);
  auto arm = [&](Thunk thunk) {
    Block *block = newBlock();
    unsigned number = blocks.size() - 1;
    inBlock(block, [&] {
      Value value = thunk();
      yields[number] = {value};
    });
    return number;
  };
  instruction.immediate = arm(then);
  instruction.otherwise = arm(otherwise);
  Type type = yields[instruction.immediate][0].getType();
  return place(std::move(instruction), type, condition)[0];
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

Lane ScalarEmitter::constant(int64_t value) {
  return uniform(index64(value));
}

Lane ScalarEmitter::binary(Opcode opcode, Lane x, Lane y) {
  return uniform(place(Instruction(opcode), b.getI64Type(), {x.base, y.base})[0]);
}

Lane ScalarEmitter::add(Lane x, Lane y) {
  return binary(Opcode::Add, x, y);
}
Lane ScalarEmitter::mul(Lane a, int64_t factor) {
  return binary(Opcode::Mul, a, constant(factor));
}
Lane ScalarEmitter::floorDiv(Lane a, int64_t divisor) {
  return binary(Opcode::DivU, a, constant(divisor));
}
Lane ScalarEmitter::mod(Lane a, int64_t divisor) {
  return binary(Opcode::RemU, a, constant(divisor));
}

Lane ScalarEmitter::fromValue(Value integer) {
  return uniform(convert(integer, integer.getType(), b.getI64Type()));
}

Value ScalarEmitter::toValue(Lane lane, Type integerType) {
  return convert(lane.base, b.getI64Type(), integerType);
}

Value ScalarEmitter::inRange(Lane lane, int64_t low, int64_t high) {
  auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) {
    Instruction instruction(Opcode::CompareI);
    instruction.immediate = static_cast<int64_t>(predicate);
    return place(std::move(instruction), b.getI1Type(), {lane.base, index64(bound)})[0];
  };
  Value above = compare(arith::CmpIPredicate::sge, low), below = compare(arith::CmpIPredicate::slt, high);
  return arith::AndIOp::create(b, loc(), above, below);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value ScalarEmitter::convertNumber(Value value, Type from, Type to) {
  if (from == to || (isa<IntegerType>(from) && carrierOf(from) == carrierOf(to)))
    return value;
  return place(Instruction(Opcode::Convert, numberTypeOf(from), numberTypeOf(to)), carrierOf(to), value)[0];
}

Value ScalarEmitter::scalarNumber(Type element, double value) {
  NumberType type = numberTypeOf(element);
  NumberType exact(NumberType::F64);
  // Integers modulo 2^width; what lies beyond i64 as u64.
  NumberType wide(64, value > 0);
  Cell cell{0, value};
  cell = type.isFloat() ? colossal::convertNumber(cell, exact, type)
                        : colossal::convertNumber(cell, exact, wide);
  if (!type.isFloat())
    cell.integer = truncateTo(type.width, cell.integer);
  return constantCell(carrierOf(element), cell);
}

static double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
static double softplus(double x) {
  return std::isnan(x) ? x : std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
}
static double geluErf(double x) {
  return 0.5 * x * std::erfc(-x * M_SQRT1_2);
}
static double geluTanh(double x) {
  return x * sigmoid(2 * std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x));
}
static double silu(double x) {
  return x * sigmoid(x);
}
static double rsqrt(double x) {
  return 1 / std::sqrt(x);
}

static double (*functionOf(MathFunction function))(double) {
  switch (function) {
  case MathFunction::Exp: return std::exp;
  case MathFunction::Log: return std::log;
  case MathFunction::Erf: return std::erf;
  case MathFunction::Sin: return std::sin;
  case MathFunction::Cos: return std::cos;
  case MathFunction::Tan: return std::tan;
  case MathFunction::Asin: return std::asin;
  case MathFunction::Acos: return std::acos;
  case MathFunction::Atan: return std::atan;
  case MathFunction::Sinh: return std::sinh;
  case MathFunction::Cosh: return std::cosh;
  case MathFunction::Tanh: return std::tanh;
  case MathFunction::Asinh: return std::asinh;
  case MathFunction::Acosh: return std::acosh;
  case MathFunction::Atanh: return std::atanh;
  case MathFunction::Sigmoid: return sigmoid;
  case MathFunction::Softplus: return softplus;
  case MathFunction::GeluErf: return geluErf;
  case MathFunction::GeluTanh: return geluTanh;
  case MathFunction::Silu: return silu;
  case MathFunction::Sqrt: return std::sqrt;
  case MathFunction::Rsqrt: return rsqrt;
  case MathFunction::Floor: return std::floor;
  case MathFunction::Ceil: return std::ceil;
  case MathFunction::RoundEven: return std::nearbyint;
  }
  return nullptr;
}

Value ScalarEmitter::math(MathFunction function, Value x) {
  Instruction instruction(Opcode::Function, numberTypeOf(x.getType()));
  instruction.function = functionOf(function);
  return place(std::move(instruction), x.getType(), x)[0];
}

Value ScalarEmitter::pow(Value base, Value exponent) {
  return place(Instruction(Opcode::Pow, numberTypeOf(base.getType())), base.getType(), {base, exponent})[0];
}

Value ScalarEmitter::maximum(Value x, Value y) {
  return place(Instruction(Opcode::MaximumF, numberTypeOf(x.getType())), x.getType(), {x, y})[0];
}

Value ScalarEmitter::minimum(Value x, Value y) {
  return place(Instruction(Opcode::MinimumF, numberTypeOf(x.getType())), x.getType(), {x, y})[0];
}

//===----------------------------------------------------------------------===//
// Translation
//===----------------------------------------------------------------------===//

unsigned ScalarEmitter::slotOf(Value value) {
  return slots.try_emplace(value, slots.size()).first->second;
}

static std::optional<Opcode> opcodeOf(StringRef name) {
  return llvm::StringSwitch<std::optional<Opcode>>(name)
      .Case("arith.addf", Opcode::AddF)
      .Case("arith.subf", Opcode::SubF)
      .Case("arith.mulf", Opcode::MulF)
      .Case("arith.divf", Opcode::DivF)
      .Case("arith.remf", Opcode::RemF)
      .Case("arith.negf", Opcode::NegF)
      .Case("math.absf", Opcode::AbsF)
      .Case("arith.maximumf", Opcode::MaximumF)
      .Case("arith.minimumf", Opcode::MinimumF)
      .Case("math.powf", Opcode::Pow)
      .Case("arith.addi", Opcode::Add)
      .Case("arith.subi", Opcode::Sub)
      .Case("arith.muli", Opcode::Mul)
      .Case("arith.divsi", Opcode::DivS)
      .Case("arith.divui", Opcode::DivU)
      .Case("arith.remsi", Opcode::RemS)
      .Case("arith.remui", Opcode::RemU)
      .Case("arith.andi", Opcode::And)
      .Case("arith.ori", Opcode::Or)
      .Case("arith.xori", Opcode::Xor)
      .Case("arith.shli", Opcode::Shl)
      .Case("arith.shrui", Opcode::ShrU)
      .Case("arith.shrsi", Opcode::ShrS)
      .Case("arith.maxsi", Opcode::MaxS)
      .Case("arith.maxui", Opcode::MaxU)
      .Case("arith.minsi", Opcode::MinS)
      .Case("arith.minui", Opcode::MinU)
      .Case("math.absi", Opcode::AbsI)
      .Case("arith.cmpf", Opcode::CompareF)
      .Case("arith.cmpi", Opcode::CompareI)
      .Case("arith.select", Opcode::Select)
      .Case("arith.bitcast", Opcode::Bitcast)
      .Default(std::nullopt);
}

LogicalResult ScalarEmitter::translate(Operation &source, Instruction &instruction) {
  auto known = placed.find(&source);
  if (known != placed.end()) {
    instruction = known->second;
  } else {
    std::optional<Opcode> opcode = opcodeOf(source.getName().getStringRef());
    if (!opcode)
      return failure();
    instruction.opcode = *opcode;
    instruction.type = numberTypeOf(source.getOperand(0).getType());
    instruction.target = numberTypeOf(source.getResult(0).getType());
    if (auto compare = dyn_cast<arith::CmpFOp>(source))
      instruction.immediate = static_cast<int64_t>(compare.getPredicate());
    if (auto compare = dyn_cast<arith::CmpIOp>(source))
      instruction.immediate = static_cast<int64_t>(compare.getPredicate());
  }
  for (Value operand : source.getOperands())
    instruction.operands.push_back(slotOf(operand));
  for (Value result : source.getResults())
    instruction.results.push_back(slotOf(result));
  return success();
}

FailureOr<ScalarProgram> ScalarEmitter::finish(Value element) {
  if (!isComplete)
    return failure();
  yields.front() = {element};
  for (unsigned number = 0; number < blocks.size(); ++number) {
    ScalarBlock block;
    for (BlockArgument argument : blocks[number]->getArguments())
      block.arguments.push_back(slotOf(argument));
    for (Operation &source : *blocks[number]) {
      if (auto constant = dyn_cast<arith::ConstantOp>(source)) {
        if (!constant.getType().isIntOrFloat())
          return failure();
        program.constants.push_back(
            {slotOf(constant), readCell(constant.getValue(), isa<FloatType>(constant.getType()))});
        continue;
      }
      Instruction instruction(Opcode::Copy);
      if (failed(translate(source, instruction)))
        return failure();
      block.instructions.push_back(std::move(instruction));
    }
    for (Value value : yields[number])
      block.yields.push_back(slotOf(value));
    program.blocks.push_back(std::move(block));
  }
  program.slots = slots.size();
  return std::move(program);
}
