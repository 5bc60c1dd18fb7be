//===- Origins.h - what values depend on ------------------------------------===//
#ifndef COLOSSAL_OUTLINE_ORIGINS_H
#define COLOSSAL_OUTLINE_ORIGINS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace colossal::outline {

/// What a value is computed from. A state (a parameter that is trained) is a parameter. The *stream* of a
/// model depends on both; masks and positions depend on arguments alone, what is prepared of weights on
/// parameters alone.
struct Origin {
  bool argument = false, parameter = false;
  bool isStream() const { return argument && parameter; }
};
/// Of all values of `function`, which has one block.
llvm::DenseMap<mlir::Value, Origin> findOrigins(mlir::func::FuncOp function);

} // namespace colossal::outline

#endif // COLOSSAL_OUTLINE_ORIGINS_H
