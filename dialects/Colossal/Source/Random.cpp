//===- Random.cpp - random values and dropout --------------------------------===//
//
// What an element is depends on a key, a step and the element's global index, and on nothing else: each is
// made by itself, so that any rank, device or second computation makes the same. All arithmetic up to the
// decision of dropout is of integers.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <array>
#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// C1 or C2, and C3, of both ops.
template <typename Op>
static LogicalResult verifyPlaces(Op op, StringRef label) {
  size_t rank = shapeOf(op.getResult()).size();
  if (failed(verifyCount(op, op.getExtents().size(), rank, "extents", label)) ||
      (!op.getOffsets().empty() && failed(verifyCount(op, op.getOffsets().size(), rank, "offsets", label))))
    return failure();
  if (Value stream = op.getStream();
      stream && stream.getType() != RankedTensorType::get({2}, IntegerType::get(op.getContext(), 64)))
    return op.emitOpError() << "the stream must be a tensor<2xi64>, but is " << stream.getType() << " (C3)";
  return success();
}

LogicalResult RandomOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyPlaces(*this, "C1")))
    return failure();
  if ((getKind() == RandomKind::Bernoulli) != static_cast<bool>(getInput()))
    return emitOpError() << "bernoulli, and nothing else, takes probabilities (C2)";
  if (!getInput())
    return success();
  if (failed(verifyFloats(*this, getInput(), "C2")))
    return failure();
  return verifyShape(*this, getInput(), shapeOf(getResult()), "input", "C2");
}

LogicalResult DropoutOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyFloats(*this, getInput(), "C1")) ||
      failed(verifyPlaces(*this, "C2")))
    return failure();
  if (double ratio = getRatio().convertToDouble(); !(ratio >= 0 && ratio <= 1))
    return emitOpError() << "the ratio must be from 0 to 1, but is " << ratio << " (C4)";
  return success();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// Every dimension may be split, and then has an offset.
template <typename Op>
static FactorRule makeIndexed(Op op) {
  FactorRule rule;
  TensorFactors result;
  for (int64_t size : shapeOf(op.getResult())) {
    unsigned factor = rule.add(size);
    rule.factors[factor].indexed = true;
    result.push_back({factor});
  }
  rule.operands.resize(op->getNumOperands());
  if (op.getInput())
    rule.operands.front() = result;
  if (op.getStream())
    rule.operands[op.getInput() ? 1 : 0] = {{rule.add(2, FactorKind::Whole)}};
  rule.results.push_back(result);
  return rule;
}

/// The offsets of the local op; none where it begins with the first element on every rank.
template <typename Op>
static SmallVector<Value> buildOffsets(Op op, OpBuilder &builder, LocalContext &context) {
  unsigned first = (op.getInput() ? 1 : 0) + (op.getStream() ? 1 : 0);
  SmallVector<Value> offsets;
  bool isSplit = false;
  for (unsigned d = 0; d < op.getExtents().size(); ++d) {
    Value offset = op.getOffsets().empty() ? Value() : context.operand(first + d);
    if (Value shard = context.getOffset(builder, d)) {
      isSplit = true;
      offset = offset ? arith::AddIOp::create(builder, op.getLoc(), offset, shard).getResult() : shard;
    }
    offsets.push_back(offset ? offset : arith::ConstantIndexOp::create(builder, op.getLoc(), 0).getResult());
  }
  if (!isSplit && op.getOffsets().empty())
    offsets.clear();
  return offsets;
}

static RankedTensorType getLocalType(Value result, LocalContext &context) {
  return RankedTensorType::get(context.localResultShape(0), elementTypeOf(result));
}

FactorRule RandomOp::getFactorRule() {
  return makeIndexed(*this);
}

FailureOr<SmallVector<Value>> RandomOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  Value input = getInput() ? context.operand(0) : Value();
  Value stream = getStream() ? context.operand(getInput() ? 1 : 0) : Value();
  SmallVector<Value> offsets = buildOffsets(*this, builder, context);
  return SmallVector<Value>{RandomOp::create(builder, getLoc(), getLocalType(getResult(), context),
                                             getKindAttr(), input, stream, offsets, getAAttr(), getBAttr(),
                                             getSeedAttr(), getExtentsAttr())};
}

// Linear in its input: sums may be kept partial through it.
FactorRule DropoutOp::getFactorRule() {
  FactorRule rule = makeIndexed(*this);
  rule.addCarried(0u);
  return rule;
}

FailureOr<SmallVector<Value>> DropoutOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  Value input = context.operand(0), stream = getStream() ? context.operand(1) : Value();
  SmallVector<Value> offsets = buildOffsets(*this, builder, context);
  return SmallVector<Value>{DropoutOp::create(builder, getLoc(), getLocalType(getResult(), context), input,
                                              stream, offsets, getRatioAttr(), getSeedAttr(),
                                              getExtentsAttr())};
}

//===----------------------------------------------------------------------===//
// Gradients and kernels
//===----------------------------------------------------------------------===//

bool DropoutOp::isOperandSaved(unsigned operand) {
  return operand > 0;
}

/// Ten rounds of eight operations.
static constexpr int64_t kPhiloxCost = 80;

int64_t RandomOp::getElementCost() {
  return kPhiloxCost;
}

int64_t DropoutOp::getElementCost() {
  return kPhiloxCost;
}

bool DropoutOp::readsAtOwnIndex() {
  return true;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {
/// Arithmetic on words of 32 bits, each in the lower half of an i64, whose upper half is zero: what vector
/// units multiply without loss.
class Words {
public:
  explicit Words(ElementEmitter &emitter) : emitter(emitter), i64(emitter.builder().getI64Type()) {}

  Element number(uint64_t value) const {
    return {emitter,
            arith::ConstantIntOp::create(emitter.builder(), emitter.loc(), i64, static_cast<int64_t>(value)),
            i64};
  }
  Element low(Element x) const { return x & number(0xffffffff); }
  Element shiftRight(Element x, uint64_t bits) const {
    Value parts[] = {x.get(), number(bits).get()};
    emitter.unify(parts);
    return {emitter, arith::ShRUIOp::create(emitter.builder(), emitter.loc(), parts[0], parts[1]), i64};
  }
  Element high(Element x) const { return shiftRight(x, 32); }
  /// Two words as one number.
  Element join(Element low, Element high) const { return low + high * number(uint64_t(1) << 32); }
  Element wrap(Value value) const { return {emitter, value, i64}; }

private:
  ElementEmitter &emitter;
  Type i64;
};
} // namespace

/// Philox4x32-10: Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (2011),
/// section 3.3, of a key and a counter of two numbers of 64 bits.
static std::array<Element, 4> emitPhilox(const Words &words, Element key, Element low, Element high) {
  std::array<Element, 4> counter = {words.low(low), words.high(low), words.low(high), words.high(high)};
  Element key0 = words.low(key), key1 = words.high(key);
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      key0 = words.low(key0 + words.number(0x9e3779b9));
      key1 = words.low(key1 + words.number(0xbb67ae85));
    }
    Element a = counter[0] * words.number(0xd2511f53), b = counter[2] * words.number(0xcd9e8d57);
    counter = {words.high(b) ^ counter[1] ^ key0, words.low(b), words.high(a) ^ counter[3] ^ key1,
               words.low(a)};
  }
  return counter;
}

/// The words of the element at local `index` of an op.
template <typename Op>
static std::array<Element, 4> emitWords(Op op, const Words &words, ElementEmitter &emitter,
                                        ArrayRef<Lane> index) {
  Lane linear = emitter.constant(0);
  int64_t stride = 1;
  for (int d = static_cast<int>(index.size()) - 1; d >= 0; --d) {
    Lane at = index[d];
    if (static_cast<unsigned>(d) < op.getOffsets().size())
      at = emitter.add(at, emitter.uniform(emitter.scalarOperand(op.getOffsets()[d])));
    linear = emitter.add(linear, emitter.mul(at, stride));
    stride *= op.getExtents()[d];
  }
  Element element = words.wrap(emitter.toValue(linear, emitter.builder().getI64Type()));
  if (Value stream = op.getStream()) {
    Element key = words.wrap(emitter.load(stream, {emitter.constant(0)}));
    Element step = words.wrap(emitter.load(stream, {emitter.constant(1)}));
    return emitPhilox(words, key, element, step);
  }
  return emitPhilox(words, words.number(op.getSeed()), element, words.number(0));
}

Value RandomOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type f64 = emitter.builder().getF64Type(), type = elementTypeOf(getResult());
  Words words(emitter);
  std::array<Element, 4> all = emitWords(*this, words, emitter, index);
  // Uniform in [0, 1) with 52 bits.
  auto uniform = [&](Element low, Element high) {
    Element fraction = words.shiftRight(words.join(low, high), 12).to(f64);
    return fraction * fraction.like(0x1p-52);
  };
  double a = getA().convertToDouble(), b = getB().convertToDouble();
  Element u = uniform(all[0], all[1]);
  switch (getKind()) {
  case RandomKind::Uniform: {
    // Rounding may reach the excluded end.
    Element low = u.like(a), x = (u * u.like(b - a) + low).to(type);
    return (x < x.like(b)).select(x, x.like(a)).get();
  }
  case RandomKind::Bernoulli: {
    Element p = Element(emitter, emitter.load(getInput(), index), elementTypeOf(getInput())).to(f64);
    return (u < p).to(type).get();
  }
  case RandomKind::Normal: {
    // Box and Muller (1958).
    Element v = uniform(all[2], all[3]), factor = u.like(-2);
    Element radius = ((u.like(1) - u).apply(MathFunction::Log) * factor).apply(MathFunction::Sqrt);
    Element normal = radius * (v * v.like(2 * M_PI)).apply(MathFunction::Cos), mean = normal.like(a);
    return (normal * normal.like(b) + mean).to(type).get();
  }
  }
  llvm_unreachable("unknown distribution");
}

Value DropoutOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  const double keep = 1 - getRatio().convertToDouble();
  Element x(emitter, emitter.load(getInput(), index), elementTypeOf(getInput()));
  Words words(emitter);
  Element word = emitWords(*this, words, emitter, index)[0];
  Element isKept = word < words.number(static_cast<uint64_t>(std::llround(keep * 0x1p32)));
  Element scale = x.like(keep > 0 ? 1 / keep : 0), scaled = x * scale, zero = x.like(0);
  return isKept.select(scaled, zero).get();
}
