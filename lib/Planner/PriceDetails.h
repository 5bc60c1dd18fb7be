// Where a priced plan's memory and bytes go, for whoever reads the report.
#ifndef COLOSSAL_PLANNER_PRICEDETAILS_H
#define COLOSSAL_PLANNER_PRICEDETAILS_H

#include "StageCosts.h"

namespace colossal::planner {

/// Fills the price's memory curve, communication and bytes by collective. `schedule` has a timeline, and the
/// price its stages' memory and times.
void fillDetails(const StageCosts &costs, const TrainingPlan &plan, const Cell &cell,
                 const cost::PipelineProblem &problem, const cost::PipelineResult &schedule,
                 const std::vector<StageCosts::Stage> &stages, PlanPrice &price);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_PRICEDETAILS_H
