//===- PlanPhase.h - a scheduled module as a plan ---------------------------===//
//
// The last phase: prices the programs, writes them as messages, and says what the plan takes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_PLANPHASE_H
#define COLOSSAL_LIB_COMPILER_PLANPHASE_H

#include "PlanMemory.h"
#include "colossal/Compiler/Compiler.h"

namespace colossal {

/// Makes of `module`, which is scheduled, the plan, its data and its images in `result`, whose code is
/// generated; adds to the report what is predicted.
mlir::LogicalResult emitPlan(mlir::ModuleOp module, const CompileOptions &options, CompileResult &result);
/// Waits for the kernels, if there are any on their way: their code goes into the result.
mlir::LogicalResult finishKernels(mlir::ModuleOp module, CompileResult &result);

/// What a rank takes of the machine that is compiled for; of all ranks the one that takes most.
PlanMemory measureMemory(const plan::Plan &plan, const CompileOptions &options);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_PLANPHASE_H
