//===- Indexing.cpp ------------------------------------------------------===//
//
// Reads and writes at computed places. All that is known about these ops stands here: verification, folding,
// sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Indexing/ScatterCombine.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Indices reach no further than the data in every dimension but `axis` (C3 of the ops on single elements).
static LogicalResult verifyExtent(Operation *op, Value data, Value indices, int64_t axis) {
  for (auto [d, size, room] : llvm::enumerate(shapeOf(indices), shapeOf(data)))
    if (static_cast<int64_t>(d) != axis && size > room)
      return op->emitOpError() << "indices of " << indices.getType() << " reach beyond dimension " << d
                               << " of " << data.getType() << " (C3)";
  return success();
}

LogicalResult GatherOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)) ||
      failed(verifyAxis(*this, getAxis(), getData(), "C1")) ||
      failed(verifyIndices(*this, getIndices(), "C1")) ||
      failed(verifySameElements(*this, getData(), getResult(), "C2")))
    return failure();
  ArrayRef<int64_t> data = shapeOf(getData());
  SmallVector<int64_t> shape(data.take_front(getAxis()));
  llvm::append_range(shape, shapeOf(getIndices()));
  llvm::append_range(shape, data.drop_front(getAxis() + 1));
  return verifyShape(*this, getResult(), shape, "result", "C2");
}

LogicalResult GatherElementsOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)) ||
      failed(verifyAxis(*this, getAxis(), getData(), "C1")) ||
      failed(verifyIndices(*this, getIndices(), "C1")) ||
      failed(verifyRank(*this, getIndices(), shapeOf(getData()).size(), "indices", "C1")) ||
      failed(verifySameElements(*this, getData(), getResult(), "C2")) ||
      failed(verifyShape(*this, getResult(), shapeOf(getIndices()), "result", "C2")))
    return failure();
  return verifyExtent(*this, getData(), getIndices(), getAxis());
}

LogicalResult GatherNDOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)) || failed(verifyIndices(*this, getIndices(), "C1")))
    return failure();
  ArrayRef<int64_t> data = shapeOf(getData()), indices = shapeOf(getIndices());
  int64_t batch = getBatchDims();
  if (batch < 0 || batch >= static_cast<int64_t>(indices.size()) ||
      indices.back() > static_cast<int64_t>(data.size()) - batch ||
      indices.take_front(batch) != data.take_front(batch))
    return emitOpError() << "tuples of " << getIndices().getType() << " with " << batch
                         << " batch dimensions do not index " << getData().getType() << " (C1)";
  SmallVector<int64_t> shape(indices.drop_back());
  llvm::append_range(shape, data.drop_front(batch + indices.back()));
  if (failed(verifyShape(*this, getResult(), shape, "result", "C2")))
    return failure();
  return verifySameElements(*this, getData(), getResult(), "C2");
}

/// C2 of both scatters: data, updates and result have one element type, and the result has the data's shape.
static LogicalResult verifyScattered(Operation *op, Value data, Value updates, Value result) {
  if (failed(verifySameElements(op, data, updates, "C2")) ||
      failed(verifySameElements(op, data, result, "C2")))
    return failure();
  return verifyShape(op, result, shapeOf(data), "result", "C2");
}

static ElementUse useOf(ScatterReduction reduction) {
  return reduction == ScatterReduction::None ? ElementUse::Moves : ElementUse::Computes;
}

LogicalResult ScatterElementsOp::verify() {
  if (failed(verifyTensors(*this, useOf(getReduction()))) ||
      failed(verifyAxis(*this, getAxis(), getData(), "C1")) ||
      failed(verifyIndices(*this, getIndices(), "C1")) ||
      failed(verifyRank(*this, getIndices(), shapeOf(getData()).size(), "indices", "C1")) ||
      failed(verifyShape(*this, getUpdates(), shapeOf(getIndices()), "updates", "C1")) ||
      failed(verifyScattered(*this, getData(), getUpdates(), getResult())))
    return failure();
  return verifyExtent(*this, getData(), getIndices(), getAxis());
}

LogicalResult ScatterNDOp::verify() {
  if (failed(verifyTensors(*this, useOf(getReduction()))) || failed(verifyIndices(*this, getIndices(), "C1")))
    return failure();
  ArrayRef<int64_t> data = shapeOf(getData()), indices = shapeOf(getIndices());
  if (indices.empty() || indices.back() > static_cast<int64_t>(data.size()))
    return emitOpError() << "tuples of " << getIndices().getType() << " do not index " << getData().getType()
                         << " (C1)";
  SmallVector<int64_t> shape(indices.drop_back());
  llvm::append_range(shape, data.drop_front(indices.back()));
  if (failed(verifyShape(*this, getUpdates(), shape, "updates", "C1")))
    return failure();
  return verifyScattered(*this, getData(), getUpdates(), getResult());
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

// Indices that lie in padding must still point inside their tensor, hence PaddingFill::Zero on whatever
// indices carry.

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

FactorRule GatherOp::getFactorRule() {
  FactorRule rule;
  TensorFactors data, indices, result;
  for (int64_t size : getShape(getIndices())) {
    unsigned factor = rule.add(size, FactorKind::Parallel, "positions");
    rule.factors[factor].padding = PaddingFill::Zero;
    indices.push_back({factor});
  }
  for (auto [d, size] : llvm::enumerate(getShape(getData()))) {
    bool isAxis = d == getAxis();
    Type element = cast<RankedTensorType>(getType()).getElementType();
    // What a shard does not hold it gives as 0, to be summed: not of elements that have no sums.
    bool isWhole = isAxis && !isComputable(element);
    unsigned factor =
        rule.add(size, isWhole ? FactorKind::Whole : FactorKind::Parallel, isAxis ? "vocabulary" : "");
    data.push_back({factor});
    if (!isAxis) {
      result.push_back({factor});
      continue;
    }
    if (isWhole) {
      result.append(indices.begin(), indices.end());
      continue;
    }
    bool isBoolean = element.isInteger(1);
    rule.setReduction(factor, isBoolean ? ReductionKind::Or : ReductionKind::Sum);
    // Padding is read as 0: split unevenly over two axes, it has the indices of the next shard's elements.
    rule.factors[factor].indexed = true;
    result.append(indices.begin(), indices.end());
  }
  rule.operands = {data, indices};
  rule.operands.resize(getNumOperands());
  rule.results.push_back(result);
  return rule;
}

FailureOr<SmallVector<Value>> GatherOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  unsigned axis = getShape(getIndices()).size() + getAxis(); // the rule's factor
  Value offset = getOffset() ? context.operand(2) : Value();
  IntegerAttr extent = getExtentAttr();
  if (Value shard = context.getOffset(builder, axis)) {
    offset = offset ? arith::AddIOp::create(builder, getLoc(), offset, shard).getResult() : shard;
    if (!extent)
      extent = builder.getI64IntegerAttr(getShape(getData())[getAxis()]);
  }
  auto type =
      RankedTensorType::get(context.localResultShape(0), cast<RankedTensorType>(getType()).getElementType());
  return SmallVector<Value>{GatherOp::create(builder, getLoc(), type, context.operand(0), context.operand(1),
                                             offset, getAxisAttr(), extent)};
}

FactorRule GatherElementsOp::getFactorRule() {
  FactorRule rule;
  TensorFactors data, indices;
  for (auto [d, sizes] : llvm::enumerate(llvm::zip_equal(getShape(getData()), getShape(getIndices())))) {
    auto [dataSize, indexSize] = sizes;
    bool isShared = d != getAxis() && dataSize == indexSize;
    // Indices may reach over a part of another dimension only: then that part is whole.
    bool isFree = isShared || d == getAxis();
    unsigned factor = rule.add(indexSize, isFree ? FactorKind::Parallel : FactorKind::Whole);
    rule.factors[factor].padding = PaddingFill::Zero;
    indices.push_back({factor});
    data.push_back({isShared ? factor : rule.add(dataSize, FactorKind::Whole)});
  }
  rule.operands = {data, indices};
  rule.results.push_back(indices);
  return rule;
}

FactorRule GatherNDOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> dataShape = getShape(getData()), indexShape = getShape(getIndices());
  unsigned batch = getBatchDims(), depth = indexShape.back();
  TensorFactors data, indices, result;
  for (int64_t size : indexShape.drop_back()) {
    unsigned factor = rule.add(size, FactorKind::Parallel, indices.size() < batch ? "batch" : "positions");
    rule.factors[factor].padding = PaddingFill::Zero;
    if (indices.size() < batch)
      data.push_back({factor});
    indices.push_back({factor});
    result.push_back({factor});
  }
  indices.push_back({rule.add(depth, FactorKind::Whole)});
  for (auto [d, size] : llvm::enumerate(dataShape)) {
    if (d < batch)
      continue;
    bool isIndexed = d < batch + depth;
    data.push_back({rule.add(size, isIndexed ? FactorKind::Whole : FactorKind::Parallel)});
    if (!isIndexed)
      result.push_back(data.back());
  }
  rule.operands = {data, indices};
  rule.results.push_back(result);
  return rule;
}

FactorRule ScatterElementsOp::getFactorRule() {
  FactorRule rule;
  TensorFactors data, updates;
  for (auto [d, sizes] : llvm::enumerate(llvm::zip_equal(getShape(getData()), getShape(getIndices())))) {
    auto [dataSize, indexSize] = sizes;
    bool isShared = d != getAxis() && dataSize == indexSize;
    unsigned factor = rule.add(indexSize, isShared ? FactorKind::Parallel : FactorKind::Whole);
    rule.factors[factor].padding = PaddingFill::Zero;
    updates.push_back({factor});
    data.push_back({isShared ? factor : rule.add(dataSize, FactorKind::Whole)});
  }
  rule.operands = {data, updates, updates};
  rule.results.push_back(data);
  return rule;
}

FactorRule ScatterNDOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> dataShape = getShape(getData()), indexShape = getShape(getIndices());
  unsigned depth = indexShape.back();
  TensorFactors data, indices, updates;
  for (int64_t size : indexShape.drop_back()) {
    indices.push_back({rule.add(size, FactorKind::Whole)});
    updates.push_back(indices.back());
  }
  indices.push_back({rule.add(depth, FactorKind::Whole)});
  for (auto [d, size] : llvm::enumerate(dataShape)) {
    data.push_back({rule.add(size, d < depth ? FactorKind::Whole : FactorKind::Parallel)});
    if (d >= depth)
      updates.push_back(data.back());
  }
  rule.operands = {data, indices, updates};
  rule.results.push_back(data);
  return rule;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

// The gradient of the data is a sum of rows at the indices.
bool GatherOp::isOperandSaved(unsigned operand) {
  return operand == 1;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// The indices come as any other elements.
bool GatherOp::readsFromMemory(unsigned operand) {
  return operand == 0;
}

bool GatherElementsOp::readsFromMemory(unsigned operand) {
  return operand == 0;
}

bool GatherNDOp::readsFromMemory(unsigned operand) {
  return operand == 0;
}

KernelKind ScatterElementsOp::getKernelKind() {
  return KernelKind::Tile;
}

bool ScatterElementsOp::updatesFirstOperand() {
  return true;
}

KernelKind ScatterNDOp::getKernelKind() {
  return KernelKind::Tile;
}

bool ScatterNDOp::updatesFirstOperand() {
  return true;
}

//===----------------------------------------------------------------------===//
// Integer ranges
//===----------------------------------------------------------------------===//

void GatherOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  // Of a shard, what others hold is 0.
  IntegerValueRange all = ranges[0];
  if (getOffset() && !all.isUninitialized())
    all = IntegerValueRange::join(
        all, ConstantIntRanges::constant(APInt::getZero(all.getValue().smin().getBitWidth())));
  set(getResult(), all);
}

void GatherElementsOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges,
                                                     SetIntLatticeFn set) {
  set(getResult(), ranges[0]);
}

void GatherNDOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  set(getResult(), ranges[0]);
}

//===----------------------------------------------------------------------===//
// What is indexed
//===----------------------------------------------------------------------===//

Value GatherOp::getIndexOperand() {
  return getIndices();
}

int64_t GatherOp::getIndexedSize() {
  return getExtent().value_or(shapeOf(getData())[getAxis()]);
}

Value GatherElementsOp::getIndexOperand() {
  return getIndices();
}

int64_t GatherElementsOp::getIndexedSize() {
  return shapeOf(getData())[getAxis()];
}

Value ScatterElementsOp::getIndexOperand() {
  return getIndices();
}

int64_t ScatterElementsOp::getIndexedSize() {
  return shapeOf(getData())[getAxis()];
}

/// The largest of the dimensions from `first` on that tuples of `indices` index.
static int64_t getLargestIndexed(Value data, Value indices, int64_t first) {
  int64_t most = 0;
  for (int64_t size : shapeOf(data).slice(first, shapeOf(indices).back()))
    most = std::max(most, size);
  return most;
}

Value GatherNDOp::getIndexOperand() {
  return getIndices();
}

int64_t GatherNDOp::getIndexedSize() {
  return getLargestIndexed(getData(), getIndices(), getBatchDims());
}

Value ScatterNDOp::getIndexOperand() {
  return getIndices();
}

int64_t ScatterNDOp::getIndexedSize() {
  return getLargestIndexed(getData(), getIndices(), 0);
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

/// A loaded index as a lane, negative ones counted from the end of `extent`.
static Lane wrappedIndex(ElementEmitter &emitter, Value loaded, Type type, int64_t extent) {
  Type i64 = emitter.builder().getI64Type();
  Element at = Element(emitter, loaded, type).to(i64);
  Element wrapped = (at < at.like(0)).select(at + at.like(extent), at);
  return emitter.fromValue(wrapped.get());
}

/// The same, limited to [0, extent): an index out of range must not read foreign memory.
static Lane clampedIndex(ElementEmitter &emitter, Value loaded, Type type, int64_t extent) {
  Type i64 = emitter.builder().getI64Type();
  Lane lane = wrappedIndex(emitter, loaded, type, extent);
  Element at(emitter, emitter.toValue(lane, i64), i64);
  return emitter.fromValue(at.max(at.like(0)).min(at.like(std::max<int64_t>(extent - 1, 0))).get());
}

Value GatherOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  int64_t axis = getAxis(), rank = shapeOf(getIndices()).size();
  ArrayRef<int64_t> shape = shapeOf(getData());
  Value loaded = emitter.load(getIndices(), index.slice(axis, rank));
  SmallVector<Lane> in(index.take_front(axis));
  Type type = elementTypeOf(getIndices());
  if (!getOffset()) {
    in.push_back(clampedIndex(emitter, loaded, type, shape[axis]));
    in.append(index.begin() + axis + rank, index.end());
    return emitter.load(getData(), in);
  }
  Type i64 = emitter.builder().getI64Type();
  Lane global = wrappedIndex(emitter, loaded, type, getExtent().value_or(shape[axis]));
  Element offset(emitter, emitter.scalarOperand(getOffset()), i64);
  Element local = Element(emitter, emitter.toValue(global, i64), i64) - offset;
  Lane lane = emitter.fromValue(local.get());
  Value inside = emitter.inRange(lane, 0, shape[axis]);
  in.push_back(lane);
  in.append(index.begin() + axis + rank, index.end());
  return emitter.choose(
      inside, [&] { return emitter.load(getData(), in); },
      [&] { return emitter.scalar(elementTypeOf(getData()), 0); });
}

Value GatherElementsOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Value loaded = emitter.load(getIndices(), index);
  SmallVector<Lane> in(index);
  in[getAxis()] = clampedIndex(emitter, loaded, elementTypeOf(getIndices()), shapeOf(getData())[getAxis()]);
  return emitter.load(getData(), in);
}

Value GatherNDOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  ArrayRef<int64_t> indexShape = shapeOf(getIndices()), shape = shapeOf(getData());
  int64_t rank = indexShape.size(), depth = indexShape.back(), batch = getBatchDims();
  SmallVector<Lane> at(index.take_front(rank - 1)), in(index.take_front(batch));
  at.push_back(emitter.constant(0));
  for (int64_t k = 0; k < depth; ++k) {
    at.back() = emitter.constant(k);
    in.push_back(
        clampedIndex(emitter, emitter.load(getIndices(), at), elementTypeOf(getIndices()), shape[batch + k]));
  }
  in.append(index.begin() + rank - 1, index.end());
  return emitter.load(getData(), in);
}

Element colossal::scatterCombine(ScatterReduction reduction, Element old, Element update) {
  switch (reduction) {
  case ScatterReduction::None: return update;
  case ScatterReduction::Add: return old + update;
  case ScatterReduction::Mul: return old * update;
  case ScatterReduction::Max: return old.max(update);
  case ScatterReduction::Min: return old.min(update);
  }
  llvm_unreachable("unknown reduction");
}

/// Makes the first value of a loop a vector where later ones are.
static Value carriedLike(ElementEmitter &emitter, Value value, ArrayRef<Lane> index) {
  if (isa<VectorType>(value.getType()) ||
      llvm::all_of(index, [](const Lane &lane) { return lane.isUniform(); }))
    return value;
  return vector::BroadcastOp::create(emitter.builder(), emitter.loc(),
                                     VectorType::get({(int64_t)emitter.lanes()}, value.getType()), value);
}

Value ScatterElementsOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  // Updates in the order of the indices; only those in the same line along the axis can touch this element.
  int64_t axis = getAxis(), extent = shapeOf(getData())[axis];
  Type type = elementTypeOf(getData()), boolean = emitter.builder().getI1Type(),
       i64 = emitter.builder().getI64Type();
  ArrayRef<int64_t> updates = shapeOf(getUpdates());
  Value inside;
  for (unsigned d = 0; d < updates.size(); ++d)
    if ((int64_t)d != axis && updates[d] < shapeOf(getData())[d]) {
      Element here(emitter, emitter.inRange(index[d], 0, updates[d]), boolean);
      inside = inside ? (Element(emitter, inside, boolean) & here).get() : here.get();
    }
  Value data = carriedLike(emitter, emitter.load(getData(), index), index);
  auto apply = [&] {
    Element here(emitter, emitter.toValue(index[axis], i64), i64);
    return emitter.reduce(updates[axis], data, [&](Value counter, ValueRange carried) -> SmallVector<Value> {
      SmallVector<Lane> at(index);
      at[axis] = emitter.uniform(counter);
      Lane lane = wrappedIndex(emitter, emitter.load(getIndices(), at), elementTypeOf(getIndices()), extent);
      Element target(emitter, emitter.toValue(lane, i64), i64), old(emitter, carried[0], type);
      Element update(emitter, emitter.load(getUpdates(), at), type);
      Element next = (target == here).select(scatterCombine(getReduction(), old, update), old);
      return {carriedLike(emitter, next.get(), index)};
    })[0];
  };
  if (updates[axis] == 0)
    return data;
  return inside ? emitter.choose(inside, apply, [&] { return data; }) : apply();
}

Value ScatterNDOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  ArrayRef<int64_t> indexShape = shapeOf(getIndices()), shape = shapeOf(getData());
  int64_t rank = indexShape.size(), depth = indexShape.back(), tuples = 1;
  for (int64_t d = 0; d + 1 < rank; ++d)
    tuples *= indexShape[d];
  Type type = elementTypeOf(getData()), i64 = emitter.builder().getI64Type();
  Value data = carriedLike(emitter, emitter.load(getData(), index), index);
  if (tuples == 0)
    return data;
  return emitter.reduce(tuples, data, [&](Value counter, ValueRange carried) -> SmallVector<Value> {
    SmallVector<Lane> at = delinearize(emitter, emitter.uniform(counter), indexShape.drop_back());
    SmallVector<Lane> from(at);
    at.push_back(emitter.constant(0));
    Element hit(emitter, emitter.scalar(emitter.builder().getI1Type(), 1), emitter.builder().getI1Type());
    for (int64_t k = 0; k < depth; ++k) {
      at.back() = emitter.constant(k);
      Lane lane =
          wrappedIndex(emitter, emitter.load(getIndices(), at), elementTypeOf(getIndices()), shape[k]);
      Element wanted(emitter, emitter.toValue(lane, i64), i64);
      hit = hit & (Element(emitter, emitter.toValue(index[k], i64), i64) == wanted);
    }
    from.append(index.begin() + depth, index.end());
    Element old(emitter, carried[0], type), update(emitter, emitter.load(getUpdates(), from), type);
    return {carriedLike(emitter, hit.select(scatterCombine(getReduction(), old, update), old).get(), index)};
  })[0];
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// The update at `from` put where `to` says.
static void emitUpdate(TileEmitter &tiles, ScatterReduction reduction, Value updates, ArrayRef<Lane> from,
                       Value result, ArrayRef<Lane> to) {
  ElementEmitter &e = tiles.elements();
  Type type = elementTypeOf(result);
  Element next(e, tiles.read(updates, from), type);
  if (reduction != ScatterReduction::None)
    next = scatterCombine(reduction, Element(e, tiles.read(result, to), type), next);
  tiles.write(next.get(), result, to);
}

/// A loaded index, negative ones counted from the end.
static Lane wrappedPlace(TileEmitter &tiles, Value loaded, Type type, int64_t extent) {
  ElementEmitter &e = tiles.elements();
  Element place = Element(e, loaded, type).to(e.builder().getI64Type());
  return e.fromValue((place < tiles.number(0)).select(place + tiles.number(extent), place).get());
}

// Updates that may meet lie along the axis: what stands before it counts tiles.
TilePlan ScatterElementsOp::getTiles() {
  return {SmallVector<int64_t>(shapeOf(getResult()).take_front(getAxis())), 0};
}

void ScatterElementsOp::emitTile(TileEmitter &tiles, ArrayRef<Lane> tile) {
  ElementEmitter &e = tiles.elements();
  int64_t axis = getAxis(), extent = shapeOf(getData())[axis];
  ArrayRef<int64_t> updates = shapeOf(getUpdates());
  Type indexType = elementTypeOf(getIndices()), boolean = e.builder().getI1Type();
  Element inside(e, e.scalar(boolean, 1), boolean);
  for (auto [d, lane] : llvm::enumerate(tile))
    inside = inside & Element(e, e.inRange(lane, 0, updates[d]), boolean);
  tiles.when(inside.get(), [&] {
    SmallVector<Lane> index(tile);
    tiles.forEach(updates.drop_front(axis), index, [&] {
      SmallVector<Lane> to(index);
      to[axis] = wrappedPlace(tiles, tiles.read(getIndices(), index), indexType, extent);
      tiles.when(e.inRange(to[axis], 0, extent),
                 [&] { emitUpdate(tiles, getReduction(), getUpdates(), index, getResult(), to); });
    });
  });
}

// Any two updates may meet: one tile.
TilePlan ScatterNDOp::getTiles() {
  return {};
}

void ScatterNDOp::emitTile(TileEmitter &tiles, ArrayRef<Lane>) {
  ElementEmitter &e = tiles.elements();
  ArrayRef<int64_t> indices = shapeOf(getIndices()), data = shapeOf(getData());
  int64_t depth = indices.back();
  Type indexType = elementTypeOf(getIndices()), boolean = e.builder().getI1Type();
  SmallVector<Lane> tuple;
  tiles.forEach(indices.drop_back(), tuple, [&] {
    SmallVector<Lane> from(tuple), to, element(tuple);
    element.push_back(Lane());
    Element inside(e, e.scalar(boolean, 1), boolean);
    for (int64_t d = 0; d < depth; ++d) {
      element.back() = e.constant(d);
      to.push_back(wrappedPlace(tiles, tiles.read(getIndices(), element), indexType, data[d]));
      inside = inside & Element(e, e.inRange(to.back(), 0, data[d]), boolean);
    }
    tiles.when(inside.get(), [&] {
      SmallVector<Lane> slice;
      tiles.forEach(data.drop_front(depth), slice, [&] {
        SmallVector<Lane> source(from), target(to);
        llvm::append_range(source, slice);
        llvm::append_range(target, slice);
        emitUpdate(tiles, getReduction(), getUpdates(), source, getResult(), target);
      });
    });
  });
}
