//===- Schedule.h - from local tensors to instructions ----------------------===//
//
// The phase between partition and plan: a function of local tensors and explicit collectives becomes a load
// program and a run program over arenas, with kernels generated for its fusion groups by the target.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_SCHEDULE_H
#define COLOSSAL_SCHEDULE_SCHEDULE_H

#include "colossal/Codegen/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <string>

namespace colossal::schedule {

struct ScheduleOptions {
  std::string target = "cpu"; ///< codegen::createTarget's name
  std::string targetCpu;    ///< LLVM's name of the processor, for a target that names none; empty: this host
  unsigned threads = 0;     ///< compile threads; 0: one per core
  unsigned rankThreads = 2; ///< threads a rank is expected to run with; only tile sizes depend on it
  bool winograd = true;     ///< 3x3 convolutions may take up to four times their weights' memory to be faster

  /// What codegen::createTarget takes.
  std::string getTargetName() const {
    bool named = targetCpu.empty() || target.find(':') != std::string::npos;
    return named ? target : target + ":" + targetCpu;
  }
  codegen::TargetOptions getTargetOptions() const { return {rankThreads, winograd}; }
};

using codegen::GeneratedCode;

/// On each `plan.launch`, what its kernel computes: {kind = "contraction", "convolution", "attention" or
/// "elements", sizes = [batch, m, n, k], operations = those on single elements}. Attention has m queries, n
/// keys and heads of width k. Not part of the plan.
constexpr llvm::StringLiteral kWorkAttrName = "colossal.work";

/// Schedules, for `target` and with `threads` threads that compile kernels (0: one per core), the partitioned
/// functions of `module` (each a binding of the model's dimensions; `func.func`s of local tensors): appends
/// `plan.arena`, `plan.parameter`, `plan.kernel` and `plan.program` ops to the module (one load program; one
/// infer program per function, named like it) and erases the functions. All programs share one WEIGHTS arena.
/// Function attributes read: `colossal.bound_dims` (dictionary of bound dimensions), `colossal.bound_inputs`
/// (dictionary of name to ElementsAttr); argument and result attributes: `colossal.name`, `dist.sharding`.
mlir::LogicalResult schedule(mlir::ModuleOp module, const codegen::Target &target, unsigned threads,
                             GeneratedCode &code);

/// The same as a pass. The code goes into `code`, which must outlive the pass, and is dropped where it is
/// null.
std::unique_ptr<mlir::Pass> createSchedulePass(const ScheduleOptions &options, GeneratedCode *code);
/// Registers `--colossal-schedule`.
void registerPasses();

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_SCHEDULE_H
