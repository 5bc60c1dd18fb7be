//===- Reduction.cpp -----------------------------------------------------===//
//
// Reductions and scans. All that is known about these ops but their code (Emission.cpp) stands here:
// verification, sharding rules, kernel kinds, ranges.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/IntegerRanges.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "dialects/Colossal/OpComposer.h"
#include "dialects/Colossal/Reduction/Accumulate.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getInput());
  SmallVector<int64_t> sizes;
  int64_t last = -1;
  for (int64_t axis : getAxes()) {
    if (axis <= last || axis >= static_cast<int64_t>(shape.size()))
      return emitOpError() << "axes must be ascending dimensions of " << getInput().getType() << ", but are ["
                           << getAxes() << "] (C1)";
    last = axis;
  }
  for (auto [d, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(getAxes(), static_cast<int64_t>(d)))
      sizes.push_back(size);
    else if (getKeepdims())
      sizes.push_back(1);
  if (failed(verifyShape(*this, getResult(), sizes, "result", "C2")) ||
      failed(verifySameElements(*this, getInput(), getResult(), "C2")))
    return failure();
  if (elementTypeOf(getInput()).isInteger(1) && getKind() != ReduceKind::Max && getKind() != ReduceKind::Min)
    return emitOpError() << stringifyReduceKind(getKind()) << " has no meaning for booleans (C3)";
  return success();
}

LogicalResult ArgReduceOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyAxis(*this, getAxis(), getInput(), "C1")) ||
      failed(verifyIndices(*this, getResult(), "C2")))
    return failure();
  SmallVector<int64_t> shape(shapeOf(getInput()));
  if (shape[getAxis()] == 0)
    return emitOpError() << "dimension " << getAxis() << " of " << getInput().getType()
                         << " has no element (C1)";
  if (getKeepdims())
    shape[getAxis()] = 1;
  else
    shape.erase(shape.begin() + getAxis());
  return verifyShape(*this, getResult(), shape, "result", "C2");
}

LogicalResult CumulateOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  if (elementTypeOf(getInput()).isInteger(1))
    return emitOpError("has no meaning for booleans (C1)");
  return verifyAxis(*this, getAxis(), getInput(), "C1");
}

LogicalResult TopKOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyAxis(*this, getAxis(), getInput(), "C1")) ||
      failed(verifyRank(*this, getValues(), shapeOf(getInput()).size(), "values", "C2")))
    return failure();
  SmallVector<int64_t> shape(shapeOf(getInput()));
  int64_t k = shapeOf(getValues())[getAxis()];
  if (k > shape[getAxis()])
    return emitOpError() << "takes " << k << " of " << shape[getAxis()] << " elements (C1)";
  shape[getAxis()] = k;
  if (failed(verifyShape(*this, getValues(), shape, "values", "C2")) ||
      failed(verifySameElements(*this, getInput(), getValues(), "C2")) ||
      failed(verifyShape(*this, getIndices(), shape, "indices", "C2")))
    return failure();
  return verifyIndices(*this, getIndices(), "C2");
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// How partial results of a reduction over parts combine to that over all, or none where they do not.
static std::optional<ReductionKind> getPartialKind(ReduceKind kind, Type type) {
  switch (kind) {
  case ReduceKind::Mean: // rounding of integer parts does not add up
    return type.isInteger() ? std::nullopt : std::optional(ReductionKind::Sum);
  case ReduceKind::Sum:
  case ReduceKind::SumSquare:
  case ReduceKind::L1: return ReductionKind::Sum;
  case ReduceKind::Prod: return ReductionKind::Prod;
  case ReduceKind::Max: return type.isInteger(1) ? ReductionKind::Or : ReductionKind::Max;
  case ReduceKind::Min: return type.isInteger(1) ? ReductionKind::And : ReductionKind::Min;
  case ReduceKind::L2:
  case ReduceKind::LogSum:
  case ReduceKind::LogSumExp: return std::nullopt;
  }
  return std::nullopt;
}

FactorRule ReduceOp::getFactorRule() {
  FactorRule rule;
  TensorFactors input, result;
  std::optional<ReductionKind> partial =
      getPartialKind(getKind(), cast<RankedTensorType>(getType()).getElementType());
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    unsigned factor = rule.add(size);
    input.push_back({factor});
    if (!llvm::is_contained(getAxes(), static_cast<int64_t>(d))) {
      result.push_back({factor});
      continue;
    }
    if (partial) {
      rule.setReduction(factor, *partial);
      rule.factors[factor].role = "k";
    } else {
      rule.factors[factor].kind = FactorKind::Whole;
    }
    if (getKeepdims())
      result.emplace_back();
  }
  rule.operands.push_back(input);
  rule.results.push_back(result);
  return rule;
}

FailureOr<SmallVector<Value>> ReduceOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  FailureOr<SmallVector<Value>> results = cloneWithLocalTypes(*this, builder, context);
  if (getKind() == ReduceKind::Mean && !getCount()) {
    int64_t count = 1;
    bool isSplit = false;
    for (int64_t axis : getAxes()) {
      count *= getShape(getInput())[axis];
      isSplit |= context.isSplit(axis);
    }
    if (isSplit)
      cast<ReduceOp>(results->front().getDefiningOp()).setCount(count);
  }
  return results;
}

double ReduceOp::getFlops() {
  return cast<RankedTensorType>(getInput().getType()).getNumElements();
}

/// Input and results share all dimensions but `axis`, where they are whole.
static FactorRule makeAlongAxis(Operation *op, int64_t axis, bool keepsAxis) {
  FactorRule rule;
  TensorFactors input, result;
  for (auto [d, size] : llvm::enumerate(getShape(op->getOperand(0)))) {
    bool isAxis = static_cast<int64_t>(d) == axis;
    input.push_back({rule.add(size, isAxis ? FactorKind::Whole : FactorKind::Parallel)});
    if (!isAxis)
      result.push_back(input.back());
    else if (keepsAxis) {
      int64_t kept = getShape(op->getResult(0))[d];
      result.push_back(kept == size ? input.back() : DimFactors{rule.add(kept, FactorKind::Whole)});
    }
  }
  rule.operands.push_back(input);
  rule.results.assign(op->getNumResults(), result);
  return rule;
}

/// Makes the dimension that is selected from splittable: each rank offers its best, and the best of those
/// win.
static void stageSelection(Factor &factor, bool isGreatest) {
  factor.kind = FactorKind::Joined;
  factor.staged = factor.indexed = true;
  factor.padding = isGreatest ? PaddingFill::Lowest : PaddingFill::Highest;
}

static double bytesOf(Value tensor) {
  return std::max(1.0, elementTypeOf(tensor).getIntOrFloatBitWidth() / 8.0);
}

FactorRule ArgReduceOp::getFactorRule() {
  FactorRule rule = makeAlongAxis(*this, getAxis(), getKeepdims());
  if (shapeOf(getInput())[getAxis()] == 1)
    return rule;
  stageSelection(rule.factors[getAxis()], !getMinimum());
  rule.statistics = {{bytesOf(getInput()), true}, {bytesOf(getResult()), true}};
  return rule;
}

FailureOr<SmallVector<Value>> ArgReduceOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  if (context.stagedAxes().empty())
    return cloneWithLocalTypes(*this, builder, context);
  OpComposer ops(builder, getLoc());
  int64_t axis = getAxis();
  Type indexType = elementTypeOf(getResult());
  auto arg = [&](Value from) -> Value {
    SmallVector<int64_t> shape(shapeOf(from));
    shape[axis] = 1;
    return ArgReduceOp::create(builder, getLoc(), RankedTensorType::get(shape, indexType), from,
                               getAxisAttr(), getMinimumAttr(), builder.getBoolAttr(true),
                               getSelectLastAttr());
  };
  Value input = context.operand(0);
  Value best = ops.reduce(getMinimum() ? ReduceKind::Min : ReduceKind::Max, input, {axis});
  Value index = ops.shiftIndices(arg(input), context.getOffset(builder, axis));
  // Padding is chosen only where all elements are like it, and then the last of them is the last element.
  index = ops.apply(ElementwiseKind::Min,
                    {index, ops.constant(static_cast<double>(shapeOf(getInput())[axis] - 1), index)});
  best = context.gatherStatistic(builder, best, axis);
  index = context.gatherStatistic(builder, index, axis);
  Value rank = arg(best);
  Value chosen = GatherElementsOp::create(builder, getLoc(), rank.getType(), index, rank, getAxisAttr());
  if (!getKeepdims())
    chosen = ReshapeOp::create(builder, getLoc(),
                               RankedTensorType::get(context.localResultShape(0), indexType), chosen);
  return SmallVector<Value>{chosen};
}

FactorRule CumulateOp::getFactorRule() {
  return makeAlongAxis(*this, getAxis(), true);
}

FactorRule TopKOp::getFactorRule() {
  FactorRule rule = makeAlongAxis(*this, getAxis(), true);
  int64_t k = shapeOf(getValues())[getAxis()];
  // All of them are sorted whole: nothing small would be exchanged.
  if (k == shapeOf(getInput())[getAxis()])
    return rule;
  Factor &factor = rule.factors[getAxis()];
  stageSelection(factor, getLargest());
  factor.even = true; // padding between shards could come before an element that equals it
  rule.statistics = {{k * bytesOf(getValues()), true}, {k * bytesOf(getIndices()), true}};
  return rule;
}

FailureOr<SmallVector<Value>> TopKOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  if (context.stagedAxes().empty())
    return cloneWithLocalTypes(*this, builder, context);
  OpComposer ops(builder, getLoc());
  int64_t axis = getAxis(), k = shapeOf(getValues())[axis];
  auto select = [&](Value from, int64_t count) {
    SmallVector<int64_t> shape(shapeOf(from));
    shape[axis] = count;
    return TopKOp::create(builder, getLoc(), RankedTensorType::get(shape, elementTypeOf(getValues())),
                          RankedTensorType::get(shape, elementTypeOf(getIndices())), from, getAxisAttr(),
                          getLargestAttr());
  };
  Value input = context.operand(0);
  // Shards stand in the order of their elements, so that equal ones still come in the order of their indices.
  TopKOp own = select(input, std::min(k, shapeOf(input)[axis]));
  Value values = context.gatherStatistic(builder, own.getValues(), axis);
  Value indices = context.gatherStatistic(
      builder, ops.shiftIndices(own.getIndices(), context.getOffset(builder, axis)), axis);
  TopKOp best = select(values, k);
  Value chosen = GatherElementsOp::create(builder, getLoc(), best.getIndices().getType(), indices,
                                          best.getIndices(), getAxisAttr());
  return SmallVector<Value>{best.getValues(), chosen};
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

// The terms of a sum do not matter to its gradient.
bool ReduceOp::isOperandSaved(unsigned operand) {
  return getKind() != ReduceKind::Sum && getKind() != ReduceKind::Mean;
}
bool ReduceOp::isResultSaved(unsigned result) {
  return getKind() == ReduceKind::Max || getKind() == ReduceKind::Min || getKind() == ReduceKind::L2 ||
         getKind() == ReduceKind::LogSumExp;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// Over no dimension it computes elements one by one.
KernelKind ReduceOp::getKernelKind() {
  return getAxes().empty() ? KernelKind::Element : KernelKind::Row;
}

std::optional<RowSpace> ReduceOp::getRowSpace() {
  if (getAxes().empty())
    return std::nullopt;
  RowSpace space{SmallVector<int64_t>(shapeOf(getInput())), {}};
  for (int64_t d = 0; d < static_cast<int64_t>(space.shape.size()); ++d)
    space.reduced.push_back(llvm::is_contained(getAxes(), d));
  return space;
}

bool ReduceOp::readsAtOwnIndex() {
  return true;
}

KernelKind CumulateOp::getKernelKind() {
  return KernelKind::Tile;
}

KernelKind TopKOp::getKernelKind() {
  return KernelKind::Tile;
}

//===----------------------------------------------------------------------===//
// Integer ranges
//===----------------------------------------------------------------------===//

/// Indices of a dimension of so many elements.
static IntegerValueRange getIndexRange(Value indices, int64_t size) {
  return getRangeBetween(indices, 0, std::max<double>(0, static_cast<double>(size) - 1));
}

void ArgReduceOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange>, SetIntLatticeFn set) {
  set(getResult(), getIndexRange(getResult(), shapeOf(getInput())[getAxis()]));
}

void TopKOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  set(getValues(), ranges[0]);
  set(getIndices(), getIndexRange(getIndices(), shapeOf(getInput())[getAxis()]));
}

void CumulateOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  if (ranges[0].isUninitialized())
    return;
  if (getProduct())
    return set(getResult(), IntegerValueRange::getMaxRange(getResult()));
  auto [low, high] = getBounds(getInput(), ranges[0].getValue());
  auto count = static_cast<double>(shapeOf(getInput())[getAxis()]);
  set(getResult(), getRangeBetween(getResult(), std::min(0.0, low * count), std::max(0.0, high * count)));
}
