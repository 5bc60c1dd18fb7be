// A plan's words for the step's.
#include "StageCosts.h"

#include <algorithm>

namespace colossal::planner {

cost::StepShape StageCosts::shape(const TrainingPlan &plan) const {
  cost::StepShape shape;
  shape.pipeline = plan.pipeline;
  shape.data = plan.data;
  shape.context = plan.context;
  shape.tensor = plan.tensorSize();
  shape.microbatches = plan.microbatches();
  shape.schedule = plan.schedule;
  shape.chunks = plan.chunks;
  shape.zero = plan.data * plan.context > 1 ? plan.zero : 0; // else there are no ranks to share with
  shape.asCompiled = true;
  shape.addsInPlace = plan.task.addsInPlace;
  shape.overlapGradients = plan.overlapGradients;
  shape.transferLaunch = step.machine.machine().device.launchSeconds; // of a compiled program
  return shape;
}

std::vector<int> StageCosts::units(const TrainingPlan &plan, const Cell &cell,
                                   const std::vector<int> &parts) const {
  std::vector<int> units = cell.units;
  if (!cell.keeping.empty() && shape(plan).isUnrolled() && cost::splitsBackward(plan.schedule))
    std::copy(cell.keeping.end() - parts.back(), cell.keeping.end(), units.end() - parts.back());
  return units;
}

} // namespace colossal::planner
