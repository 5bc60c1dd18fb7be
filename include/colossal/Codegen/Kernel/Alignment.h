// How the buffers of a group's function are aligned, as attributes of its arguments and results: what a
// generator may read or write at once.
#ifndef COLOSSAL_CODEGEN_KERNEL_ALIGNMENT_H
#define COLOSSAL_CODEGEN_KERNEL_ALIGNMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal::kernel {

inline constexpr llvm::StringLiteral alignmentName = "colossal.alignment";

/// The address of element [0, ..., 0] of the argument or result is a multiple of `bytes`.
inline void setArgumentAlignment(mlir::func::FuncOp function, unsigned argument, int64_t bytes) {
  function.setArgAttr(argument, alignmentName, mlir::Builder(function.getContext()).getI64IntegerAttr(bytes));
}
inline void setResultAlignment(mlir::func::FuncOp function, unsigned result, int64_t bytes) {
  function.setResultAttr(result, alignmentName,
                         mlir::Builder(function.getContext()).getI64IntegerAttr(bytes));
}

/// 1 where nothing is known.
inline int64_t getArgumentAlignment(mlir::func::FuncOp function, unsigned argument) {
  auto known = function.getArgAttrOfType<mlir::IntegerAttr>(argument, alignmentName);
  return known ? known.getInt() : 1;
}
inline int64_t getResultAlignment(mlir::func::FuncOp function, unsigned result) {
  auto known = function.getResultAttrOfType<mlir::IntegerAttr>(result, alignmentName);
  return known ? known.getInt() : 1;
}

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_ALIGNMENT_H
