//===- Source.cpp --------------------------------------------------------===//
//
// Tensors that come from nowhere: parameters, constants, ranges (random values: Random.cpp). All that is
// known about these ops stands here: verification, folding, sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/IntegerRanges.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

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
