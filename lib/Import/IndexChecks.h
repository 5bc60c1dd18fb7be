//===- IndexChecks.h - indices that lie outside what they index ---------------===//
//
// A kernel keeps an index within memory, but cannot say that it was wrong: it would give some other row's
// values. So what is known of indices is checked here, and what only a run can know is left in the function
// for the runtime to check: as the range of an argument, or as a result that is there for this only.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_INDEXCHECKS_H
#define COLOSSAL_LIB_IMPORT_INDEXCHECKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal {

/// Fails, with a diagnostic, where an index that depends on no argument is outside. An argument whose
/// elements are indices themselves gets attribute `colossal.range` (Import/ONNX.h). Indices that are computed
/// from arguments and may lie outside, as far as the ops that they come from say, become further results with
/// that attribute. Of indices into several dimensions at once, the largest dimension counts.
mlir::LogicalResult checkIndices(mlir::func::FuncOp function);

} // namespace colossal

#endif // COLOSSAL_LIB_IMPORT_INDEXCHECKS_H
