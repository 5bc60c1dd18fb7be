//===- TrainingDoor.h - options of a training step, made whole ----------------===//
#ifndef COLOSSAL_LIB_COMPILER_TRAININGDOOR_H
#define COLOSSAL_LIB_COMPILER_TRAININGDOOR_H

#include "colossal/Compiler/Compiler.h"

namespace colossal {

/// `options` with the batch of the model's inputs bound to the samples of a step, and the model's file known
/// to what reads its weights. Fails, with a diagnostic, where another option says something else of the
/// batch, or asks for what no training step is compiled with yet.
mlir::FailureOr<CompileOptions> completeTraining(mlir::MLIRContext *context, const CompileOptions &options);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_TRAININGDOOR_H
