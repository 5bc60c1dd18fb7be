// What the stages of a plan do and hold, once the layouts of its units are known: a plan's words for
// cost::StepCost, which prices steps.
#ifndef COLOSSAL_PLANNER_STAGECOSTS_H
#define COLOSSAL_PLANNER_STAGECOSTS_H

#include "colossal/Planner/PlanPricer.h"

#include <vector>

namespace colossal::planner {

class StageCosts {
public:
  using Stage = PlanEstimate::Stage;

  StageCosts(const FactorGraph &graph, const cost::CostModel &machine, const TrainingTypes &types)
      : graph(graph), types(types), step(machine, types) {}

  /// How ranks share the plan's step.
  cost::StepShape shape(const TrainingPlan &plan) const;
  /// The stages of a plan whose chunks have so many units each (`parts`, in the model's order).
  std::vector<Stage> stages(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &parts) const {
    return step.stages(shape(plan), {cell.kinds, units(plan, cell, parts), parts});
  }
  /// Their passes and transfers, for a simulation.
  cost::PipelineProblem problem(const TrainingPlan &plan, const Cell &cell,
                                const std::vector<int> &parts) const {
    return step.problem(shape(plan), {cell.kinds, units(plan, cell, parts), parts});
  }
  /// Bytes of a stage by kind, without activations.
  StageMemory state(const TrainingPlan &plan, const Stage &stage) const {
    return step.state(shape(plan), stage);
  }
  double reduction(const TrainingPlan &plan, const std::vector<Stage> &stages, int stage, double beside,
                   std::vector<Communication> *told = nullptr) const {
    return step.reduction(shape(plan), stages, stage, beside, told);
  }
  double update(const TrainingPlan &plan, const Stage &stage) const {
    return step.update(shape(plan), stage);
  }

  /// Which of the cell's kinds each unit is where it stands.
  std::vector<int> units(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &parts) const;

  const FactorGraph &graph;
  const TrainingTypes types;
  const cost::StepCost step;
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_STAGECOSTS_H
