//===- MovementGradient.cpp -------------------------------------------------===//
//
// What moves elements moves their gradients back, and sums those of what it repeats.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace colossal;

LogicalResult ReshapeOp::buildGradient(GradientBuilder &gradient) {
  gradient.add(0, gradient.ops().reshape(gradient.resultGradient(), shapeOf(getInput())));
  return success();
}

LogicalResult TransposeOp::buildGradient(GradientBuilder &gradient) {
  gradient.add(
      0, gradient.ops().transpose(gradient.resultGradient(), invertPermutationVector(getPermutation())));
  return success();
}

LogicalResult BroadcastOp::buildGradient(GradientBuilder &gradient) {
  gradient.add(0, gradient.resultGradient());
  return success();
}

/// Puts `step` - 1 zeros behind each element of dimension `axis` but the last.
static Value spread(OpComposer &ops, Value value, int64_t axis, int64_t step) {
  SmallVector<int64_t> shape(shapeOf(value));
  const int64_t size = shape[axis];
  if (step == 1 || size < 2)
    return value;
  SmallVector<int64_t> apart(shape), spaced;
  apart.insert(apart.begin() + axis + 1, 1);
  spaced = apart;
  spaced[axis + 1] = step - 1;
  Value zeros = ops.fill(RankedTensorType::get(spaced, elementTypeOf(value)), 0);
  Value wide = ops.concat({ops.reshape(value, apart), zeros}, axis + 1);
  shape[axis] = size * step;
  return ops.slice(ops.reshape(wide, shape), axis, 0, (size - 1) * step + 1);
}

LogicalResult SliceOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Value g = gradient.resultGradient();
  SmallVector<int64_t> starts(getStarts());
  for (int64_t axis = 0; axis < static_cast<int64_t>(starts.size()); ++axis) {
    int64_t size = shapeOf(g)[axis], step = getSteps()[axis];
    if (size < 2)
      continue;
    if (step == 0) { // one element again and again
      g = ops.reduce(ReduceKind::Sum, g, {axis});
      continue;
    }
    if (step < 0) {
      starts[axis] += (size - 1) * step;
      g = ops.slice(g, axis, size - 1, size, -1);
      step = -step;
    }
    g = spread(ops, g, axis, step);
  }
  gradient.addPart(0, g, starts);
  return success();
}

LogicalResult ConcatOp::buildGradient(GradientBuilder &gradient) {
  int64_t axis = getAxis(), start = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    int64_t size = shapeOf(input)[axis];
    if (gradient.wants(i))
      gradient.add(i, gradient.ops().slice(gradient.resultGradient(), axis, start, size));
    start += size;
  }
  return success();
}

/// The border holds elements again: along each dimension the gradient is a product with what padding makes of
/// the unit vectors.
static Value buildFoldedBorder(OpComposer &ops, PadOp op, Value g) {
  Type type = elementTypeOf(op.getInput());
  for (auto [d, size, padded, low] :
       llvm::enumerate(shapeOf(op.getInput()), shapeOf(op.getResult()), op.getLow())) {
    if (low == 0 && size == padded)
      continue;
    Value rows = PadOp::create(ops.builder, ops.loc, RankedTensorType::get({size, padded}, type),
                               ops.identity(size, type), Value(), ArrayRef<int64_t>{0, low}, op.getMode());
    const auto rank = static_cast<int64_t>(shapeOf(g).size());
    SmallVector<int64_t> labels = llvm::to_vector(llvm::seq<int64_t>(rank)), folded(labels);
    folded[d] = rank;
    g = ops.contract(g, labels, rows, {rank, static_cast<int64_t>(d)}, folded, type);
  }
  return g;
}

LogicalResult PadOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Value g = gradient.resultGradient();
  if (getMode() != PadMode::Constant) {
    if (gradient.wants(0))
      gradient.add(0, buildFoldedBorder(ops, *this, g));
    return success();
  }
  // Pads of the other sign: what was added is cut off, what was cut off is zero.
  SmallVector<int64_t> low;
  for (int64_t size : getLow())
    low.push_back(-size);
  bool cuts = true;
  for (auto [size, padded, before] : llvm::zip_equal(shapeOf(getInput()), shapeOf(getResult()), getLow()))
    cuts &= before >= 0 && before + size <= padded;
  Value inside = g;
  if (cuts)
    for (auto [d, size] : llvm::enumerate(shapeOf(getInput())))
      inside = ops.slice(inside, d, getLow()[d], size);
  else
    inside = ops.pad(g, low, shapeOf(getInput()));
  gradient.add(0, inside);
  if (getValue() && gradient.wants(1)) {
    // Summed where the value stands: a difference of sums would lose it among the others.
    Value ones = ops.fill(RankedTensorType::get(shapeOf(getInput()), elementTypeOf(g)), 1);
    Value isInside = ops.compare(ElementwiseKind::Greater, ops.pad(ones, getLow(), shapeOf(g)), 0);
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(shapeOf(g).size()));
    Value sum = ops.reduce(ReduceKind::Sum, ops.dropWhere(isInside, g), axes);
    gradient.add(1, ops.reshape(sum, shapeOf(getValue())));
  }
  return success();
}
