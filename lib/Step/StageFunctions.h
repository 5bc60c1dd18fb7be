//===- StageFunctions.h - a program's functions in its stages ---------------===//
#ifndef COLOSSAL_LIB_STEP_STAGEFUNCTIONS_H
#define COLOSSAL_LIB_STEP_STAGEFUNCTIONS_H

#include "StageChain.h"
#include "colossal/Step/CutStages.h"

namespace colossal::step {

/// Builds the function of a chain that is cut in each of `stages`, and returns what they send. `mesh`: of the
/// whole program; where it loops over microbatches, arguments say where the batch stands in them, and nothing
/// else does.
std::vector<StageMessage> buildStages(const Chain &chain, llvm::ArrayRef<mlir::ModuleOp> stages,
                                      dist::MeshAttr mesh);

} // namespace colossal::step

#endif // COLOSSAL_LIB_STEP_STAGEFUNCTIONS_H
