//===- IntegerRanges.h - between which integers elements lie ----------------===//
//
// What ops need to implement MLIR's InferIntRangeInterface on tensors: the range of a tensor is that of all
// its elements. Tensors of anything but integers have none.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_INTEGERRANGES_H
#define COLOSSAL_DIALECTS_COLOSSAL_INTEGERRANGES_H

#include "mlir/Interfaces/InferIntRangeInterface.h"

namespace colossal {

/// [low, high] of elements of `value`, which are integers of a sign; all that its type holds where a bound
/// lies outside of it, since what wraps around can be anything, or is too large to be known exactly.
mlir::IntegerValueRange getRangeBetween(mlir::Value value, double low, double high);

/// The bounds as numbers, by the sign of the type of `value`; no more precise than a double.
std::pair<double, double> getBounds(mlir::Value value, const mlir::ConstantIntRanges &range);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_INTEGERRANGES_H
