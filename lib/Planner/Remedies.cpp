// Probes for plans that need little memory: full recompute, one sequence a microbatch, state over all data ranks. Neighbour:
// Remedies.h.
#include "Remedies.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace colossal::planner {

std::string checkTask(const PlanPricer &pricer, const TrainingTask &task) {
  const cost::Machine &machine = pricer.machine().machine();
  if (task.devices < 1 || task.devices > machine.devices())
    return "--devices: machine '" + machine.name + "' has 1 to " + std::to_string(machine.devices()) + ", not " +
           std::to_string(task.devices);
  if (!(task.globalBatch >= 1) || task.globalBatch > 1e9 || task.globalBatch != std::floor(task.globalBatch))
    return "--global-batch: must be a whole number from 1 to 10^9";
  if (pricer.limitBytes() <= 0)
    return "--memory: the runtime reserves more than a device has";
  return "";
}

/// The plan of least peak among those that save all they can.
static std::optional<PricedPlan> probe(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space) {
  std::optional<PricedPlan> best;
  TrainingPlan plan;
  plan.task = task;
  plan.fusedAttention = space.fusedAttention;
  int units = static_cast<int>(pricer.graph().units.size());
  for (int tensor = 1; tensor <= task.devices && tensor <= space.maxTensor; ++tensor) {
    if (task.devices % tensor != 0)
      continue;
    plan.tensor = {tensor};
    plan.lean = tensor > 1;
    std::vector<Boundary> boundaries = pricer.blocks().boundaries(tensorAxes(plan));
    for (int pipeline = 1; pipeline <= units && pipeline <= task.devices / tensor; ++pipeline) {
      if (task.devices / tensor % pipeline != 0)
        continue;
      plan.pipeline = pipeline;
      plan.data = task.devices / tensor / pipeline;
      if (std::fmod(task.globalBatch, plan.data) != 0)
        continue;
      for (int zero : space.zero)
        for (Recompute recompute : space.recompute)
          for (const Boundary &boundary : boundaries) {
            plan.zero = zero;
            plan.recompute = recompute;
            plan.boundary = boundary;
            const Cell &cell = pricer.cell(plan);
            if (!cell.error.empty())
              continue;
            plan.parts = pricer.balance(plan, cell);
            if (best && pricer.leastBytes(plan, pricer.outline(plan, cell)) >= best->price.peakBytes)
              continue;
            PlanPrice price = pricer.price(plan);
            if (price.error.empty() && (!best || price.peakBytes < best->price.peakBytes))
              best = PricedPlan{plan, price, ""};
          }
    }
  }
  return best;
}

void explain(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space, SearchResult &result) {
  result.smallest = probe(pricer, task, space);
  if (!result.smallest)
    return;
  double limit = pricer.limitBytes(), device = pricer.machine().machine().device.memoryBytes;
  char text[256];
  double reserved = task.memoryBytes > 0 ? 0 : device - limit;
  std::snprintf(text, sizeof text, "devices with %.1f GiB (%.1f GiB more)", (result.smallest->price.peakBytes + reserved) / (1 << 30),
                (result.smallest->price.peakBytes - limit) / (1 << 30));
  result.remedies.push_back(text);
  TrainingTask other = task;
  while (other.devices <= pricer.machine().machine().devices() / 2 && other.devices < task.devices * 64) {
    other.devices *= 2;
    std::optional<PricedPlan> found = probe(pricer, other, space);
    if (found && found->price.fits()) {
      std::snprintf(text, sizeof text, "%d devices (%.1f GiB of %.1f)", other.devices, found->price.peakBytes / (1 << 30),
                    limit / (1 << 30));
      result.remedies.push_back(text);
      break;
    }
  }
  other = task;
  while (other.globalBatch > 1) {
    other.globalBatch = std::floor(other.globalBatch / 2);
    std::optional<PricedPlan> found = probe(pricer, other, space);
    if (found && found->price.fits()) {
      std::snprintf(text, sizeof text, "a global batch of %.0f (%.1f GiB of %.1f)", other.globalBatch,
                    found->price.peakBytes / (1 << 30), limit / (1 << 30));
      result.remedies.push_back(text);
      break;
    }
  }
}

} // namespace colossal::planner
