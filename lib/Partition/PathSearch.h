//===- PathSearch.h - the cheapest moves between two layouts ----------------===//
//
// The search over placements that all share, between two layouts of common factors, and the moves that are
// made of what it finds.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_PARTITION_PATHSEARCH_H
#define COLOSSAL_LIB_PARTITION_PATHSEARCH_H

#include "colossal/Cost/PlacementSearch.h"
#include "colossal/Partition/Resharding.h"

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

/// One search between layouts of common factors (colossal/Cost/PlacementSearch.h); its steps as moves, which
/// carry all that emission needs.
class PathSearch {
public:
  /// `cost` must outlive this.
  PathSearch(MeshAttr mesh, const CollectiveCost &cost, const State &to, ReductionKind reduction,
             double elementBytes);
  std::optional<ReshardPath> run(const State &from);
  /// The cost of the path alone; infinity where there is none.
  double runForCost(const State &from) { return search.run(encode(from)); }

private:
  MeshAttr mesh;
  ReductionKind reduction;
  llvm::SmallVector<std::pair<unsigned, unsigned>> places; ///< dimension and factor of each place
  const cost::PlacementCost price;
  cost::PlacementSearch search;

  static cost::Placement encode(const State &state);
  llvm::SmallVector<int64_t, 4> getShape(const State &state) const;
  Move apply(State &state, const cost::PlacementSearch::Step &step) const;
  int64_t localSize(const ShardedFactor &place) const { return getLocalSize(place.size, place.axes, mesh); }
};

} // namespace colossal::dist

#endif // COLOSSAL_LIB_PARTITION_PATHSEARCH_H
