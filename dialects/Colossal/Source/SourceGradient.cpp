//===- SourceGradient.cpp ---------------------------------------------------===//
//
// What comes from nowhere passes nothing on; a random choice has no gradient in its probability. What dropout
// keeps, it keeps of the gradient.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

using namespace mlir;
using namespace colossal;

LogicalResult ParameterOp::buildGradient(GradientBuilder &) {
  return success();
}
LogicalResult ConstantOp::buildGradient(GradientBuilder &) {
  return success();
}
LogicalResult IotaOp::buildGradient(GradientBuilder &) {
  return success();
}
LogicalResult RandomOp::buildGradient(GradientBuilder &) {
  return success();
}
LogicalResult DropoutOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Value g = gradient.resultGradient();
  gradient.add(0, DropoutOp::create(ops.builder, ops.loc, g.getType(), g, getStream(), getOffsets(),
                                    getRatioAttr(), getSeedAttr(), getExtentsAttr()));
  return success();
}
