//===- Boxes.h - index expressions, and the boxes that shardings mean --------===//
#ifndef COLOSSAL_LIB_PLAN_BOXES_H
#define COLOSSAL_LIB_PLAN_BOXES_H

#include "colossal/Plan/Plan.pb.h"
#include "dialects/Dist/Dist.h"

namespace colossal::plan {

/// An index value of a program's body as a tree, constants folded. Fails, with a diagnostic where an op has
/// no form in a plan.
mlir::FailureOr<Expr> makeExpr(mlir::Value value);

/// The box that a sharding gives each rank: ceil division once per axis, see dist::ShardingAttr. Of a factor
/// that is split over a loop axis, a rank holds what all turns work on: their parts one behind the other. No
/// box says that where the turns' parts are uneven and split further.
mlir::LogicalResult fillBox(dist::ShardingAttr sharding, dist::MeshAttr mesh, Box &box);

/// Of a box of a part that begins at `starts` of a parameter of `shape`: the same elements as a box of the
/// parameter.
mlir::LogicalResult moveIntoWhole(dist::ShardingAttr sharding, llvm::ArrayRef<int64_t> starts,
                                  const google::protobuf::RepeatedField<uint64_t> &shape, dist::MeshAttr mesh,
                                  Box &box);

} // namespace colossal::plan

#endif // COLOSSAL_LIB_PLAN_BOXES_H
