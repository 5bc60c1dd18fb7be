//===- SegmentSum.cpp -------------------------------------------------------===//
//
// Sums of slices with equal indices, which the gradient of a lookup is. All that is known about the op stands
// here, but its gradient.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/OpComposer.h"
#include "dialects/Colossal/Verification.h"
#include "dialects/Colossal/Window.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

LogicalResult SegmentSumOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyIndices(*this, getIndices(), "C1")) ||
      failed(verifyAxis(*this, getAxis(), getResult(), "C1")) ||
      failed(verifySameElements(*this, getUpdates(), getResult(), "C2")))
    return failure();
  if (elementTypeOf(getIndices()).isUnsignedInteger())
    return emitOpError() << "indices must be signed, but are " << getIndices().getType() << " (C1)";
  if (elementTypeOf(getResult()).isInteger(1))
    return emitOpError("has no meaning for booleans (C2)");
  ArrayRef<int64_t> result = shapeOf(getResult());
  SmallVector<int64_t> shape(result.take_front(getAxis()));
  llvm::append_range(shape, shapeOf(getIndices()));
  llvm::append_range(shape, result.drop_front(getAxis() + 1));
  return verifyShape(*this, getUpdates(), shape, "updates", "C2");
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

// As of gather, what is summed and what is independent exchanged: each rank sums the rows of its own
// segments, or its own rows of all segments. Padding adds zeros.
FactorRule SegmentSumOp::getFactorRule() {
  FactorRule rule;
  TensorFactors updates, indices, result;
  for (int64_t size : shapeOf(getIndices())) {
    unsigned factor = rule.add(size, FactorKind::Reduction, "positions");
    rule.setReduction(factor, ReductionKind::Sum);
    indices.push_back({factor});
  }
  for (auto [d, size] : llvm::enumerate(shapeOf(getResult()))) {
    bool isAxis = d == getAxis();
    unsigned factor = rule.add(size, FactorKind::Parallel, isAxis ? "vocabulary" : "");
    rule.factors[factor].indexed = isAxis;
    result.push_back({factor});
    if (isAxis)
      updates.append(indices.begin(), indices.end());
    else
      updates.push_back({factor});
  }
  rule.operands = {updates, indices};
  rule.results.push_back(result);
  rule.addCarried(0u);
  return rule;
}

FailureOr<SmallVector<Value>> SegmentSumOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  OpComposer ops(builder, getLoc());
  unsigned axis = shapeOf(getIndices()).size() + getAxis(); // the rule's factor
  Value indices = ops.shiftIndices(context.operand(1), context.getOffset(builder, axis), -1);
  auto type = RankedTensorType::get(context.localResultShape(0), elementTypeOf(getResult()));
  return SmallVector<Value>{
      SegmentSumOp::create(builder, getLoc(), type, context.operand(0), indices, getAxisAttr())};
}

double SegmentSumOp::getFlops() {
  return cast<RankedTensorType>(getUpdates().getType()).getNumElements();
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

KernelKind SegmentSumOp::getKernelKind() {
  return KernelKind::Tile;
}

Value SegmentSumOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getResult()), inner = computeType(type), i64 = emitter.builder().getI64Type();
  const int64_t axis = getAxis();
  Value zero = carriedLike(emitter, emitter.scalar(inner, 0), index);
  auto add = [&](ArrayRef<Value> counters, ValueRange sum) {
    SmallVector<Lane> places, from(index.take_front(axis));
    for (Value counter : counters)
      places.push_back(emitter.uniform(counter));
    llvm::append_range(from, places);
    llvm::append_range(from, index.drop_front(axis + 1));
    Element wanted =
        Element(emitter, emitter.load(getIndices(), places), elementTypeOf(getIndices())).to(i64);
    Element here = wanted == Element(emitter, emitter.toValue(index[axis], i64), i64);
    Element update = Element(emitter, emitter.load(getUpdates(), from), type).to(inner);
    Element old(emitter, sum[0], inner);
    return SmallVector<Value>{carriedLike(emitter, here.select(old + update, old).get(), index)};
  };
  return Element(emitter, overWindow(emitter, shapeOf(getIndices()), zero, add)[0], inner).to(type).get();
}

/// So many tiles share the segments, each of which looks through all indices.
static constexpr int64_t kTiles = 64;

static int64_t getSegmentsOfTile(int64_t segments) {
  return std::max<int64_t>(1, (segments + kTiles - 1) / kTiles);
}

bool SegmentSumOp::canAddToResult() {
  return true;
}

TilePlan SegmentSumOp::getTiles() {
  const int64_t segments = shapeOf(getResult())[getAxis()], each = getSegmentsOfTile(segments);
  TilePlan plan{SmallVector<int64_t>(shapeOf(getResult()).take_front(getAxis())), 0};
  plan.shape.push_back((segments + each - 1) / each);
  return plan;
}

void SegmentSumOp::emitTile(TileEmitter &tiles, ArrayRef<Lane> tile) {
  ElementEmitter &e = tiles.elements();
  Type type = elementTypeOf(getResult()), i64 = e.builder().getI64Type();
  ArrayRef<int64_t> result = shapeOf(getResult()), slice = result.drop_front(getAxis() + 1);
  const int64_t segments = result[getAxis()], each = getSegmentsOfTile(segments);
  ArrayRef<Lane> before = tile.drop_back();
  Lane first = e.mul(tile.back(), each);
  auto clear = [&] {
    SmallVector<Lane> row;
    tiles.forEach({each}, row, [&] {
      Lane segment = e.add(first, row[0]);
      tiles.when(e.inRange(segment, 0, segments), [&] {
        SmallVector<Lane> to(before);
        to.push_back(segment);
        tiles.forEach(slice, to, [&] { tiles.write(e.scalar(type, 0), getResult(), to); });
      });
    });
  };
  if (!tiles.addsToResult())
    clear();
  Element low(e, e.toValue(first, i64), i64), high = (low + tiles.number(each)).min(tiles.number(segments));
  SmallVector<Lane> place;
  tiles.forEach(shapeOf(getIndices()), place, [&] {
    Element wanted = Element(e, tiles.read(getIndices(), place), elementTypeOf(getIndices())).to(i64);
    Element isBelow = wanted < high, here = (low <= wanted) & isBelow;
    tiles.when(here.get(), [&] {
      SmallVector<Lane> inner;
      Lane segment = e.fromValue(wanted.get());
      tiles.forEach(slice, inner, [&] {
        SmallVector<Lane> from(before), to(before);
        llvm::append_range(from, place);
        llvm::append_range(from, inner);
        to.push_back(segment);
        llvm::append_range(to, inner);
        Element old(e, tiles.read(getResult(), to), type), update(e, tiles.read(getUpdates(), from), type);
        tiles.write((old + update).get(), getResult(), to);
      });
    });
  });
}
