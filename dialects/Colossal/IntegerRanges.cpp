//===- IntegerRanges.cpp ----------------------------------------------------===//
#include "dialects/Colossal/IntegerRanges.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

static bool isUnsigned(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  return element.isUnsignedInteger() || element.isInteger(1);
}

IntegerValueRange colossal::getRangeBetween(Value value, double low, double high) {
  auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(value.getType()));
  if (!type)
    return IntegerValueRange();
  const bool isSigned = !isUnsigned(value);
  const int digits = static_cast<int>(type.getWidth()) - (isSigned ? 1 : 0);
  const double most = std::ldexp(1, std::min(digits, 53)), least = isSigned ? -most : 0;
  if (!(low >= least && high < most))
    return IntegerValueRange::getMaxRange(value);
  auto bound = [&](double number) {
    return APInt(type.getWidth(), static_cast<uint64_t>(static_cast<int64_t>(number)), isSigned);
  };
  return ConstantIntRanges::range(bound(low), bound(high), isSigned);
}

std::pair<double, double> colossal::getBounds(Value value, const ConstantIntRanges &range) {
  if (isUnsigned(value))
    return {range.umin().roundToDouble(), range.umax().roundToDouble()};
  return {range.smin().signedRoundToDouble(), range.smax().signedRoundToDouble()};
}
