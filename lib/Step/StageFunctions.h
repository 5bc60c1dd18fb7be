//===- StageFunctions.h - a program's functions in its stages ---------------===//
#ifndef COLOSSAL_LIB_STEP_STAGEFUNCTIONS_H
#define COLOSSAL_LIB_STEP_STAGEFUNCTIONS_H

#include "StageChain.h"
#include "colossal/Step/CutStages.h"

namespace colossal::step {

/// Builds the functions of chains that are cut, the programs of one module, in each of `stages`, and returns
/// what those of each chain send. `mesh`: of the whole program; where it loops over microbatches, arguments
/// say where the batch stands in them, and nothing else does.
///
/// A state is an argument in each stage where some program reads it. The stage that makes its new value owns
/// it, and sends that to the others.
std::vector<std::vector<StageMessage>>
buildStages(llvm::MutableArrayRef<Chain> chains, llvm::ArrayRef<mlir::ModuleOp> stages, dist::MeshAttr mesh);

} // namespace colossal::step

#endif // COLOSSAL_LIB_STEP_STAGEFUNCTIONS_H
