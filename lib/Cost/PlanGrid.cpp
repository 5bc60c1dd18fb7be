// The enumeration. Neighbour: PlanGrid.h.
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

} // namespace

PlanResult bestUniformPlan(const CostModel &machine, const ModelDimensions &model, const TrainingLayout &base,
                           int devices, const PlanChoices &choices) {
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
                     (choices.tensorRanks == 0 || tensor == choices.tensorRanks) && model.heads >= tensor &&
                     (stages <= model.layers || base.cutsInsideLayers);
      if (!allowed || layout.globalBatch < layout.data)
        continue;
      double each = layout.globalBatch / layout.data;
      for (double micro = 1; micro <= each && micro <= 64; micro *= 2) {
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

} // namespace colossal::cost
