//===- GradientBuilder.cpp - what an op's gradient is built with ------------===//
#include "dialects/Colossal/GradientBuilder.h"
#include "dialects/Colossal/Precision.h"

using namespace mlir;
using namespace colossal;

GradientBuilder::~GradientBuilder() = default;

/// A sum that was rounded to `moved` and only moved since, as it was summed, and moved so; else null.
static Value findSum(Value moved, OpComposer &ops) {
  Operation *def = moved.getDefiningOp();
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(def)) {
    const Value from = findSum(reshape.getInput(), ops);
    return from ? ops.reshape(from, shapeOf(moved)) : Value();
  }
  if (auto transpose = dyn_cast_or_null<TransposeOp>(def)) {
    const Value from = findSum(transpose.getInput(), ops);
    return from ? ops.transpose(from, transpose.getPermutation()) : Value();
  }
  if (!def || !isNarrowing(def))
    return {};
  Value sum = def->getOperand(0);
  while (auto reshape = sum.getDefiningOp<ReshapeOp>())
    sum = reshape.getInput();
  auto reduce = sum.getDefiningOp<ReduceOp>();
  return reduce && reduce.getKind() == ReduceKind::Sum ? def->getOperand(0) : Value();
}

/// A gradient that is a sum is nearer without the rounding, and ranks may add up their parts of it later,
/// which they cannot through one.
Value GradientBuilder::widen(Value tensor) {
  const Type wide = wideType(tensor);
  const bool isOfForward =
      llvm::is_contained(op->getOperands(), tensor) || llvm::is_contained(op->getResults(), tensor);
  if (elementTypeOf(tensor) != wide && !isOfForward)
    if (const Value sum = findSum(tensor, composer); sum && elementTypeOf(sum) == wide)
      return sum;
  return composer.cast(tensor, wide);
}

void GradientBuilder::add(unsigned operand, Value value) {
  if (!wants(operand))
    return;
  Value target = op->getOperand(operand);
  // The sum of what was repeated first: there is less to stretch and to convert.
  SmallVector<int64_t> shape(shapeOf(target)), summed(shape);
  ArrayRef<int64_t> have = shapeOf(value);
  for (size_t d = 0; d < shape.size(); ++d)
    if (d + have.size() < shape.size() || have[d + have.size() - shape.size()] == 1)
      summed[d] = 1;
  value = composer.sumTo(value, summed);
  value = composer.cast(value, elementTypeOf(target));
  addWhole(operand, composer.broadcast(value, shape));
}

void GradientBuilder::addPart(unsigned operand, Value value, ArrayRef<int64_t> starts) {
  if (wants(operand))
    addSlice(operand, value, starts);
}

LogicalResult GradientBuilder::refuse(const Twine &what) {
  std::string text = what.str();
  return op->emitOpError()
         << (text.empty() ? "has no gradient" : text + " has no gradient")
         << ", so nothing before it can be trained; freeze the parameters that it depends on, or "
            "take the model without it";
}
