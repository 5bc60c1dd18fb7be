//===- IndexingGradient.cpp -------------------------------------------------===//
//
// What was read at computed places is summed there, and what was written is read back.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

using namespace mlir;
using namespace colossal;
using K = colossal::ElementwiseKind;

/// Zeros to scatter into; one element in memory.
static Value makeZeros(OpComposer &ops, Value like) {
  return ops.broadcast(ops.constant(0, like), shapeOf(like));
}

// Rows of the table are sums of the gradients at the places that read them.
LogicalResult GatherOp::buildGradient(GradientBuilder &gradient) {
  if (getOffset())
    return gradient.refuse("a lookup in a part of a table");
  if (!gradient.wants(0))
    return success();
  OpComposer &ops = gradient.ops();
  Value g = gradient.widen(gradient.resultGradient());
  Value indices = ops.cast(getIndices(), ops.builder.getI64Type());
  Value isBehind = ops.compare(K::Less, indices, 0);
  Value fromEnd = ops.shift(indices, static_cast<double>(shapeOf(getData())[getAxis()]));
  indices = ops.select(isBehind, fromEnd, indices);
  gradient.add(0, SegmentSumOp::create(ops.builder, ops.loc,
                                       RankedTensorType::get(shapeOf(getData()), elementTypeOf(g)), g,
                                       indices, getAxis()));
  return success();
}

LogicalResult GatherElementsOp::buildGradient(GradientBuilder &gradient) {
  if (!gradient.wants(0))
    return success();
  OpComposer &ops = gradient.ops();
  Value g = gradient.widen(gradient.resultGradient());
  Value zeros = makeZeros(ops, gradient.widen(getData()));
  gradient.add(0, ScatterElementsOp::create(ops.builder, ops.loc, zeros.getType(), zeros, getIndices(), g,
                                            getAxis(), ScatterReduction::Add));
  return success();
}

/// The places that tuples of indices stand for in the dimensions that they index, seen as one.
static Value flatten(OpComposer &ops, Value tuples, ArrayRef<int64_t> indexed) {
  const auto last = static_cast<int64_t>(shapeOf(tuples).size()) - 1;
  Value flat;
  for (auto [k, size] : llvm::enumerate(indexed)) {
    Value index = ops.cast(ops.slice(tuples, last, static_cast<int64_t>(k), 1), ops.builder.getI64Type());
    index = ops.select(ops.compare(K::Less, index, 0), ops.shift(index, static_cast<double>(size)), index);
    flat = flat ? ops.add(ops.scale(flat, static_cast<double>(size)), index) : index;
  }
  return ops.reshape(flat, shapeOf(tuples).drop_back());
}

// Where rows of a batch look into their own, each sums up its own, and rows may lie on several ranks or in
// several microbatches; else all look into one table.
LogicalResult GatherNDOp::buildGradient(GradientBuilder &gradient) {
  if (!gradient.wants(0))
    return success();
  OpComposer &ops = gradient.ops();
  Value g = gradient.widen(gradient.resultGradient());
  const ArrayRef<int64_t> data = shapeOf(getData()), tuples = shapeOf(getIndices());
  const size_t batch = getBatchDims(), depth = tuples.back();
  const ArrayRef<int64_t> indexed = data.slice(batch, depth), rest = data.drop_front(batch + depth);
  const int64_t size = llvm::product_of(indexed),
                places = llvm::product_of(tuples.drop_back().drop_front(batch));
  Value flat = flatten(ops, getIndices(), indexed);
  // [batch..., places, rest...], and one index for each place
  SmallVector<int64_t> rows(data.take_front(batch)), table(rows), columns(rows);
  rows.push_back(places);
  table.push_back(size);
  columns.push_back(places);
  columns.append(rest.size(), 1);
  llvm::append_range(rows, rest);
  llvm::append_range(table, rest);
  Value sums;
  if (batch == 0) {
    sums = SegmentSumOp::create(ops.builder, ops.loc, RankedTensorType::get(table, elementTypeOf(g)), g, flat,
                                0);
  } else {
    Value zeros = ops.fill(RankedTensorType::get(table, elementTypeOf(g)), 0);
    sums = ScatterElementsOp::create(ops.builder, ops.loc, zeros.getType(), zeros,
                                     ops.broadcast(ops.reshape(flat, columns), rows), ops.reshape(g, rows),
                                     static_cast<int64_t>(batch), ScatterReduction::Add);
  }
  gradient.add(0, ops.reshape(sums, data));
  return success();
}

// Rows that lie where nothing points get nothing.
LogicalResult SegmentSumOp::buildGradient(GradientBuilder &gradient) {
  if (!gradient.wants(0))
    return success();
  OpComposer &ops = gradient.ops();
  Value g = gradient.resultGradient(), indices = getIndices();
  const int64_t axis = getAxis(), size = shapeOf(getResult())[axis];
  Value isInside = ops.apply(K::And, {ops.compare(K::GreaterOrEqual, indices, 0),
                                      ops.compare(K::Less, indices, static_cast<double>(size))});
  Value safe = ops.keepWhere(isInside, indices);
  Value rows =
      GatherOp::create(ops.builder, ops.loc, getUpdates().getType(), g, safe, Value(), axis, IntegerAttr());
  SmallVector<int64_t> shape(shapeOf(getUpdates()).size(), 1);
  llvm::copy(shapeOf(indices), shape.begin() + axis);
  gradient.add(0, ops.keepWhere(ops.reshape(isInside, shape), rows));
  return success();
}

/// Of a scatter that replaces, or adds.
static bool isLinear(ScatterReduction reduction) {
  return reduction == ScatterReduction::None || reduction == ScatterReduction::Add;
}

LogicalResult ScatterElementsOp::buildGradient(GradientBuilder &gradient) {
  if (!isLinear(getReduction()))
    return gradient.refuse("scattering with " + stringifyScatterReduction(getReduction()));
  OpComposer &ops = gradient.ops();
  Value g = gradient.resultGradient();
  if (gradient.wants(0)) {
    Value data = g;
    if (getReduction() == ScatterReduction::None)
      data = ScatterElementsOp::create(ops.builder, ops.loc, g.getType(), g, getIndices(),
                                       makeZeros(ops, getUpdates()), getAxis(), ScatterReduction::None);
    gradient.add(0, data);
  }
  if (gradient.wants(2))
    gradient.add(2, GatherElementsOp::create(ops.builder, ops.loc, getUpdates().getType(), g, getIndices(),
                                             getAxis()));
  return success();
}

LogicalResult ScatterNDOp::buildGradient(GradientBuilder &gradient) {
  if (!isLinear(getReduction()))
    return gradient.refuse("scattering with " + stringifyScatterReduction(getReduction()));
  OpComposer &ops = gradient.ops();
  Value g = gradient.resultGradient();
  if (gradient.wants(0)) {
    Value data = g;
    if (getReduction() == ScatterReduction::None)
      data = ScatterNDOp::create(ops.builder, ops.loc, g.getType(), g, getIndices(),
                                 makeZeros(ops, getUpdates()), ScatterReduction::None);
    gradient.add(0, data);
  }
  if (gradient.wants(2))
    gradient.add(2, GatherNDOp::create(ops.builder, ops.loc, getUpdates().getType(), g, getIndices(), 0));
  return success();
}
