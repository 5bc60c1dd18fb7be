//===- PassOrder.h - in which order stages do their passes --------------------===//
#ifndef COLOSSAL_LIB_STEP_PASSORDER_H
#define COLOSSAL_LIB_STEP_PASSORDER_H

#include "StageChain.h"
#include "colossal/Cost/PipelineSchedule.h"
#include "colossal/Step/MessageOrder.h"

namespace colossal::step {

/// Writes on a training program's function of each of `stages` the order of its passes (dist.passes) over
/// `turns` microbatches, as `planned` has it, or, where that is empty, as cost::simulate finds it for
/// `schedule` with the times that the chain was cut by: no pass stands before one of its own stage that it
/// waits for. Nothing for other chains, and for one microbatch, which goes through the chunks in their order.
/// Fails with a diagnostic.
mlir::LogicalResult orderPasses(const Chain &chain, llvm::ArrayRef<mlir::ModuleOp> stages, int64_t turns,
                                cost::Schedule schedule, llvm::ArrayRef<cost::PipelineEvent> planned);

/// All passes of a program's functions, one of each stage, that have an order: in one in which all stages
/// together can do them, each when what it needs has been made, as soon as its turn comes.
std::vector<StagePass> mergePasses(llvm::ArrayRef<mlir::func::FuncOp> functions);

} // namespace colossal::step

#endif // COLOSSAL_LIB_STEP_PASSORDER_H
