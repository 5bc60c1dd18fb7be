//===- ContractionGradient.cpp ----------------------------------------------===//
//
// The gradient of each operand is the contraction of the other with the result's gradient: the labels of the
// operand that is left out become those of the result.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

using namespace mlir;
using namespace colossal;

LogicalResult ContractOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Value y = gradient.resultGradient();
  if (gradient.wants(0))
    gradient.add(
        0, ops.contract(y, getResultDims(), getRhs(), getRhsDims(), getLhsDims(), elementTypeOf(getLhs())));
  if (gradient.wants(1))
    gradient.add(
        1, ops.contract(getLhs(), getLhsDims(), y, getResultDims(), getRhsDims(), elementTypeOf(getRhs())));
  return success();
}
