//===- Passes.h - phases as passes ------------------------------------------===//
//
// A phase is a few passes and one that verifies what they have promised:
//
//   precision   colossal-set-precision, where a precision is asked for
//   differentiate  colossal-differentiate, where a training step is compiled
//   outline     colossal-outline-blocks
//   step        colossal-inline-blocks, colossal-propagate-batch, colossal-cut-stages
//   search      colossal-search-layouts
//   partition   colossal-partition, colossal-plan-transfers
//   schedule    colossal-schedule
//
// so that MLIR's timing, printing of IR and crash reproducer work on them, in colossal-compile as in
// colossal-opt.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_COMPILER_PASSES_H
#define COLOSSAL_COMPILER_PASSES_H

#include "colossal/Compiler/Compiler.h"

#include "mlir/Pass/PassManager.h"

namespace colossal {

/// Appends the passes of the phases after `from`, up to `last`, which is at most Phase::Schedule. What lies
/// beside the IR goes into `result`, which must outlive the manager; null: it is dropped. `kernels`: as
/// schedule::createSchedulePass has it.
void buildPhases(mlir::OpPassManager &manager, const CompileOptions &options, Phase from, Phase last,
                 CompileResult *result, std::unique_ptr<codegen::ImageBuilder> *kernels = nullptr);

/// The names of the passes of the phases after import up to `last`, in order, each once.
std::vector<std::string> listPasses(const CompileOptions &options, Phase last);

/// Lists all that has no place in a module after `phase`, and fails where there is any.
std::unique_ptr<mlir::Pass> createVerifyPhasePass(Phase phase);

/// Registers the passes above, `--colossal-verify-phase`, and the pipeline `--colossal-pipeline=to=PHASE`,
/// which runs the phases after import up to PHASE. `options` gives what they need beyond the IR; it must
/// outlive every pass, as must `result`, which gets what they report where it is not null.
void registerPhases(const CompileOptions &options, CompileResult *result = nullptr);

} // namespace colossal

#endif // COLOSSAL_COMPILER_PASSES_H
