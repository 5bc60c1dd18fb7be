//===- CommonFactors.h - two layouts as axes on the same factors ------------===//
//
// Between two layouts of a tensor axes move from factor to factor, so both must be seen as axes on the same
// ones.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_PARTITION_COMMONFACTORS_H
#define COLOSSAL_LIB_PARTITION_COMMONFACTORS_H

#include "dialects/Dist/Dist.h"

namespace colossal::dist {

/// A factor of a dimension, and the axes that split it, outermost first.
struct ShardedFactor {
  int64_t size;
  llvm::SmallVector<unsigned, 2> axes;
  bool operator==(const ShardedFactor &other) const { return size == other.size && axes == other.axes; }
};
using Dim = llvm::SmallVector<ShardedFactor, 4>; ///< outermost first

/// A layout while axes move: the factors stay, their axes change.
struct State {
  llvm::SmallVector<Dim, 4> dims;
  llvm::SmallVector<unsigned, 2> partial;
};

/// Evenly split factors as digits, one factor per axis, the rest behind them.
Dim toDigits(DimShardingAttr attr, MeshAttr mesh);
/// A layout in digits.
State makeState(ShardingAttr sharding, MeshAttr mesh);
/// Brings the two layouts of a dimension to the same factors. False, and both are as they were, where they
/// have none in common.
bool unify(Dim &a, Dim &b);

} // namespace colossal::dist

#endif // COLOSSAL_LIB_PARTITION_COMMONFACTORS_H
