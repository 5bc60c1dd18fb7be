//===- Dist.h - meshes and shardings ----------------------------------------===//
//
// The dialect that says where data lives. Ops' rules are in FactorRule.h.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_DIST_DIST_H
#define COLOSSAL_DIALECTS_DIST_DIST_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Dist/DistDialect.h.inc"
#include "dialects/Dist/DistEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.h.inc"

namespace colossal::dist {

/// Discardable attribute of a module: its MeshAttr.
inline constexpr llvm::StringLiteral kMeshAttrName = "dist.mesh";
/// Attribute of a function's arguments and results, and of a parameter: its ShardingAttr.
inline constexpr llvm::StringLiteral kShardingAttrName = "dist.sharding";
/// Discardable attribute of an op after search: ArrayAttr with one array of axis indices per factor of its
/// refined rule.
inline constexpr llvm::StringLiteral kAssignmentAttrName = "dist.assignment";
/// Of a collective: what the ranks of one op exchange between its stages.
inline constexpr llvm::StringLiteral kStatisticsAttrName = "dist.statistics";

/// A dimension in the form that DimShardingAttr asks for: `parts` are (size, axes), outermost first; adjacent
/// parts without axes are merged and parts of size 1 without axes dropped.
DimShardingAttr makeDimSharding(mlir::MLIRContext *context,
                                llvm::ArrayRef<std::pair<int64_t, llvm::ArrayRef<unsigned>>> parts);

/// The chunk that `axes` of `mesh` give one rank of a factor of `size`: ceil division, once per axis.
int64_t getLocalSize(int64_t size, llvm::ArrayRef<unsigned> axes, MeshAttr mesh);

} // namespace colossal::dist

#endif // COLOSSAL_DIALECTS_DIST_DIST_H
