//===- FusionGroup.h - the ops that one kernel computes ---------------------===//
#ifndef COLOSSAL_SCHEDULE_FUSIONGROUP_H
#define COLOSSAL_SCHEDULE_FUSIONGROUP_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace colossal::schedule {

struct FusionGroup {
  unsigned number = 0;                             ///< in the order in which they were begun
  llvm::SmallVector<mlir::Operation *> ops;        ///< program order
  llvm::SmallVector<mlir::Value> outputs;          ///< values that others read from memory
  mlir::Operation *routine = nullptr;              ///< its root, with the other ops as its epilogue
  llvm::SmallVector<int64_t> shape;                ///< that the loops run over
  llvm::SmallVector<bool> reduced;                 ///< per dimension, if it has row ops
  llvm::DenseMap<mlir::Operation *, bool> aligned; ///< read at the loops' own index, with broadcasting
};

/// What computes a group: its routine, or else loops.
enum class GroupKind { Loops, Tiles, Contraction, Convolution, Attention, Padding, Collective };
GroupKind kindOf(const FusionGroup &group);

/// An op of kind Padding.
bool isPadding(mlir::Operation *op);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_FUSIONGROUP_H
