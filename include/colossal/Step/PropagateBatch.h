//===- PropagateBatch.h - which part of each tensor a turn works on ---------===//
//
// Before the search: which part of each tensor a turn of the loop over microbatches works on.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_STEP_PROPAGATEBATCH_H
#define COLOSSAL_STEP_PROPAGATEBATCH_H

#include "dialects/Dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace colossal::step {

/// Argument attribute: the number of the dimension that counts the rows of a batch.
inline constexpr llvm::StringLiteral kBatchAttrName = "colossal.batch";

/// Name of the loop axis of a mesh whose turns are microbatches.
inline constexpr llvm::StringLiteral kMicrobatchAxis = "microbatch";

/// `mesh` with a loop of `count` microbatches as its last axis. Requires that it has no loop axis, and no
/// axis of that name.
dist::MeshAttr addMicrobatches(dist::MeshAttr mesh, int64_t count);

/// The rows of the batch of a program. Fails, with a diagnostic, where it has none or it is not clear which
/// it is.
mlir::FailureOr<int64_t> countRows(mlir::func::FuncOp function);

/// See Passes.td. Does nothing where the mesh has no loop axis, or the module is cut into stages. Fails with
/// diagnostics.
mlir::LogicalResult propagateBatch(mlir::ModuleOp module);
/// The same within one stage, whose arguments say where the batch stands (dist::kLoopPlaceAttrName).
mlir::LogicalResult propagateBatchInStage(mlir::ModuleOp stage);

std::unique_ptr<mlir::Pass> createPropagateBatch();

} // namespace colossal::step

#endif // COLOSSAL_STEP_PROPAGATEBATCH_H
