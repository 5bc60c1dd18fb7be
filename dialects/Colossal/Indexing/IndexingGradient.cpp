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

LogicalResult GatherNDOp::buildGradient(GradientBuilder &gradient) {
  if (!gradient.wants(0))
    return success();
  OpComposer &ops = gradient.ops();
  Value g = gradient.widen(gradient.resultGradient()), indices = getIndices();
  SmallVector<int64_t> shape(shapeOf(indices));
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  // Scattering knows no batch: its dimensions are indexed by their own ranges.
  SmallVector<Value> columns;
  for (int64_t d = 0; d < static_cast<int64_t>(getBatchDims()); ++d) {
    SmallVector<int64_t> column(shape);
    column[last] = 1;
    columns.push_back(ops.iota(column, elementTypeOf(indices), d));
  }
  columns.push_back(indices);
  Value zeros = makeZeros(ops, gradient.widen(getData()));
  gradient.add(0, ScatterNDOp::create(ops.builder, ops.loc, zeros.getType(), zeros, ops.concat(columns, last),
                                      g, ScatterReduction::Add));
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
