//===- TrainingBlocks.h - a module as the joint search sees it --------------===//
//
// The seam between the IR and the planner: operations become factors, work and bytes, repeated blocks become
// one kind of unit.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LAYOUT_TRAININGBLOCKS_H
#define COLOSSAL_LAYOUT_TRAININGBLOCKS_H

#include "colossal/Planner/TrainingGraph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal::layout {

/// The same model imported for `fewBatch` and `manyBatch` sequences: what grows between the two grows with
/// the microbatch, the rest does not. Fails, with a diagnostic, where the two differ in more than sizes,
/// where a size grows in another way, or where no operation depends on both inputs and parameters.
///
/// A model whose first output is made by a contraction gets the mean cross-entropy over its last dimension as
/// its loss; other outputs are taken to be, or to lead to, the loss.
mlir::FailureOr<planner::TrainingGraph> extractTrainingGraph(mlir::func::FuncOp few, int64_t fewBatch,
                                                             mlir::func::FuncOp many, int64_t manyBatch);

} // namespace colossal::layout

#endif // COLOSSAL_LAYOUT_TRAININGBLOCKS_H
