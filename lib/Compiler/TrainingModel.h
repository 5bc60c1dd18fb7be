//===- TrainingModel.h - a model as the joint search sees it ----------------===//
//
// The batch is left open: the model is imported at two batches, and what grows between them grows with the
// microbatch. Its weights need not be there.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_TRAININGMODEL_H
#define COLOSSAL_LIB_COMPILER_TRAININGMODEL_H

#include "colossal/Compiler/PlanTraining.h"
#include "colossal/FactorGraph/Reader.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace colossal {

/// A model's units, and the ops that they lead back to.
struct ReadModel {
  mlir::OwningOpRef<mlir::ModuleOp> modules[2]; ///< at two batches
  mlir::func::FuncOp functions[2];
  factors::Reading reading;
};

/// Fails, with diagnostics, where the model cannot be imported, leaves no batch open, or has no units.
mlir::FailureOr<ReadModel> readModel(mlir::MLIRContext *context, PlanTrainingOptions options);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_TRAININGMODEL_H
