//===- GradientBuilder.cpp - what an op's gradient is built with ------------===//
#include "dialects/Colossal/GradientBuilder.h"

using namespace mlir;
using namespace colossal;

GradientBuilder::~GradientBuilder() = default;

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
