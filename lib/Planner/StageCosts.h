// What the stages of a plan do and hold, once the layouts of its units are known: their passes, what they
// hand on, reduce, update and keep. Whoever puts them into time (PlanPricer.cpp) asks here.
#ifndef COLOSSAL_PLANNER_STAGECOSTS_H
#define COLOSSAL_PLANNER_STAGECOSTS_H

#include "colossal/Planner/PlanPricer.h"

#include <vector>

namespace colossal::planner {

class StageCosts {
public:
  using Stage = PlanEstimate::Stage;

  StageCosts(const TrainingGraph &graph, const cost::CostModel &machine, const TrainingTypes &types)
      : graph(graph), machine(machine), types(types),
        operations(machine, machine.machine().device.launchSeconds),
        contention(machine.machine().fitted["overlap_contention"]),
        exposed(machine.machine().fitted["exposed_gradient"]),
        shardedBandwidth(machine.machine().fitted["sharded_parameter_bandwidth"]) {}

  /// The stages of a plan whose chunks have so many units each (`parts`, in the model's order).
  std::vector<Stage> stages(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &parts) const;
  /// Their passes and transfers, for a simulation. What ZeRO moves is counted as far as nothing hides it.
  cost::PipelineProblem problem(const TrainingPlan &plan, const Cell &cell,
                                const std::vector<int> &parts) const;
  /// Bytes of a stage by kind, without activations.
  StageMemory state(const TrainingPlan &plan, const Stage &stage) const;
  /// Seconds of gradients' reductions after the last backward pass, of which `beside` seconds can hide some;
  /// `told` gets them by name.
  double reduction(const TrainingPlan &plan, const std::vector<Stage> &stages, int stage, double beside,
                   std::vector<Communication> *told = nullptr) const;
  /// Seconds of the optimizer.
  double update(const TrainingPlan &plan, const Stage &stage) const;
  /// Adds the collectives inside the passes of `units` (kinds), which nothing hides, and what ZeRO moves
  /// beside them.
  void tellUnits(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &units, int microbatches,
                 std::vector<Communication> &told) const;

  const TrainingGraph &graph;
  const cost::CostModel &machine;
  const TrainingTypes types;

private:
  /// Seconds to bring a unit's parameters together, or to scatter its gradients; 0 without ZeRO 2 or 3.
  double gatherSeconds(const TrainingPlan &plan, const UnitCost &unit) const;
  cost::Group dataGroup(const TrainingPlan &plan) const {
    return {plan.data * plan.context, plan.tensorSize(), plan.ranks()};
  }
  void fillHops(const TrainingPlan &plan, const std::vector<double> &handed,
                cost::PipelineProblem &problem) const;

  cost::OperationCost operations;
  /// Fitted constants that every plan asks for.
  double contention, exposed, shardedBandwidth;
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_STAGECOSTS_H
