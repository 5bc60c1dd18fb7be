//===- StorageLives.h - which values of a function will lie in memory, and when -===//
//
// For searches that must know what a program takes before there is one. Who knows how kernels are made of ops
// tells (colossal/Schedule/Foresight.h); the search only asks.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LAYOUT_STORAGELIVES_H
#define COLOSSAL_LAYOUT_STORAGELIVES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>

namespace colossal::layout {

struct StorageLives {
  struct Life {
    int64_t begin = 0, end = 0; ///< steps [begin, end)
    bool isStored = false;      ///< not computed inside of a kernel, and no view of something else
  };
  /// By op of the function: the place of its kernel among all; of a movement or a source, that of the first
  /// kernel that reads it. Fewer than there are ops.
  llvm::DenseMap<mlir::Operation *, int64_t> steps;
  /// By result of an op. What is read through a movement lives as its storage; what all turns of a loop read,
  /// or add to, from the first of them to the last.
  llvm::DenseMap<mlir::Value, Life> lives;
  int64_t loopEnd = 0; ///< the step behind the last of a turn
};

/// Of a function of one block that ranks have not split; `isRepeated` tells of which ops each turn of a loop
/// over microbatches does a part.
using ForeseeStorage =
    std::function<StorageLives(mlir::func::FuncOp, llvm::function_ref<bool(mlir::Operation *)> isRepeated)>;

} // namespace colossal::layout

#endif // COLOSSAL_LAYOUT_STORAGELIVES_H
