//===- MarkBatch.h - where the batch lies along ranks -----------------------===//
#ifndef COLOSSAL_STEP_MARKBATCH_H
#define COLOSSAL_STEP_MARKBATCH_H

#include "mlir/IR/BuiltinOps.h"

namespace colossal::step {

/// Of a training step whose batch is to lie along an axis of ranks, in stages or not: says of each op that
/// the batch reaches which factor that axis stands on (dialects/Dist/LayoutMarks.h), for the search. Does
/// nothing with other modules.
void markBatch(mlir::ModuleOp module);

} // namespace colossal::step

#endif // COLOSSAL_STEP_MARKBATCH_H
