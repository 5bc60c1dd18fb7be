//===- StorageLives.h - which values of a function will lie in memory, and when -===//
//
// For searches that must know what a program takes before there is one: a function that ranks have not yet
// split is grouped into kernels as the scheduler would group it, and its values live by the order of these.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_STORAGELIVES_H
#define COLOSSAL_SCHEDULE_STORAGELIVES_H

#include "colossal/Codegen/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace colossal::schedule {

struct StorageLives {
  struct Life {
    int64_t begin = 0, end = 0; ///< steps [begin, end); empty of what is computed inside of a kernel
  };
  /// By op of the function: the place of its kernel among all; of a movement or a source, that of the first
  /// kernel that reads it. Fewer than there are ops.
  llvm::DenseMap<mlir::Operation *, int64_t> steps;
  /// By result of an op. What is read through a movement lives as its storage; what all turns of a loop read,
  /// or add to, from the first of them to the last.
  llvm::DenseMap<mlir::Value, Life> lives;
  int64_t loopEnd = 0; ///< the step behind the last of a turn
};

/// Of a function of one block, whose kernels are those of `target`; `isRepeated` tells of which ops each turn
/// of a loop over microbatches does a part. Collectives, which layouts bring in, are not foreseen: they end
/// kernels and need copies of their own.
StorageLives foreseeStorage(mlir::func::FuncOp function, const codegen::Target &target,
                            llvm::function_ref<bool(mlir::Operation *)> isRepeated);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_STORAGELIVES_H
