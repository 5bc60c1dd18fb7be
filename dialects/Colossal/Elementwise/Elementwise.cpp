//===- Elementwise.cpp ---------------------------------------------------===//
//
// Elementwise ops: one op, many kinds. All that is known about these ops stands here: verification, folding,
// sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "ElementwiseKinds.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "dialects/Colossal/Verification.h"
#include "dialects/Dist/LayoutMarks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/Utils/InferIntRangeCommon.h"
#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

namespace {
/// What a kind takes and gives (C2 to C4).
struct Signature {
  enum Elements { Any, Floats, Numbers, Integers, Booleans };

  unsigned operands;
  Elements elements = Numbers; ///< of the data operands
  bool givesBooleans = false;  ///< otherwise the data operands' type
  unsigned params = 0;         ///< at most
};

Signature getSignature(ElementwiseKind kind) {
  using K = ElementwiseKind;
  switch (kind) {
  case K::Abs:
  case K::Neg:
  case K::Reciprocal:
  case K::Ceil:
  case K::Floor:
  case K::Round:
  case K::Sign:
  case K::Relu:
  case K::Softsign: return {1};
  case K::HardSwish:
  case K::Sqrt:
  case K::Exp:
  case K::Log:
  case K::Erf:
  case K::Sin:
  case K::Cos:
  case K::Tan:
  case K::Asin:
  case K::Acos:
  case K::Atan:
  case K::Sinh:
  case K::Cosh:
  case K::Tanh:
  case K::Asinh:
  case K::Acosh:
  case K::Atanh:
  case K::Sigmoid:
  case K::Softplus:
  case K::Gelu:
  case K::GeluTanh:
  case K::Mish: return {1, Signature::Floats};
  case K::LeakyRelu:
  case K::Elu:
  case K::Celu:
  case K::Swish:
  case K::ThresholdedRelu: return {1, Signature::Floats, false, 1};
  case K::Selu:
  case K::HardSigmoid: return {1, Signature::Floats, false, 2};
  case K::Shrink: return {1, Signature::Numbers, false, 2};
  case K::Not: return {1, Signature::Booleans};
  case K::IsNaN: return {1, Signature::Floats, true};
  case K::IsInf: return {1, Signature::Floats, true, 2};
  case K::BitNot: return {1, Signature::Integers};
  case K::Cast: return {1, Signature::Any, false, 2};
  case K::Bitcast: return {1, Signature::Any};
  case K::Add:
  case K::Sub:
  case K::Mul:
  case K::Div:
  case K::Pow:
  case K::Mod:
  case K::Fmod:
  case K::Max:
  case K::Min:
  case K::PRelu: return {2};
  case K::And:
  case K::Or:
  case K::Xor: return {2, Signature::Booleans};
  case K::Equal: return {2, Signature::Any, true};
  case K::Less:
  case K::LessOrEqual:
  case K::Greater:
  case K::GreaterOrEqual: return {2, Signature::Numbers, true};
  case K::BitAnd:
  case K::BitOr:
  case K::BitXor:
  case K::ShiftLeft:
  case K::ShiftRight: return {2, Signature::Integers};
  case K::Select: return {3, Signature::Any};
  case K::Clip: return {3};
  }
  llvm_unreachable("unknown kind");
}

bool fits(Type type, Signature::Elements elements) {
  switch (elements) {
  case Signature::Any: return true;
  case Signature::Floats: return isa<FloatType>(type) && isComputable(type);
  case Signature::Numbers: return !type.isInteger(1) && isComputable(type);
  case Signature::Integers: return isa<IntegerType>(type) && !type.isInteger(1) && isComputable(type);
  case Signature::Booleans: return type.isInteger(1);
  }
  llvm_unreachable("unknown class of types");
}
} // namespace

static std::string quoted(Type type) {
  std::string text = "'";
  llvm::raw_string_ostream(text) << type << "'";
  return text;
}

std::string colossal::checkElements(ElementwiseKind kind, ArrayRef<Type> data, Type found) {
  std::string text;
  llvm::raw_string_ostream out(text);
  StringRef name = stringifyElementwiseKind(kind);
  Signature signature = getSignature(kind);
  // A chain of one binary kind is one op too.
  if (signature.operands == 2 ? data.size() < 2 : data.size() != signature.operands) {
    out << name << " takes " << signature.operands << " operands, not " << data.size() << " (C2)";
    return text;
  }
  Type boolean = IntegerType::get(found.getContext(), 1);
  if (kind == ElementwiseKind::Select) {
    if (data[0] != boolean) {
      out << "the condition must be i1, but is " << quoted(data[0]) << " (C3)";
      return text;
    }
    data = data.drop_front();
  }
  Type type = data[0];
  bool converts = kind == ElementwiseKind::Cast || kind == ElementwiseKind::Bitcast;
  if (!fits(type, signature.elements) || (kind == ElementwiseKind::Equal && isNarrowFloat(type)) ||
      (converts && isString(type))) {
    out << name << " has no meaning for " << quoted(type) << " (C3)";
    return text;
  }
  for (Type other : data.drop_front())
    if (kind != ElementwiseKind::Pow && other != type) {
      out << "mixes elements of types " << quoted(type) << " and " << quoted(other) << " (C3)";
      return text;
    }
  Type expected = signature.givesBooleans ? boolean : type;
  if (converts ? isString(found) : found != expected) {
    if (converts)
      out << name << " does not give elements of type " << quoted(found) << " (C3)";
    else
      out << name << " gives elements of type " << quoted(expected) << ", but the result has "
          << quoted(found) << " (C3)";
    return text;
  }
  if (kind == ElementwiseKind::Bitcast && !canBitcast(type, found))
    out << "the bits of " << quoted(type) << " cannot be seen as " << quoted(found) << " (C3)";
  return text;
}

LogicalResult ElementwiseOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  SmallVector<Type, 3> elements;
  for (Value operand : getInputs())
    elements.push_back(elementTypeOf(operand));
  std::string problem = checkElements(getKind(), elements, elementTypeOf(getResult()));
  for (auto [number, operand] : llvm::enumerate(getInputs()))
    if (failed(verifyBroadcasts(*this, operand, shapeOf(getResult()), "operand " + Twine(number), "C1")))
      return failure();
  if (!problem.empty())
    return emitOpError() << problem;
  Signature signature = getSignature(getKind());
  size_t params = getParams().value_or(ArrayRef<double>()).size();
  if (params > signature.params)
    return emitOpError() << stringifyElementwiseKind(getKind()) << " has " << signature.params
                         << " parameters, not " << params << " (C4)";
  return success();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// What lets partial sums through: sums of all operands, a negation, a product in each of its operands, and
/// what widens the sums.
static void addCarriedFactors(ElementwiseOp op, FactorRule &rule) {
  Type element = cast<RankedTensorType>(op.getType()).getElementType();
  if (element.isInteger(1))
    return;
  SmallVector<unsigned> all = llvm::to_vector(llvm::seq<unsigned>(op.getInputs().size()));
  switch (op.getKind()) {
  case ElementwiseKind::Neg:
  case ElementwiseKind::Add:
  case ElementwiseKind::Sub: rule.addCarried(all); break;
  case ElementwiseKind::Mul:
    for (unsigned operand : all)
      rule.addCarried(operand);
    break;
  case ElementwiseKind::Cast:
    if (op->hasAttr(dist::kWidensSumsAttrName))
      rule.addCarried(all);
    break;
  default: // not even a quotient: where the divisor is 0, ranks that hold 0 of the dividend would give NaN
    break;
  }
}

FactorRule ElementwiseOp::getFactorRule() {
  FactorRule rule = FactorRule::makePointwise(*this);
  // Integer division traps on a zero divisor, which padding may hold.
  bool divides = getKind() == ElementwiseKind::Div || getKind() == ElementwiseKind::Mod ||
                 getKind() == ElementwiseKind::Fmod;
  if (divides && cast<RankedTensorType>(getType()).getElementType().isInteger())
    for (Factor &factor : rule.factors)
      factor.padding = PaddingFill::One;
  addCarriedFactors(*this, rule);
  return rule;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

bool ElementwiseOp::isOperandSaved(unsigned operand) {
  switch (getKind()) {
  // Linear, or with a gradient that the result gives, or without one.
  case ElementwiseKind::Neg:
  case ElementwiseKind::Add:
  case ElementwiseKind::Sub:
  case ElementwiseKind::Cast:
  case ElementwiseKind::Exp:
  case ElementwiseKind::Sqrt:
  case ElementwiseKind::Reciprocal:
  case ElementwiseKind::Sigmoid:
  case ElementwiseKind::Tanh:
  case ElementwiseKind::Relu:
  case ElementwiseKind::Not:
  case ElementwiseKind::And:
  case ElementwiseKind::Or:
  case ElementwiseKind::Xor:
  case ElementwiseKind::Equal:
  case ElementwiseKind::Less:
  case ElementwiseKind::LessOrEqual:
  case ElementwiseKind::Greater:
  case ElementwiseKind::GreaterOrEqual: return false;
  case ElementwiseKind::Select: // the condition says where the gradient goes
    return operand == 0;
  default: return true;
  }
}

bool ElementwiseOp::isResultSaved(unsigned result) {
  switch (getKind()) {
  case ElementwiseKind::Exp:
  case ElementwiseKind::Sqrt:
  case ElementwiseKind::Reciprocal:
  case ElementwiseKind::Sigmoid:
  case ElementwiseKind::Tanh:
  case ElementwiseKind::Relu: return true;
  default: return false;
  }
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

bool ElementwiseOp::readsAtOwnIndex() {
  return true;
}

int64_t colossal::getElementCost(ElementwiseKind kind) {
  switch (kind) {
  case ElementwiseKind::Exp:
  case ElementwiseKind::Log:
  case ElementwiseKind::Erf:
  case ElementwiseKind::Sin:
  case ElementwiseKind::Cos:
  case ElementwiseKind::Tan:
  case ElementwiseKind::Tanh:
  case ElementwiseKind::Sigmoid:
  case ElementwiseKind::Gelu:
  case ElementwiseKind::GeluTanh:
  case ElementwiseKind::Swish:
  case ElementwiseKind::Mish:
  case ElementwiseKind::Pow:
  case ElementwiseKind::Softplus: return 4;
  default: return 0;
  }
}

int64_t ElementwiseOp::getElementCost() {
  return colossal::getElementCost(getKind());
}

bool ElementwiseOp::isElementFree() {
  return getKind() == ElementwiseKind::Cast;
}

StringRef ElementwiseOp::getKernelName() {
  return stringifyElementwiseKind(getKind());
}

Forwarding ElementwiseOp::getForwarding() {
  const bool widens = getKind() == ElementwiseKind::Cast &&
                      elementTypeOf(getOperand(0)).isSignlessInteger(32) &&
                      elementTypeOf(getResult()).isSignlessInteger(64);
  return widens ? Forwarding::All : Forwarding::None;
}

//===----------------------------------------------------------------------===//
// Integer ranges
//===----------------------------------------------------------------------===//

/// An integer as another type has it: cut, or extended by its sign.
static ConstantIntRanges castRange(const ConstantIntRanges &range, Type from, Type to) {
  unsigned width = to.getIntOrFloatBitWidth(), had = from.getIntOrFloatBitWidth();
  if (width < had)
    return intrange::truncRange(range, width);
  return from.isUnsignedInteger() || from.isInteger(1) ? intrange::extUIRange(range, width)
                                                       : intrange::extSIRange(range, width);
}

void ElementwiseOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  Type element = elementTypeOf(getResult());
  if (!isa<IntegerType>(element))
    return;
  IntegerValueRange any = IntegerValueRange::getMaxRange(getResult());
  SmallVector<ConstantIntRanges> known;
  for (auto [operand, range] : llvm::zip_equal(getInputs(), ranges)) {
    if (!isa<IntegerType>(elementTypeOf(operand)))
      return set(getResult(), any); // of floats nothing is known
    if (range.isUninitialized())
      return;
    known.push_back(range.getValue());
  }
  using Infer = ConstantIntRanges (*)(ArrayRef<ConstantIntRanges>);
  auto combine = [&](auto infer) {
    ConstantIntRanges all = known[0];
    for (const ConstantIntRanges &range : ArrayRef(known).drop_front())
      all = infer({all, range});
    set(getResult(), all);
  };
  const bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  const Infer greater = isUnsigned ? intrange::inferMaxU : intrange::inferMaxS,
              lesser = isUnsigned ? intrange::inferMinU : intrange::inferMinS;
  const ConstantIntRanges zero = ConstantIntRanges::constant(APInt::getZero(element.getIntOrFloatBitWidth()));
  constexpr auto wraps = intrange::OverflowFlags::None;
  switch (getKind()) {
  case ElementwiseKind::Cast:
    // To a boolean: whether it is not 0.
    if (element.isInteger(1))
      return set(getResult(), any);
    return set(getResult(), castRange(known[0], elementTypeOf(getInputs()[0]), element));
  case ElementwiseKind::Relu: return set(getResult(), greater({known[0], zero}));
  case ElementwiseKind::Neg: return set(getResult(), intrange::inferSub({zero, known[0]}, wraps));
  case ElementwiseKind::Add:
    return combine([](ArrayRef<ConstantIntRanges> two) { return intrange::inferAdd(two, wraps); });
  case ElementwiseKind::Sub:
    return combine([](ArrayRef<ConstantIntRanges> two) { return intrange::inferSub(two, wraps); });
  case ElementwiseKind::Mul:
    return combine([](ArrayRef<ConstantIntRanges> two) { return intrange::inferMul(two, wraps); });
  case ElementwiseKind::Max: return combine(greater);
  case ElementwiseKind::Min: return combine(lesser);
  case ElementwiseKind::Mod: { // the sign is the divisor's
    const ConstantIntRanges &divisor = known[1];
    if (isUnsigned ? divisor.umin().isZero() : !divisor.smin().isStrictlyPositive())
      return set(getResult(), any);
    APInt most = isUnsigned ? divisor.umax() : divisor.smax();
    return set(getResult(), ConstantIntRanges::range(zero.umin(), most - 1, !isUnsigned));
  }
  case ElementwiseKind::Select: return set(getResult(), known[1].rangeUnion(known[2]));
  case ElementwiseKind::Clip:
    if (known.size() != 3)
      return set(getResult(), any);
    return set(getResult(), lesser({greater({known[0], known[1]}), known[2]}));
  default: return set(getResult(), any);
  }
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {
/// Rounds to the nearest integer of the operand's float type and the like have no code for integers: they are
/// identities.
Element roundWith(Element x, MathFunction function) {
  return x.isFloat() ? x.apply(function) : x;
}

Element emitUnary(ElementwiseKind kind, Element x, ArrayRef<double> params) {
  auto param = [&](unsigned i, double standard) { return x.like(i < params.size() ? params[i] : standard); };
  Element zero = x.like(0), one = x.like(1);
  // e^v - 1 for v <= 0, without the cancellation near 0.
  auto expm1 = [](Element v) {
    Element t = (v * v.like(0.5)).apply(MathFunction::Tanh);
    Element rest = v.like(1) - t;
    return (t + t) / rest;
  };
  switch (kind) {
  case ElementwiseKind::Abs: return x.abs();
  case ElementwiseKind::Neg: return x.isFloat() ? x.like(-0.0) - x : -x;
  case ElementwiseKind::Reciprocal: return one / x;
  case ElementwiseKind::Sqrt: return x.apply(MathFunction::Sqrt);
  case ElementwiseKind::Exp: return x.apply(MathFunction::Exp);
  case ElementwiseKind::Log: return x.apply(MathFunction::Log);
  case ElementwiseKind::Erf: return x.apply(MathFunction::Erf);
  case ElementwiseKind::Sin: return x.apply(MathFunction::Sin);
  case ElementwiseKind::Cos: return x.apply(MathFunction::Cos);
  case ElementwiseKind::Tan: return x.apply(MathFunction::Tan);
  case ElementwiseKind::Asin: return x.apply(MathFunction::Asin);
  case ElementwiseKind::Acos: return x.apply(MathFunction::Acos);
  case ElementwiseKind::Atan: return x.apply(MathFunction::Atan);
  case ElementwiseKind::Sinh: return x.apply(MathFunction::Sinh);
  case ElementwiseKind::Cosh: return x.apply(MathFunction::Cosh);
  case ElementwiseKind::Tanh: return x.apply(MathFunction::Tanh);
  case ElementwiseKind::Asinh: return x.apply(MathFunction::Asinh);
  case ElementwiseKind::Acosh: return x.apply(MathFunction::Acosh);
  case ElementwiseKind::Atanh: return x.apply(MathFunction::Atanh);
  case ElementwiseKind::Ceil: return roundWith(x, MathFunction::Ceil);
  case ElementwiseKind::Floor: return roundWith(x, MathFunction::Floor);
  case ElementwiseKind::Round: return roundWith(x, MathFunction::RoundEven);
  case ElementwiseKind::Sign: {
    Element positive = (zero < x).select(one, x.isFloat() ? (x == zero).select(zero, x) : zero);
    return x.isUnsigned() ? positive : (x < zero).select(x.like(-1), positive);
  }
  case ElementwiseKind::Relu: return x.max(zero);
  case ElementwiseKind::LeakyRelu: return (x < zero).select(x * param(0, 0.01), x);
  case ElementwiseKind::Elu: {
    Element isNegative = x < zero, alpha = param(0, 1);
    return isNegative.select(expm1(x) * alpha, x);
  }
  case ElementwiseKind::Selu: {
    Element gamma = param(1, 1.05070102214813232421875), isNegative = x <= zero;
    Element alpha = param(0, 1.67326319217681884765625);
    return isNegative.select(expm1(x) * alpha, x) * gamma;
  }
  case ElementwiseKind::Celu: {
    Element isNegative = x < zero, alpha = param(0, 1);
    return isNegative.select(expm1(x / param(0, 1)) * alpha, x);
  }
  case ElementwiseKind::Sigmoid: return x.apply(MathFunction::Sigmoid);
  case ElementwiseKind::HardSigmoid: {
    Element beta = param(1, 0.5);
    return (x * param(0, 0.2) + beta).min(one).max(zero);
  }
  case ElementwiseKind::HardSwish: {
    Element half = x.like(0.5);
    return x * (x * x.like(1.0 / 6) + half).min(one).max(zero);
  }
  case ElementwiseKind::Softplus: return x.apply(MathFunction::Softplus);
  case ElementwiseKind::Softsign: return x / (one + x.abs());
  case ElementwiseKind::ThresholdedRelu: return (param(0, 1) < x).select(x, zero);
  case ElementwiseKind::Gelu: return x.apply(MathFunction::GeluErf);
  case ElementwiseKind::GeluTanh: return x.apply(MathFunction::GeluTanh);
  case ElementwiseKind::Swish:
    if (params.empty() || params[0] == 1.0)
      return x.apply(MathFunction::Silu);
    return x * (x * param(0, 1)).apply(MathFunction::Sigmoid);
  case ElementwiseKind::Mish: return x * x.apply(MathFunction::Softplus).apply(MathFunction::Tanh);
  case ElementwiseKind::Shrink: {
    double lambda = params.empty() ? 0.5 : params[0], bias = params.size() < 2 ? 0.0 : params[1];
    auto above = [&] { return (x.like(lambda) < x).select(x - x.like(bias), zero); };
    if (x.isUnsigned())
      return above();
    Element isBelow = x < x.like(-lambda), otherwise = above();
    return isBelow.select(x + x.like(bias), otherwise);
  }
  case ElementwiseKind::Not: return !x;
  case ElementwiseKind::IsNaN: return x != x;
  case ElementwiseKind::IsInf: {
    bool negative = params.empty() || params[0] != 0, positive = params.size() < 2 || params[1] != 0;
    double infinity = std::numeric_limits<double>::infinity();
    Element low = x == x.like(-infinity), high = x == x.like(infinity);
    if (negative && positive)
      return low | high;
    return negative ? low : positive ? high : low & high;
  }
  case ElementwiseKind::BitNot: return x ^ x.like(-1);
  default: llvm_unreachable("not a unary kind");
  }
}

/// base ^ exponent of integers, modulo 2^width, by squaring; negative exponents give the truncated quotient 1
/// / base^-n.
Element emitIntegerPow(ElementEmitter &emitter, Element base, Element exponent) {
  Type type = base.elementType(), counts = exponent.elementType();
  OpBuilder &b = emitter.builder();
  Value carried[] = {base.like(1).get(), base.get(), exponent.get()};
  emitter.unify(carried);
  auto step = [&](Value, ValueRange values) -> SmallVector<Value> {
    Element power(emitter, values[0], type), square(emitter, values[1], type),
        rest(emitter, values[2], counts);
    Element none = rest.like(0), isOdd = (rest & rest.like(1)) != none;
    Value shift[] = {rest.get(), rest.like(1).get()};
    emitter.unify(shift);
    return {isOdd.select(power * square, power).get(), (square * square).get(),
            arith::ShRUIOp::create(b, emitter.loc(), shift[0], shift[1])};
  };
  Element power(emitter, emitter.reduce(counts.getIntOrFloatBitWidth(), carried, step)[0], type);
  if (exponent.isUnsigned())
    return power;
  Element one = base.like(1), fraction = (base == one).select(one, base.like(0));
  if (!base.isUnsigned()) {
    Element none = exponent.like(0), isOdd = (exponent & exponent.like(1)) != none;
    fraction = (base == base.like(-1)).select(isOdd.select(base, one), fraction);
  }
  return (exponent < exponent.like(0)).select(fraction, power);
}

/// base ^ exponent, in the base's type. Small constant exponents need no logarithm.
Element emitPow(ElementEmitter &emitter, Element base, Element exponent) {
  Type type = base.elementType();
  base = base.to(computeType(type));
  FloatAttr constant;
  IntegerAttr integer;
  if (matchPattern(exponent.get(), m_Constant(&integer)) && integer.getValue().getSExtValue() == 2)
    return (base * base).to(type);
  if (!base.isFloat() && !exponent.isFloat())
    return emitIntegerPow(emitter, base, exponent);
  if (base.isFloat() && matchPattern(exponent.get(), m_Constant(&constant))) {
    double value = constant.getValueAsDouble();
    if (value == 1.0)
      return base.to(type);
    if (value == 2.0)
      return (base * base).to(type);
    if (value == 3.0)
      return (base * base * base).to(type);
    if (value == 0.5) // pow(-0, 0.5) is +0
      return (base + base.like(0)).apply(MathFunction::Sqrt).to(type);
    if (value == -1.0)
      return (base.like(1) / base).to(type);
    if (value == -0.5)
      return (base + base.like(0)).apply(MathFunction::Rsqrt).to(type);
  }
  Type inner = base.isFloat() ? computeType(type) : Float64Type::get(type.getContext());
  Value values[] = {base.to(inner).get(), exponent.to(inner).get()};
  emitter.unify(values);
  return Element(emitter, emitter.pow(values[0], values[1]), inner).to(type);
}

Element emitShift(ElementEmitter &emitter, Element x, Element amount, bool left) {
  // A shift by the width or more gives 0, not poison.
  unsigned width = x.elementType().getIntOrFloatBitWidth();
  Element inWidth = amount < amount.like(width);
  Value values[] = {x.get(), inWidth.select(amount, amount.like(0)).get()};
  emitter.unify(values);
  OpBuilder &b = emitter.builder();
  Value shifted = left ? arith::ShLIOp::create(b, emitter.loc(), values[0], values[1]).getResult()
                       : arith::ShRUIOp::create(b, emitter.loc(), values[0], values[1]).getResult();
  return inWidth.select(Element(emitter, shifted, x.elementType()), x.like(0));
}

Value emitCast(ElementEmitter &emitter, Element x, Type to, ArrayRef<double> params) {
  if (params.empty() || !isNarrowFloat(to) || x.elementType() == to)
    return x.to(to).get();
  Narrowing how;
  how.saturate = params[0] != 0;
  if (params.size() > 1)
    how.powers = params[1] == 0 ? Narrowing::Up : params[1] == 1 ? Narrowing::Down : Narrowing::Nearest;
  return narrowFloat(emitter, x.to(Float32Type::get(to.getContext())).get(), to, how);
}

Element emitBinary(ElementEmitter &emitter, ElementwiseKind kind, Element a, Element b) {
  switch (kind) {
  case ElementwiseKind::Add: return a + b;
  case ElementwiseKind::Sub: return a - b;
  case ElementwiseKind::Mul: return a * b;
  case ElementwiseKind::Div: return a / b;
  case ElementwiseKind::Mod: return a.modulo(b);
  case ElementwiseKind::Fmod: return a.remainder(b);
  case ElementwiseKind::Max: return a.max(b);
  case ElementwiseKind::Min: return a.min(b);
  case ElementwiseKind::And:
  case ElementwiseKind::BitAnd: return a & b;
  case ElementwiseKind::Or:
  case ElementwiseKind::BitOr: return a | b;
  case ElementwiseKind::Xor:
  case ElementwiseKind::BitXor: return a ^ b;
  case ElementwiseKind::Equal: return a == b;
  case ElementwiseKind::Less: return a < b;
  case ElementwiseKind::LessOrEqual: return a <= b;
  case ElementwiseKind::Greater: return b < a;
  case ElementwiseKind::GreaterOrEqual: return b <= a;
  case ElementwiseKind::PRelu: return (a < a.like(0)).select(a * b, a);
  case ElementwiseKind::ShiftLeft: return emitShift(emitter, a, b, true);
  case ElementwiseKind::ShiftRight: return emitShift(emitter, a, b, false);
  default: llvm_unreachable("not a binary kind");
  }
}
} // namespace

Element colossal::emitKind(ElementEmitter &emitter, ElementwiseKind kind, MutableArrayRef<Element> in,
                           ArrayRef<double> params, Type element) {
  auto typed = [&](Value value) { return Element(emitter, value, element); };
  switch (kind) {
  case ElementwiseKind::Cast: return typed(emitCast(emitter, in[0], element, params));
  case ElementwiseKind::Bitcast:
    return typed(bitcastElement(emitter, in[0].get(), in[0].elementType(), element));
  case ElementwiseKind::Select: return in[0].select(in[1], in[2]);
  case ElementwiseKind::Clip: return in[0].max(in[1]).min(in[2]);
  case ElementwiseKind::Pow: return emitPow(emitter, in[0], in[1]);
  default: break;
  }
  // Intermediate results of one op are not rounded to f16.
  for (Element &x : in)
    x = x.to(computeType(x.elementType()));
  Element value = in[0];
  if (in.size() == 1)
    value = emitUnary(kind, in[0], params);
  for (unsigned i = 1; i < in.size(); ++i)
    value = emitBinary(emitter, kind, value, in[i]);
  return value.to(element);
}

Value ElementwiseOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  SmallVector<Element, 3> in;
  for (Value operand : getInputs())
    in.push_back(
        {emitter, emitter.load(operand, broadcastIndex(emitter, index, operand)), elementTypeOf(operand)});
  return emitKind(emitter, getKind(), in, getParams().value_or(ArrayRef<double>()),
                  elementTypeOf(getResult()))
      .get();
}
