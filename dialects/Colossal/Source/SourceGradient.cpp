//===- SourceGradient.cpp ---------------------------------------------------===//
//
// What comes from nowhere passes nothing on; a random choice has no gradient in its probability.
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
