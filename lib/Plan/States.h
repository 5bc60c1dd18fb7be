//===- States.h - states and training, as a plan has them -------------------===//
#ifndef COLOSSAL_LIB_PLAN_STATES_H
#define COLOSSAL_LIB_PLAN_STATES_H

#include "colossal/Plan/Plan.pb.h"
#include "mlir/IR/BuiltinOps.h"

namespace colossal::plan {

/// Adds the states that `module` or its stages declare, and what the module says of training; nothing where
/// it says nothing. `model` is the path of the model's file as the plan has it.
void addStates(mlir::ModuleOp module, llvm::ArrayRef<mlir::ModuleOp> stages, llvm::StringRef model,
               Plan &plan);

} // namespace colossal::plan

#endif // COLOSSAL_LIB_PLAN_STATES_H
