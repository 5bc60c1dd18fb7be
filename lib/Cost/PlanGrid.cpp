// The enumeration.
#include "colossal/Cost/PlanGrid.h"

#include <algorithm>
#include <vector>

namespace colossal::cost {

namespace {

std::vector<int> factors(int number) {
  std::vector<int> all;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0)
      all.push_back(i);
  return all;
}

/// What bounds a plan, apart from the devices.
struct Limits {
  double tensor, stages;
  /// Samples of a microbatch on one data-parallel rank, for each of its tensor ranks where they may share it.
  double microBatch;
  bool tensorSharesBatch;
};

template <class Model>
PlanResult search(const CostModel &machine, const Model &model, const TrainingLayout &base, int devices,
                  const PlanChoices &choices, const Limits &limits) {
  PlanResult best;
  best.error = "no plan of the kind asked for divides the devices";
  double memory =
      static_cast<double>(machine.machine().device.memoryBytes) - machine.machine().fitted["reserved_bytes"];
  auto consider = [&](const TrainingLayout &layout) {
    StepPrediction step = predictStep(machine, model, layout);
    if (!step.error.empty())
      return;
    bool fits = step.peakBytes <= memory;
    bool better = !best.error.empty() || (fits && !best.fits) ||
                  (fits == best.fits &&
                   (fits ? step.seconds < best.step.seconds : step.peakBytes < best.step.peakBytes));
    if (better)
      best = {layout, step, fits, ""};
  };
  for (int tensor : factors(devices))
    for (int stages : factors(devices / tensor)) {
      TrainingLayout layout = base;
      layout.tensor = tensor;
      layout.pipeline = stages;
      layout.data = devices / tensor / stages;
      bool allowed = (choices.tensor || tensor == 1) && (choices.pipeline || stages == 1) &&
                     (choices.data || layout.data == 1) &&
                     (choices.stages == 0 || stages == choices.stages) &&
                     (choices.tensorRanks == 0 || tensor == choices.tensorRanks) && limits.tensor >= tensor &&
                     stages <= limits.stages;
      if (!allowed || layout.globalBatch < layout.data)
        continue;
      double each = layout.globalBatch / layout.data;
      double most = limits.microBatch * (limits.tensorSharesBatch ? tensor : 1);
      for (double micro = 1; micro <= each && micro <= most; micro *= 2) {
        layout.microBatch = micro;
        if (choices.microbatches > 0)
          layout.microBatch = each / choices.microbatches;
        for (int zero = base.zero; zero <= (layout.data > 1 ? std::max(base.zero, choices.zero) : base.zero);
             ++zero) {
          layout.zero = zero;
          consider(layout);
        }
        if (choices.microbatches > 0)
          break;
      }
    }
  return best;
}

} // namespace

PlanResult bestUniformPlan(const CostModel &machine, const ModelDimensions &model, const TrainingLayout &base,
                           int devices, const PlanChoices &choices) {
  double stages = base.cutsInsideLayers ? devices : model.layers;
  return search(machine, model, base, devices, choices, {model.heads, stages, 64, false});
}

PlanResult bestUniformPlan(const CostModel &machine, const ResidualNetwork &network,
                           const TrainingLayout &base, int devices, const PlanChoices &choices) {
  double blocks = static_cast<double>(networkBlocks(network).size());
  return search(machine, network, base, devices, choices, {network.baseChannels, blocks, 64, true});
}

} // namespace colossal::cost
