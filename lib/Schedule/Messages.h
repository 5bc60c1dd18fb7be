//===- Messages.h - values between stages as sends and receives -------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_MESSAGES_H
#define COLOSSAL_LIB_SCHEDULE_MESSAGES_H

#include "colossal/Schedule/LoweringContext.h"
#include "dialects/Dist/Stages.h"

namespace colossal::schedule {

/// The queue of messages.
constexpr unsigned kMessageQueue = 2;

/// Appends what sends `value` by `messages` (dist.messages), on a mesh `mesh`: places that are no run are
/// packed.
mlir::LogicalResult lowerSends(LoweringContext &context, mlir::Value value, mlir::ArrayAttr messages,
                               dist::MeshAttr mesh);
/// Appends what receives `argument`, which lies dense in new memory then.
mlir::LogicalResult lowerReceives(LoweringContext &context, mlir::Value argument, mlir::ArrayAttr messages,
                                  dist::MeshAttr mesh);

/// The number that `table` has for a rank of the mesh, as an expression of its coordinates; where the number
/// is negative, so is the expression, but perhaps another number. Linear in the coordinates where that is
/// possible, with the ranks that have a number a box of the mesh; else a sum over ranks.
mlir::Value makeTable(mlir::OpBuilder &builder, mlir::Location loc, dist::MeshAttr mesh,
                      llvm::ArrayRef<int64_t> table);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_MESSAGES_H
