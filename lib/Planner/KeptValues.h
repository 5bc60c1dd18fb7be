// Which values a step under recompute keeps nevertheless, one by one.
#ifndef COLOSSAL_PLANNER_KEPTVALUES_H
#define COLOSSAL_PLANNER_KEPTVALUES_H

#include "colossal/Planner/BlockPlanner.h"

#include <memory>
#include <vector>

namespace colossal::planner {

/// At most `most` choices between full recompute and keeping all, each of about the same bytes more than the
/// one before, which it contains: what takes longest to make for its bytes is kept first. That is the least
/// time for each number of bytes, as far as making one value again does not depend on whether another is
/// kept. Times are those of one device, so that a choice is the same whatever the layout; which choice is
/// best is for the search, with the layout's times.
std::vector<std::shared_ptr<const KeptOperations>>
findKeptChoices(const FactorGraph &graph, BlockPlanner &blocks, const TrainingTypes &types, int most);

/// The choice's operations by the names that a plan's text has for them; those of kinds without any are left
/// out.
std::map<std::string, std::vector<std::string>> nameKept(const FactorGraph &graph,
                                                         const KeptOperations &kept);
/// The other way; `error` names what the graph does not have.
KeptOperations readKept(const FactorGraph &graph,
                        const std::map<std::string, std::vector<std::string>> &names, std::string &error);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_KEPTVALUES_H
