// Collectives over axes of a mesh, in the terms of CostModel: the seam for whoever has a mesh, before and
// after scheduling. No IR.
#ifndef COLOSSAL_COST_MESHGROUPS_H
#define COLOSSAL_COST_MESHGROUPS_H

#include "colossal/Cost/CostModel.h"

#include <cstdint>
#include <vector>

namespace colossal::cost {

/// The groups of `axes` of a mesh with these sizes, whose ranks are numbered with the last axis first,
/// innermost group first. Axes next to each other (but for axes of one rank) are one group; others are groups
/// of their own, for they cross other links. Example: of a mesh of 4 x 2 x 8, axes {1, 2} are one group of 16
/// neighbours; axes {0, 2} are 8 neighbours, and 4 ranks that lie 16 apart.
std::vector<Group> groupsOf(const std::vector<std::int64_t> &sizes, std::vector<unsigned> axes);

/// Seconds of one collective over all ranks of `groups` together: over the innermost first; all-reduce,
/// all-gather and reduce-scatter go on outside with what is scattered inside, as CostModel::seconds does from
/// level to level, and other kinds with all of it. `bytes` as there.
double secondsOver(const CostModel &model, Collective kind, double bytes, const std::vector<Group> &groups);

} // namespace colossal::cost

#endif // COLOSSAL_COST_MESHGROUPS_H
