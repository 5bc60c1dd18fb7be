// The best uniform plan: all ways to write the number of devices as tensor * data * pipeline, with every
// microbatch size that divides, priced one by one. It stands in for plans that a table names only by who
// chose them.
#ifndef COLOSSAL_COST_PLANGRID_H
#define COLOSSAL_COST_PLANGRID_H

#include "colossal/Cost/ResidualNetwork.h"
#include "colossal/Cost/Training.h"

namespace colossal::cost {

/// What a planner may use.
struct PlanChoices {
  bool tensor = true, data = true, pipeline = true;
  /// Stages and tensor-parallel ranks are fixed at these; 0: free.
  int stages = 0, tensorRanks = 0;
  /// The highest ZeRO stage that may be taken in place of the layout's own, where there is a data axis.
  int zero = 0;
  /// Microbatches a step; 0: free.
  int microbatches = 0;
};

struct PlanResult {
  TrainingLayout layout;
  StepPrediction step;
  /// No plan fits the device's memory: the one that needs least is returned.
  bool fits = false;
  /// Not empty if no plan divides the devices.
  std::string error;
};

/// The fastest plan that fits, otherwise the one with the least memory. `base` gives the batch, the
/// precision, recompute and all else that is not chosen.
PlanResult bestUniformPlan(const CostModel &machine, const ModelDimensions &model, const TrainingLayout &base,
                           int devices, const PlanChoices &choices);

/// The same for a convolutional network.
PlanResult bestUniformPlan(const CostModel &machine, const ResidualNetwork &network,
                           const TrainingLayout &base, int devices, const PlanChoices &choices);

} // namespace colossal::cost

#endif // COLOSSAL_COST_PLANGRID_H
