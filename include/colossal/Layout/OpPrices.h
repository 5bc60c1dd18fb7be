//===- OpPrices.h - what ops take, before any layout is chosen --------------===//
#ifndef COLOSSAL_LAYOUT_OPPRICES_H
#define COLOSSAL_LAYOUT_OPPRICES_H

#include "colossal/Layout/Layout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal::layout {

/// Seconds of the ops of a function on a mesh, and of messages between ranks.
struct OpPrices {
  /// Of each op with a sharding rule: its part on one rank in the split that computes fastest. What brings
  /// its operands is not in it.
  llvm::DenseMap<mlir::Operation *, double> seconds;
  std::function<double(double bytes)> messageSeconds; ///< of so many bytes from one rank to another
};

/// `ranks`: that share the machine with the mesh's, these included.
OpPrices priceOps(mlir::func::FuncOp function, dist::MeshAttr mesh, int64_t ranks,
                  const cost::Machine &machine);

} // namespace colossal::layout

#endif // COLOSSAL_LAYOUT_OPPRICES_H
