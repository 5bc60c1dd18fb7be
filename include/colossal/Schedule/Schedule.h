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

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace colossal::schedule {

class KernelKey;
struct CachedKernel;
using KernelCache = std::map<KernelKey, std::optional<CachedKernel>>; // KernelCache.h

struct ScheduleOptions {
  std::shared_ptr<const codegen::Target> target; ///< chosen where the program starts
  unsigned threads = 0;                          ///< that compile kernels; 0: one per core
  unsigned rankThreads = 2; ///< threads a rank is expected to run with; sizes of scratch depend on it
  bool winograd = true;     ///< 3x3 convolutions may take up to four times their weights' memory to be faster
  bool compileKernels = true; ///< false: only to see what a plan would take; it has no code then
  /// Kernels that were generated ahead, in the module's context: they are not generated again.
  std::shared_ptr<const KernelCache> ahead = nullptr;
  /// Gets the kernels that are generated, where it is not null.
  std::shared_ptr<KernelCache> generated = nullptr;
};

using codegen::GeneratedCode;

/// On each `plan.launch`, what its kernel computes: {kind = "contraction", "convolution", "attention" or
/// "elements", sizes = [batch, m, n, k], operations = those on single elements}. Attention has m queries, n
/// keys and heads of width k. Not part of the plan.
constexpr llvm::StringLiteral kWorkAttrName = "colossal.work";
/// On each op of a stage's program with several chunks, the chunk that it belongs to; where it loops over
/// microbatches, on those of its turns. Not part of the plan.
constexpr llvm::StringLiteral kChunkAttrName = "colossal.chunk";

/// Schedules, for the target of `options`, the partitioned functions of `module` (each a binding of the
/// model's dimensions; `func.func`s of local tensors): appends
/// `plan.arena`, `plan.parameter`, `plan.kernel` and `plan.program` ops to the module (one load program; one
/// infer program per function, named like it) and erases the functions. All programs share one WEIGHTS arena.
/// Without ScheduleOptions::compileKernels symbols of kernels mean nothing; all sizes are the same.
/// Function attributes read: `colossal.bound_dims` (dictionary of bound dimensions), `colossal.bound_inputs`
/// (dictionary of name to ElementsAttr); argument and result attributes: `colossal.name`, `dist.sharding`.
mlir::LogicalResult schedule(mlir::ModuleOp module, const ScheduleOptions &options, GeneratedCode &code);

/// What compiles the kernels of a plan, for the target of `options`. Its threads get ready at once: whoever
/// asks for it before the module is there, and hands it to `schedule`, need not wait for that.
std::unique_ptr<codegen::ImageBuilder> prepareKernels(mlir::MLIRContext &context,
                                                      const ScheduleOptions &options);
/// The same as above without waiting for the kernels: they are compiled by `kernels` (made here where it is
/// null), by threads of its own, while the caller goes on with the module, and finishKernels gives their
/// code.
mlir::LogicalResult schedule(mlir::ModuleOp module, const ScheduleOptions &options,
                             std::unique_ptr<codegen::ImageBuilder> &kernels);
/// Waits for `kernels`. Fails, with a diagnostic at the module, where one cannot be compiled.
mlir::LogicalResult finishKernels(mlir::ModuleOp module, codegen::ImageBuilder &kernels, GeneratedCode &code);

/// The same as a pass. `kernels`, or what it is set to, compiles the kernels, and must outlive the pass;
/// where it is null, they are waited for and dropped.
std::unique_ptr<mlir::Pass> createSchedulePass(const ScheduleOptions &options,
                                               std::unique_ptr<codegen::ImageBuilder> *kernels);
/// `--colossal-outline-programs`: see Passes.td.
std::unique_ptr<mlir::Pass> createOutlineProgramsPass();
/// Finds the target that a pass's text names, KIND[:PROCESSOR] and the processor where it is apart
/// (codegen::createTarget).
using TargetResolver = std::function<llvm::Expected<std::shared_ptr<const codegen::Target>>(
    llvm::StringRef name, llvm::StringRef processor)>;
/// Registers both; the text of `--colossal-schedule` names its target.
void registerPasses(TargetResolver resolve);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_SCHEDULE_H
