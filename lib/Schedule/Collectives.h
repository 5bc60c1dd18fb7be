//===- Collectives.h - collectives of tensors to collectives of bytes -------===//
#ifndef COLOSSAL_LIB_SCHEDULE_COLLECTIVES_H
#define COLOSSAL_LIB_SCHEDULE_COLLECTIVES_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/IR/Builders.h"

namespace colossal::schedule {

/// Whether `op` moves bytes between ranks: shard.all_gather, all_reduce, reduce_scatter, all_to_all,
/// dist.exchange, dist.permute. (shard.all_slice does not.)
bool isCollective(mlir::Operation *op);

/// A side of a collective as a dense tensor [outer, count, inner], of which peers hold parts [outer, inner].
struct Parts {
  int64_t outer = 1, count = 1, inner = 1;
  /// Each part is one run of elements.
  bool areRuns() const { return outer == 1 || count == 1; }
};
/// The parts of operand and result, whose dimensions lie in that order (outermost first).
std::pair<Parts, Parts> partsOf(mlir::Operation *op, llvm::ArrayRef<unsigned> order);

/// Whether the ranks of `op` may have the dimensions of its operand and result in any order, if that is one.
bool keepsOrder(mlir::Operation *op);

/// Appends the plan.collective for `op`, whose operand and result lie dense and in that order at `src` and
/// `dst`; or, if `byPart`, as [count, outer, inner] of their parts. Index operands of `op` are looked up in
/// `scalars` (they stand in the function, the instruction in a program).
mlir::LogicalResult lowerCollective(mlir::OpBuilder &builder, mlir::Operation *op, plan::BufferAttr src,
                                    plan::BufferAttr dst, llvm::ArrayRef<unsigned> order, bool byPart,
                                    llvm::function_ref<mlir::Value(mlir::Value)> scalars);

/// Of a shard.all_slice: where the elements that it takes begin, along its dimension; built at `builder` from
/// coordinates. Null for all other ops.
mlir::Value buildSliceStart(mlir::OpBuilder &builder, mlir::Operation *op);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_COLLECTIVES_H
