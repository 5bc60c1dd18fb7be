//===- Partition.h - from global tensors to local ones ----------------------===//
//
// The partition phase. After it, functions have local types; arguments, results and `colossal.parameter` ops carry
// `dist.sharding` (of the global tensor); communication is explicit.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_PARTITION_PARTITION_H
#define COLOSSAL_PARTITION_PARTITION_H

#include "mlir/IR/BuiltinOps.h"

namespace colossal::partition {

/// Argument and result attribute, and attribute of local `colossal.parameter` ops.
inline constexpr llvm::StringLiteral kShardingAttrName = "dist.sharding";

/// Rewrites all functions of `module` at local shapes, by their ops' `dist.assignment` (absent: replicated).
mlir::LogicalResult partition(mlir::ModuleOp module);

} // namespace colossal::partition

#endif // COLOSSAL_PARTITION_PARTITION_H
