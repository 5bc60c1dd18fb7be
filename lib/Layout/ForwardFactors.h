//===- ForwardFactors.h - factors of a gradient and of what it is of --------===//
//
// The gradients of a contraction are contractions over the same indices in other roles, and those of a
// convolution are convolutions, or contractions where windows do not overlap. So a layout of the forward pass
// says where the backward pass' factors lie.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_FORWARDFACTORS_H
#define COLOSSAL_LIB_LAYOUT_FORWARDFACTORS_H

#include "dialects/Dist/FactorRule.h"

namespace colossal::layout {

/// Whether matchFactors() knows the gradients of `forward`: of contractions and convolutions.
bool hasMatchedGradient(mlir::Operation *forward);

struct FactorMatch {
  unsigned forward = 0, gradient = 0; ///< factors of the two rules
};

/// Factors of `gradient`, a contraction or convolution that the gradient of an operand of `forward` is made
/// by, that stand for the same index as factors of `forward`, in the order of the latter; `from` and `to` are
/// their rules, before any refinement. Empty where `gradient` is nothing of the kind.
llvm::SmallVector<FactorMatch> matchFactors(mlir::Operation *forward, const dist::FactorRule &from,
                                            mlir::Operation *gradient, const dist::FactorRule &to);

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_FORWARDFACTORS_H
