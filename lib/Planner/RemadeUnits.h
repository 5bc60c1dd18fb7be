// What a compiled step keeps of each unit under recompute, and what its backward pass makes again: the
// segments of the forward pass (colossal/FactorGraph/RecomputeSegments.h) know no units.
#ifndef COLOSSAL_PLANNER_REMADEUNITS_H
#define COLOSSAL_PLANNER_REMADEUNITS_H

#include "colossal/Planner/BlockPlanner.h"

#include <vector>

namespace colossal::planner {

/// Units of one kind of which the same is kept and made again share one.
struct RemadeUnits {
  std::vector<RemadeUnit> kinds; ///< those of the graph's kinds first, the others behind
  std::vector<int> graphKinds;   ///< of each of `kinds`: the graph's
  std::vector<int> units;        ///< of each unit, in order: which of `kinds`
  /// The operations that begin segments, in order, as FactorGraph::ids has them; the first segment is not
  /// among them.
  std::vector<int> segments;
};

/// `element`: bytes of one of an activation; `kept` is looked at where it decides. All is kept with
/// Recompute::None.
RemadeUnits findRemadeUnits(const FactorGraph &graph, Recompute recompute, const KeptOperations *kept,
                            double element);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_REMADEUNITS_H
