//===- DeferredSums.h - where partial sums may go on ------------------------===//
//
// A partial sum need not be reduced where it is made: ops that are linear in it carry it (Factor::carriers).
// That can save something only where sums meet or shrink on the way, so the search tries it there alone.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_DEFERREDSUMS_H
#define COLOSSAL_LIB_LAYOUT_DEFERREDSUMS_H

#include "colossal/Partition/Refinement.h"

#include "llvm/ADT/DenseSet.h"

namespace colossal::layout {

/// The ops of `function` for which layouts that carry partial sums are worth trying: those through which two
/// partial sums become one (the two branches of a parallel attention block, the experts of a mixture), or one
/// becomes smaller (a slice), and those on the way there. A value of which some user needs the whole sum is
/// reduced for that user in any case and counts as whole.
llvm::DenseSet<mlir::Operation *> findDeferringOps(mlir::func::FuncOp function,
                                                   const dist::RefinementAnalysis &refinement);

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_DEFERREDSUMS_H
