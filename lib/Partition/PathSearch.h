//===- PathSearch.h - the cheapest moves between two layouts ----------------===//
//
// The search over placements that all share, between two layouts of common factors, and the moves that are
// made of what it finds.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_PARTITION_PATHSEARCH_H
#define COLOSSAL_LIB_PARTITION_PATHSEARCH_H

#include "CommonFactors.h"

#include "colossal/Cost/PlacementSearch.h"
#include "colossal/Partition/Resharding.h"

namespace colossal::dist {

/// The placements on the ways to a layout, from those that have its factors.
cost::PlacementGraph makeGraph(const State &to, MeshAttr mesh);
/// Where the axes are, factors numbered in their order.
cost::Placement getPlacement(const State &state);

/// One search between layouts of common factors; its steps as moves, which carry all that emission needs.
class PathSearch {
public:
  PathSearch(MeshAttr mesh, const State &to, ReductionKind reduction);
  /// `elementBytes`: of an element of the factors.
  std::optional<ReshardPath> run(const State &from, double elementBytes, const cost::PlacementCost &price);

private:
  MeshAttr mesh;
  ReductionKind reduction;
  llvm::SmallVector<std::pair<unsigned, unsigned>> places; ///< dimension and factor of each place
  cost::PlacementGraph graph;

  llvm::SmallVector<int64_t, 4> getShape(const State &state) const;
  Move apply(State &state, const cost::PlacementSearch::Step &step) const;
  int64_t localSize(const ShardedFactor &place) const { return getLocalSize(place.size, place.axes, mesh); }
};

} // namespace colossal::dist

#endif // COLOSSAL_LIB_PARTITION_PATHSEARCH_H
