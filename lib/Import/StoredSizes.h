//===- StoredSizes.h - tensors that are too large to be stored ----------------===//
//
// While a model is read, tensors may be larger than any memory: the scores of attention at a million tokens,
// or the mask that is added to them, are written out by exporters and never made. So sizes are judged when
// patterns are recognised, of what is left.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_STOREDSIZES_H
#define COLOSSAL_LIB_IMPORT_STOREDSIZES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal {

/// Fails, with a diagnostic that names the node, where a result of `function` or a tensor that one of its ops
/// has to store is larger than kMostStored elements, or a tensor that may be computed where it is read
/// (elementwise ops, ranges, constants of one value, and what only moves such) than kMostComputed.
mlir::LogicalResult checkStoredSizes(mlir::func::FuncOp function);

} // namespace colossal

#endif // COLOSSAL_LIB_IMPORT_STOREDSIZES_H
