//===- BatchNormalization.cpp - statistics of the batch, and running ones -----===//
//
// A batch normalization as ordinary ops. That each rank takes the statistics of its own samples is no matter
// of the layout: the batch is cut into as many parts as there are ranks along the axis of the data, in each
// microbatch, and each part has statistics of its own. Where the batch is split over that axis, all of it is
// local; under any other layout it gives the same numbers.
//
//===----------------------------------------------------------------------===//
#include "BatchNormalization.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

/// A tensor [C] as [C, 1, ..., 1], which broadcasts over the dimensions behind the channels of `input`.
static Value perChannel(OpComposer &ops, Value value, Value input) {
  SmallVector<int64_t> shape(shapeOf(input).size() - 1, 1);
  shape.front() = shapeOf(value).front();
  return ops.reshape(value, shape);
}

// In the order in which import writes a batch normalization of an inference.
Value training::buildByRunning(BatchNormalizeOp op) {
  OpBuilder b(op);
  OpComposer ops(b, op.getLoc());
  Type statistics = elementTypeOf(op.getVariance());
  Value root =
      ops.apply(ElementwiseKind::Sqrt, {ops.shift(op.getVariance(), op.getEpsilon().convertToDouble())});
  Value factor = ops.div(ops.cast(op.getScale(), statistics), root);
  Value moved = ops.mul(ops.cast(op.getMean(), statistics), factor);
  Value shift = ops.sub(ops.cast(op.getBias(), statistics), moved);
  Value scaled = ops.mul(ops.cast(op.getInput(), statistics), perChannel(ops, factor, op.getInput()));
  return ops.cast(ops.add(scaled, perChannel(ops, shift, op.getInput())), elementTypeOf(op.getInput()));
}

FailureOr<BatchNormalized> training::buildByBatch(BatchNormalizeOp op, int64_t parts) {
  OpBuilder b(op);
  OpComposer ops(b, op.getLoc());
  SmallVector<int64_t> shape(shapeOf(op.getInput())), cut = shape;
  if (shape[0] % parts != 0)
    return op.emitOpError()
           << "has " << shape[0] << " rows, which " << parts
           << " parts with statistics of their own (microbatches times ranks of the axis 'data') do "
              "not divide; --sync-batch-norm takes those of all ranks";
  BatchNormalized made;
  made.elements = shape[0] / parts;
  for (int64_t size : ArrayRef(shape).drop_front(2))
    made.elements *= size;
  if (made.elements < 2 && shape[1] > 0)
    return op.emitOpError() << "takes the statistics of " << made.elements
                            << " element of each channel; a larger --global-batch, fewer --microbatches or "
                               "--sync-batch-norm gives it more";
  Type statistics = elementTypeOf(op.getVariance());
  Value input = op.getInput();
  // What was widened for the op is kept narrow, and widened by each kernel on the way.
  if (auto widened = input.getDefiningOp<ElementwiseOp>();
      widened && widened.getKind() == ElementwiseKind::Cast &&
      isa<FloatType>(elementTypeOf(widened.getOperand(0))) &&
      elementTypeOf(widened.getOperand(0)).getIntOrFloatBitWidth() < statistics.getIntOrFloatBitWidth())
    input = widened.getOperand(0);
  SmallVector<int64_t> axes = {0};
  if (parts > 1) {
    cut.front() = shape.front() / parts;
    cut.insert(cut.begin(), parts);
    input = ops.reshape(input, cut);
    axes = {1};
  }
  Value wide = ops.cast(input, statistics);
  for (int64_t d = axes.front() + 2; d < static_cast<int64_t>(cut.size()); ++d)
    axes.push_back(d);
  // Summed up in f64, as PyTorch does: thousands of elements are one statistic, and what a layer of it is
  // off, those behind it enlarge.
  auto mean = [&](Value value) {
    return ops.cast(ops.reduce(ReduceKind::Mean, ops.cast(value, b.getF64Type()), axes), statistics);
  };
  made.mean = mean(wide);
  Value centered = ops.sub(wide, made.mean);
  made.variance = mean(ops.mul(centered, centered));
  Value root =
      ops.apply(ElementwiseKind::Sqrt, {ops.shift(made.variance, op.getEpsilon().convertToDouble())});
  Value scale = perChannel(ops, ops.cast(op.getScale(), statistics), op.getInput());
  Value bias = perChannel(ops, ops.cast(op.getBias(), statistics), op.getInput());
  Value inverse = ops.apply(ElementwiseKind::Reciprocal, {root}), factor = ops.mul(inverse, scale);
  Value result = ops.add(ops.mul(centered, factor), bias);
  made.result = ops.cast(ops.reshape(result, shape), elementTypeOf(op.getInput()));
  return made;
}

Value training::updateStatistic(OpComposer &ops, Value running, ArrayRef<StatisticUse> uses,
                                BatchParts parts) {
  double ofTurn = 1; // what a turn leaves of what was before
  for (const StatisticUse &use : uses)
    ofTurn *= use.momentum;
  Value updated = ops.scale(running, std::pow(ofTurn, static_cast<double>(parts.turns)));
  SmallVector<int64_t> shape(shapeOf(running));
  double behind = 1; // what later uses of the same turn leave of this one
  for (const StatisticUse &use : llvm::reverse(uses)) {
    const double own = behind * (1 - use.momentum) * use.scale;
    behind *= use.momentum;
    Value fresh;
    if (parts.count() == 1) {
      fresh = ops.scale(ops.reshape(use.statistic, shape), own);
    } else {
      auto type = RankedTensorType::get({parts.count(), 1}, elementTypeOf(running));
      SmallVector<double> weights(parts.count(), 0);
      for (int64_t turn = 0; turn < parts.turns; ++turn)
        weights[turn * parts.ranks] = own * std::pow(ofTurn, static_cast<double>(parts.turns - 1 - turn));
      SmallVector<APFloat> numbers;
      for (double weight : weights) {
        APFloat number(weight);
        bool isInexact = false;
        number.convert(cast<FloatType>(type.getElementType()).getFloatSemantics(),
                       APFloat::rmNearestTiesToEven, &isInexact);
        numbers.push_back(number);
      }
      Value constant = ConstantOp::create(ops.builder, ops.loc, type, DenseElementsAttr::get(type, numbers));
      Value weighted = ops.mul(ops.reshape(use.statistic, {parts.count(), shape.front()}), constant);
      fresh = ops.reshape(ops.reduce(ReduceKind::Sum, weighted, {0}), shape);
    }
    updated = ops.add(updated, fresh);
  }
  return updated;
}
