//===- Schedule.h - from local tensors to instructions ----------------------===//
//
// The phase between partition and plan: a function of local tensors and explicit collectives becomes a load
// program and a run program over arenas, with kernels generated for its fusion groups. Its neighbours are
// lib/Partition (before) and lib/Plan (after).
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_SCHEDULE_H
#define COLOSSAL_SCHEDULE_SCHEDULE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <string>

namespace colossal::schedule {

struct ScheduleOptions {
  std::string targetCpu;    ///< LLVM's name; empty: this host
  unsigned threads = 0;     ///< compile threads; 0: one per core
  unsigned rankThreads = 2; ///< threads a rank is expected to run with; only tile sizes depend on it
  bool winograd = true;     ///< 3x3 convolutions may take up to four times their weights' memory to be faster
};

/// What the generated code needs to be stored with the plan.
struct GeneratedCode {
  std::string image;                 ///< ELF shared object with all kernels
  std::string triple, cpu;           ///< LLVM's
  std::vector<std::string> features; ///< CPU features that the code needs
  size_t kernels = 0;
};

/// On each `plan.launch`, what its kernel computes: {kind = "contraction", "convolution", "attention" or
/// "elements", sizes = [batch, m, n, k], operations = those on single elements}. Attention has m queries, n
/// keys and heads of width k. Not part of the plan.
constexpr llvm::StringLiteral kWorkAttrName = "colossal.work";

/// Schedules the partitioned functions of `module` (each a binding of the model's dimensions; `func.func`s of
/// local tensors): appends `plan.arena`, `plan.parameter`, `plan.kernel` and `plan.program` ops to the module
/// (one load program; one infer program per function, named like it) and erases the functions. All programs
/// share one WEIGHTS arena. Function attributes read: `colossal.bound_dims` (dictionary of bound dimensions),
/// `colossal.bound_inputs` (dictionary of name to ElementsAttr); argument and result attributes:
/// `colossal.name`, `dist.sharding`.
mlir::LogicalResult schedule(mlir::ModuleOp module, const ScheduleOptions &options, GeneratedCode &code);

/// The same as a pass. The code goes into `code`, which must outlive the pass, and is dropped where it is
/// null.
std::unique_ptr<mlir::Pass> createSchedulePass(const ScheduleOptions &options, GeneratedCode *code);
/// Registers `--colossal-schedule`.
void registerPasses();

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_SCHEDULE_H
