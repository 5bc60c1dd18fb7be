//===- MergeCasts.h - one narrow copy of a parameter ------------------------===//
#ifndef COLOSSAL_STEP_MERGECASTS_H
#define COLOSSAL_STEP_MERGECASTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace colossal::step {

/// Has all products and convolutions that read a state (dist::kStateAttrName) in another type share one copy
/// of it: weights that layers share are narrowed once, and lie in memory once. Each reader has a cast of its
/// own until stages are cut, which then each have theirs. Lookups and the like keep their own, which no
/// memory holds; what the backward pass narrows again is another copy.
void mergeCasts(mlir::func::FuncOp function);

std::unique_ptr<mlir::Pass> createMergeCasts();

} // namespace colossal::step

#endif // COLOSSAL_STEP_MERGECASTS_H
