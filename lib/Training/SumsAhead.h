//===- SumsAhead.h - what a step sums up of its inputs before it begins --------===//
#ifndef COLOSSAL_LIB_TRAINING_SUMSAHEAD_H
#define COLOSSAL_LIB_TRAINING_SUMSAHEAD_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace colossal::training {

/// Which input of the model has the data of each argument that was added.
using SecondArguments = llvm::SmallVector<std::pair<mlir::BlockArgument, mlir::BlockArgument>>;

/// A loss of several means, as of two cross-entropies, divides within by how many elements of the batch
/// count: what is divided by that belongs to a microbatch, and the number to all of them. Such a number, one
/// that is summed up of inputs and of parameters that are not `trained`, is computed of second arguments of
/// the same data, which no microbatch cuts, and so is there before the first one. `apart`: a number that
/// stays as it is, or null. Returns the arguments that were added to `step`, behind its others.
SecondArguments sumAhead(mlir::func::FuncOp step, mlir::Value apart,
                         const llvm::DenseSet<mlir::Value> &trained);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_SUMSAHEAD_H
