//===- Source.cpp --------------------------------------------------------===//
//
// Tensors that come from nowhere: parameters, constants, ranges, random values. All that is known about these
// ops stands here: verification, folding, sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/IntegerRanges.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult ParameterOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  if (static_cast<int64_t>(getOffset()) < 0 || static_cast<int64_t>(getBytes()) < 0)
    return emitOpError("offset and bytes must not be negative (C1)");
  return success();
}

LogicalResult ConstantOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  if (getValue().getShapedType() != getType())
    return emitOpError() << "the value is " << getValue().getShapedType() << ", but the result is "
                         << getType() << " (C1)";
  return success();
}

LogicalResult IotaOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  if (elementTypeOf(getResult()).isInteger(1))
    return emitOpError("has no meaning for booleans (C1)");
  return verifyAxis(*this, getAxis(), getResult(), "C1");
}

LogicalResult RandomOp::verify() {
  size_t rank = shapeOf(getResult()).size();
  if (failed(verifyTensors(*this)) ||
      failed(verifyCount(*this, getExtents().size(), rank, "extents", "C1")) ||
      (!getOffsets().empty() && failed(verifyCount(*this, getOffsets().size(), rank, "offsets", "C1"))))
    return failure();
  if ((getKind() == RandomKind::Bernoulli) != static_cast<bool>(getInput()))
    return emitOpError() << "bernoulli, and nothing else, takes probabilities (C2)";
  if (!getInput())
    return success();
  if (failed(verifyFloats(*this, getInput(), "C2")))
    return failure();
  return verifyShape(*this, getInput(), shapeOf(getResult()), "input", "C2");
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor adaptor) {
  return getValue();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// Every dimension of the result is a factor of that kind.
static FactorRule makeFree(Operation *op, FactorKind kind) {
  FactorRule rule;
  TensorFactors result;
  for (int64_t size : cast<RankedTensorType>(op->getResult(0).getType()).getShape())
    result.push_back({rule.add(size, kind)});
  rule.operands.resize(op->getNumOperands());
  rule.results.push_back(result);
  return rule;
}

// A parameter may be stored in any layout: the load program reads that box.
FactorRule ParameterOp::getFactorRule() {
  return makeFree(*this, FactorKind::Parallel);
}

FailureOr<SmallVector<Value>> ParameterOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  FailureOr<SmallVector<Value>> results = cloneWithLocalTypes(*this, builder, context);
  results->front().getDefiningOp()->setAttr(kShardingAttrName, context.resultSharding(0));
  return results;
}

double ParameterOp::getFlops() {
  return 0;
}

// One value everywhere has shards; of others each rank holds all, and takes its part at the use.
FactorRule ConstantOp::getFactorRule() {
  return makeFree(*this, getValue().isSplat() ? FactorKind::Parallel : FactorKind::Whole);
}

FailureOr<SmallVector<Value>> ConstantOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  ElementsAttr value = getValue();
  auto type =
      RankedTensorType::get(context.localResultShape(0), cast<RankedTensorType>(getType()).getElementType());
  if (value.isSplat() && type != getType())
    value = DenseElementsAttr::get(type, value.getSplatValue<Attribute>());
  return SmallVector<Value>{ConstantOp::create(builder, getLoc(), type, value)};
}

double ConstantOp::getFlops() {
  return 0;
}

FactorRule IotaOp::getFactorRule() {
  FactorRule rule = makeFree(*this, FactorKind::Parallel);
  rule.factors[getAxis()].indexed = true;
  return rule;
}

FailureOr<SmallVector<Value>> IotaOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  Value offset = getOffset() ? context.operand(0) : Value();
  if (Value shard = context.getOffset(builder, getAxis()))
    offset = offset ? arith::AddIOp::create(builder, getLoc(), offset, shard).getResult() : shard;
  auto type =
      RankedTensorType::get(context.localResultShape(0), cast<RankedTensorType>(getType()).getElementType());
  return SmallVector<Value>{
      IotaOp::create(builder, getLoc(), type, offset, getAxisAttr(), getStartAttr(), getStepAttr())};
}

// Values depend on the global index, which has one offset per dimension.
FactorRule RandomOp::getFactorRule() {
  FactorRule rule = makeFree(*this, FactorKind::Parallel);
  for (Factor &factor : rule.factors)
    factor.indexed = true;
  if (getInput())
    rule.operands.front() = rule.results.front();
  return rule;
}

FailureOr<SmallVector<Value>> RandomOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  auto type =
      RankedTensorType::get(context.localResultShape(0), cast<RankedTensorType>(getType()).getElementType());
  unsigned first = getInput() ? 1 : 0;
  SmallVector<Value> offsets;
  bool isSplit = false;
  for (unsigned d = 0; d < type.getRank(); ++d) {
    Value offset = getOffsets().empty() ? Value() : context.operand(first + d);
    if (Value shard = context.getOffset(builder, d)) {
      isSplit = true;
      offset = offset ? arith::AddIOp::create(builder, getLoc(), offset, shard).getResult() : shard;
    }
    offsets.push_back(offset ? offset : arith::ConstantIndexOp::create(builder, getLoc(), 0).getResult());
  }
  if (!isSplit && getOffsets().empty())
    offsets.clear();
  return SmallVector<Value>{RandomOp::create(builder, getLoc(), type, getKindAttr(),
                                             getInput() ? context.operand(0) : Value(), offsets, getAAttr(),
                                             getBAttr(), getSeedAttr(), getExtentsAttr())};
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

KernelKind ParameterOp::getKernelKind() {
  return KernelKind::Source;
}

KernelKind ConstantOp::getKernelKind() {
  return KernelKind::Source;
}

int64_t ConstantOp::getElementCost() {
  return 0;
}

int64_t IotaOp::getElementCost() {
  return 0;
}

bool IotaOp::isElementFree() {
  return true;
}

//===----------------------------------------------------------------------===//
// Integer ranges
//===----------------------------------------------------------------------===//

/// Constants of more elements than that are not looked at.
static constexpr int64_t kMostElements = int64_t(1) << 20;

void ConstantOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange>, SetIntLatticeFn set) {
  auto type = cast<RankedTensorType>(getType());
  if (!isa<IntegerType>(type.getElementType()))
    return;
  auto dense = dyn_cast<DenseIntElementsAttr>(getValue());
  if (!dense || dense.empty() || (!dense.isSplat() && dense.getNumElements() > kMostElements))
    return set(getResult(), IntegerValueRange::getMaxRange(getResult()));
  auto values = dense.getValues<APInt>();
  APInt least = *values.begin(), greatest = least, lowest = least, highest = least;
  if (!dense.isSplat())
    for (const APInt &value : values) {
      least = llvm::APIntOps::umin(least, value);
      greatest = llvm::APIntOps::umax(greatest, value);
      lowest = llvm::APIntOps::smin(lowest, value);
      highest = llvm::APIntOps::smax(highest, value);
    }
  set(getResult(), ConstantIntRanges(least, greatest, lowest, highest));
}

void IotaOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange>, SetIntLatticeFn set) {
  if (getOffset())
    return set(getResult(), IntegerValueRange::getMaxRange(getResult()));
  auto count = static_cast<double>(shapeOf(getResult())[getAxis()]);
  double first = getStart().convertToDouble();
  double last = first + getStep().convertToDouble() * std::max(0.0, count - 1);
  set(getResult(), getRangeBetween(getResult(), std::min(first, last), std::max(first, last)));
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

// Parameters and constants are memory; the emitter reads them where they lie.
Value ParameterOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return {};
}

Value ConstantOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return {};
}

Value IotaOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getResult()), i64 = emitter.builder().getI64Type();
  Lane lane = index[getAxis()];
  if (getOffset())
    lane = emitter.add(lane, emitter.uniform(emitter.scalarOperand(getOffset())));
  Element counter(emitter, emitter.toValue(lane, i64), i64);
  double start = getStart().convertToDouble(), step = getStep().convertToDouble();
  if (isa<FloatType>(type)) {
    Type inner = type.isF64() ? type : Float32Type::get(type.getContext());
    Element x = counter.to(inner);
    Element first = x.like(start);
    return (x * x.like(step) + first).to(type).get();
  }
  Element first = counter.like(start);
  return (counter * counter.like(step) + first).to(type).get();
}

/// A well-mixed 64-bit hash of an integer: the finalizer of MurmurHash3 (Appleby), 64-bit version, applied
/// twice with a Weyl step between, as in SplitMix64 (Steele, Lea, Flood 2014).
static Element mix(ElementEmitter &emitter, Element x) {
  auto shiftXor = [&](Element v, unsigned amount) {
    Value parts[] = {v.get(), v.like(amount).get()};
    emitter.unify(parts);
    Value shifted = arith::ShRUIOp::create(emitter.builder(), emitter.loc(), parts[0], parts[1]);
    return v ^ Element(emitter, shifted, v.elementType());
  };
  auto big = [&](uint64_t value) {
    Value constant =
        arith::ConstantIntOp::create(emitter.builder(), emitter.loc(), x.elementType(), (int64_t)value);
    return Element(emitter, constant, x.elementType());
  };
  x = x + big(0x9e3779b97f4a7c15ull);
  Element first = big(0xbf58476d1ce4e5b9ull);
  x = shiftXor(x, 30) * first;
  Element second = big(0x94d049bb133111ebull);
  x = shiftXor(x, 27) * second;
  return shiftXor(x, 31);
}

Value RandomOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type i64 = emitter.builder().getI64Type(), f64 = emitter.builder().getF64Type();
  Type type = elementTypeOf(getResult());
  Lane linear = emitter.constant(0);
  int64_t stride = 1;
  for (int d = (int)index.size() - 1; d >= 0; --d) {
    Lane at = index[d];
    if ((unsigned)d < getOffsets().size())
      at = emitter.add(at, emitter.uniform(emitter.scalarOperand(getOffsets()[d])));
    linear = emitter.add(linear, emitter.mul(at, stride));
    stride *= getExtents()[d];
  }
  Element counter(emitter, emitter.toValue(linear, i64), i64);
  Value seedValue = arith::ConstantIntOp::create(emitter.builder(), emitter.loc(), i64, getSeed());
  Element seed = mix(emitter, Element(emitter, seedValue, i64));
  // Uniform in [0, 1) with 52 bits of the hash.
  auto uniform = [&](int64_t stream) {
    Element number = counter.like(stream);
    Element bits = mix(emitter, mix(emitter, counter + counter) + number + seed);
    Value parts[] = {bits.get(), bits.like(12).get()};
    emitter.unify(parts);
    Value top = arith::ShRUIOp::create(emitter.builder(), emitter.loc(), parts[0], parts[1]);
    Element fraction = Element(emitter, top, i64).to(f64);
    return fraction * fraction.like(0x1p-52);
  };
  double a = getA().convertToDouble(), b = getB().convertToDouble();
  Element u = uniform(0);
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
    Element v = uniform(1);
    Element factor = u.like(-2);
    Element radius = ((u.like(1) - u).apply(MathFunction::Log) * factor).apply(MathFunction::Sqrt);
    Element normal = radius * (v * v.like(2 * M_PI)).apply(MathFunction::Cos), mean = normal.like(a);
    return (normal * normal.like(b) + mean).to(type).get();
  }
  }
  llvm_unreachable("unknown distribution");
}
