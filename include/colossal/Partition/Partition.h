//===- Partition.h - from global to local tensors ---------------------------===//
//
// The phase between search and schedule: every op is rebuilt at the shapes of one rank's shards, and what
// must move between ranks is said by collectives.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_PARTITION_PARTITION_H
#define COLOSSAL_PARTITION_PARTITION_H

#include "colossal/Partition/Refinement.h"
#include "colossal/Partition/Resharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/MapVector.h"

namespace colossal::dist {

/// The module's mesh (attribute `dist.mesh`); one axis of one rank where there is none.
MeshAttr getMesh(mlir::ModuleOp module);

/// The assignment that an op carries as `dist.assignment`, one entry per factor of `rule`; all empty where
/// the op has none. Fails, with an error at the op, if it has another number of factors, splits a whole
/// factor, or names an axis twice or one that the mesh lacks.
mlir::FailureOr<Assignment> getAssignment(mlir::Operation *op, const FactorRule &rule, MeshAttr mesh);
void setAssignment(mlir::Operation *op, const Assignment &assignment);

/// Whether ranks of these axes hold parts of a factor of this size of which not all are full.
bool isUneven(int64_t size, llvm::ArrayRef<unsigned> axes, MeshAttr mesh);

/// Whether turns of the loop reduce between ranks what they add up (dialects/Dist/LayoutMarks.h).
bool scattersInTurns(mlir::ModuleOp module);

/// The layout that a value is brought to first where several ops use it in other layouts than it is made in,
/// each going on from there: an attribute `dist.shared` of its op, an array with an entry for each result
/// (unit where there is none), or of the argument. Null where there is none.
ShardingAttr getSharedLayout(mlir::Value value);
void setSharedLayout(mlir::Value value, ShardingAttr layout);
inline constexpr llvm::StringLiteral kSharedAttrName = "dist.shared";

/// What layout an assignment makes of a tensor of `op`. Results are partial over the axes on reduction
/// factors.
ShardingAttr getOperandSharding(mlir::Operation *op, unsigned operand, const FactorRule &rule,
                                const Assignment &assignment);
ShardingAttr getResultSharding(mlir::Operation *op, unsigned result, const FactorRule &rule,
                               const Assignment &assignment);

/// Start (global index) and valid extent of this rank's part of a factor, as index values.
struct ShardRange {
  mlir::Value start, valid;
};
ShardRange getShardRange(mlir::OpBuilder &builder, mlir::Location loc, int64_t size,
                         llvm::ArrayRef<unsigned> axes, MeshAttr mesh);

} // namespace colossal::dist

namespace colossal::partition {

/// Argument and result attribute, and attribute of local `colossal.parameter` ops.
using dist::kShardingAttrName;

/// Partitions all functions of `module` over its mesh. `resharder` chooses collectives; null: by bytes sent.
///
/// Before: global types. Layouts are in `dist.assignment` of ops (factors as RefinementAnalysis numbers them)
/// and `dist.sharding` of function arguments and results, and of parameters, where it goes before an
/// assignment.
///
/// After:
///  - every tensor is one rank's shard, of the padded shape ShardingAttr::getLocalShape. All ranks run the
///  same code;
///  - function arguments and results, and `colossal.parameter` ops, have a `dist.sharding` attribute: the
///  global shape
///    (ShardingAttr::getGlobalShape) and where the shard lies in it. Padding of parameters holds 0, that of
///    arguments anything, and so does that of results;
///  - the module has `shard.grid @mesh`, and functions hold `shard.all_gather`, `all_reduce`,
///  `reduce_scatter`,
///    `all_to_all` and `all_slice` on it, with groups ranked row-major over `grid_axes` in their order. Their
///    shapes are even: padding and cropping around them are `colossal.pad` and `colossal.slice`. Reductions:
///    sum, max, min, product, and bitwise and, or (on i1);
///  - `dist.exchange` brings windows, `dist.mask_padding` writes what padding must hold;
///  - values that differ by rank are `index` values made of `dist.coordinate`, `arith.constant`, `addi`,
///  `subi`, `muli`,
///    `floordivsi`, `remsi` (by a positive constant, of a non-negative value), `minsi` and `maxsi` only. They
///    are operands of ops (offsets, valid extents), never of control flow.
///
/// A factor of size f split over axes (a0, a1, ...) with n0, n1, ... ranks begins, on the rank with
/// coordinates c0, c1,
/// ..., at c0 * s1 + c1 * s2 + ... with s0 = f, s(i+1) = ceil(s(i) / n(i)); of its last s elements there are
/// valid v0 = f, v(i+1) = max(0, min(s(i+1), v(i) - c(i) * s(i+1))). See dist::getShardRange.
///
/// `refinementOf` has the analyses of the functions; without it they are made.
mlir::LogicalResult partition(mlir::ModuleOp module, dist::Resharder *resharder = nullptr,
                              dist::RefinementOf refinementOf = {});

/// What collectives cost on the mesh of a module; fails with a diagnostic.
using CostOf = std::function<mlir::FailureOr<dist::CollectiveCost>(mlir::ModuleOp)>;
/// The same as a pass. Without `cost`, by bytes sent.
std::unique_ptr<mlir::Pass> createPartitionPass(CostOf cost);
/// `--colossal-loss-parts`, for what createPartitionPass has made.
std::unique_ptr<mlir::Pass> createLossPartsPass();
/// Before the partitioner: the values of a training function that this pass will make for some rows at a time
/// where a rank's shard of them is large enough (FactorGraph/LossParts.h), and the dimension of these rows.
/// The last dimension is that of the classes.
llvm::MapVector<mlir::Value, unsigned> findLossValues(mlir::func::FuncOp function);
/// Registers both.
void registerPasses();

} // namespace colossal::partition

#endif // COLOSSAL_PARTITION_PARTITION_H
