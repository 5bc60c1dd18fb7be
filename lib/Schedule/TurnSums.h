//===- TurnSums.h - what turns of the loop add up ---------------------------===//
//
// Where and in which order parts of sums over turns are added: so that few parts lie beside the sums.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_TURNSUMS_H
#define COLOSSAL_LIB_SCHEDULE_TURNSUMS_H

#include "FunctionState.h"

namespace colossal::schedule {

/// Has ranks exchange their parts of sums as soon as these are made. Behind what each such sum is then done,
/// so that the exchange has time and few parts lie there meanwhile: the sum itself where that is its place.
llvm::DenseMap<mlir::Operation *, mlir::Operation *> delaySums(llvm::ArrayRef<mlir::Operation *> sums);

/// Where the sums of what turns make are added, as those of a tied table's two gradients are, has one of them
/// go on with the other instead: gives the other of each, and sorts `sums` so that it comes first.
llvm::DenseMap<mlir::Operation *, mlir::Operation *>
chainSums(FunctionState &state, llvm::SmallVectorImpl<mlir::Operation *> &sums);

/// Adds each of the products that a turn's part is the sum of, as those of a loss in parts, where the sum
/// over the turns lies, instead of making the part first. `ofOneNode`: only of those that one node of the
/// model has made, which are in one pass.
void addProductsApart(FunctionState &state, mlir::Operation *sum, bool ofOneNode = false);

/// Adds the rows of a tied table's gradient to the sum over the turns after the product that the rest of a
/// turn's part is, each where the sum lies, instead of making the part first.
void addApart(FunctionState &state, mlir::Operation *sum);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_TURNSUMS_H
