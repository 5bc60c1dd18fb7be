// Why a task has no plan, and the smallest change that would give it one.
#ifndef COLOSSAL_PLANNER_REMEDIES_H
#define COLOSSAL_PLANNER_REMEDIES_H

#include "colossal/Planner/JointSearch.h"

namespace colossal::planner {

/// Fills `result.smallest` (priced) and `result.remedies`: memory of a device, number of devices, global
/// batch.
void explain(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space, SearchResult &result);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_REMEDIES_H
