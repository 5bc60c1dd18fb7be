//===- Prepare.h - reshapes out of the way of fusion ------------------------===//
#ifndef COLOSSAL_SCHEDULE_PREPARE_H
#define COLOSSAL_SCHEDULE_PREPARE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal::schedule {

/// Rewrites the ops of a local function so that contractions and what follows them have the same shape.
void prepare(mlir::func::FuncOp function);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_PREPARE_H
