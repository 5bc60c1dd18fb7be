// Why a task has no plan, and the smallest change that would give it one. Neighbour: JointSearch.cpp.
#pragma once

#include "colossal/Planner/JointSearch.h"

namespace colossal::planner {

/// Empty, or what is wrong with the task itself.
std::string checkTask(const PlanPricer &pricer, const TrainingTask &task);

/// The schedules and chunks that suit a plan's pipeline and microbatches.
std::vector<std::pair<cost::Schedule, int>> schedulesOf(const TrainingPlan &plan, const SearchSpace &space,
                                                        int units);

/// Fills `result.smallest` (priced) and `result.remedies`: memory of a device, number of devices, global
/// batch.
void explain(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space, SearchResult &result);

} // namespace colossal::planner
