//===- Differentiate.h - gradients of a function ----------------------------===//
//
// Reverse-mode differentiation over the ops of one function. What each op's gradient is, the op says
// (DifferentiableOpInterface); here are the order, and the sums where a value is used more than once.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_AUTODIFF_DIFFERENTIATE_H
#define COLOSSAL_AUTODIFF_DIFFERENTIATE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal {

/// Builds, behind all ops of `function`'s body and before its terminator, what computes the gradients of the
/// scalar `loss` with respect to `variables` (block arguments or results of ops in the body). Fills
/// `gradients`, one for each variable, of its type; zeros where the loss does not depend on it. Fails with a
/// diagnostic at the op (ONNX names) that has no gradient.
///
/// Ops between the variables and the loss are differentiated from the last to the first, each once; others
/// are not looked at. An op's gradient is called as the op is, with ".gradient" behind. What gradients and
/// the function compute alike is computed once afterwards, and what nobody needs is gone. Where ops have
/// numbers (dist.unit), the ops of their gradients name these (dist.gradient_of). O(ops).
///
/// With `addsProductsFirst`, those summands of a gradient that products give are added before the others:
/// where ranks share the products, all of these are sums that are outstanding, and ranks add theirs up once.
/// Else summands are added as they come, over which they can be written.
mlir::LogicalResult differentiate(mlir::func::FuncOp function, mlir::Value loss,
                                  llvm::ArrayRef<mlir::Value> variables,
                                  llvm::SmallVectorImpl<mlir::Value> &gradients,
                                  bool addsProductsFirst = false);

} // namespace colossal

#endif // COLOSSAL_AUTODIFF_DIFFERENTIATE_H
