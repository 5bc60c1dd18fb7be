// The memory curve and communication by name.
#include "PriceDetails.h"

#include "MovedBytes.h"

#include <algorithm>
#include <set>

namespace colossal::planner {

/// The units of each chunk, in the model's order.
static std::vector<std::vector<const UnitCost *>> unitsByChunk(const Cell &cell,
                                                               const std::vector<int> &parts) {
  std::vector<std::vector<const UnitCost *>> chunks;
  std::size_t unit = 0;
  for (int size : parts) {
    chunks.emplace_back();
    for (int i = 0; i < size; ++i, ++unit)
      chunks.back().push_back(&cell.kinds[cell.units[unit]]);
  }
  return chunks;
}

/// What a stage hands on of each microbatch: the unit whose result it is, and the stage that gets it.
/// Activations go on, their gradients back.
static std::vector<std::pair<const UnitCost *, int>>
handsOn(const TrainingPlan &plan, const std::vector<std::vector<const UnitCost *>> &chunks, int stage) {
  std::vector<std::pair<const UnitCost *, int>> handed;
  const int count = static_cast<int>(chunks.size());
  for (int c = 0; c < count; ++c)
    for (int to : {c + 1, c - 1})
      if (plan.stageOf(c) == stage && to >= 0 && to < count && plan.stageOf(to) != stage)
        handed.emplace_back(chunks[std::min(c, to)].back(), plan.stageOf(to));
  return handed;
}

/// What a rank of the stage that ends last hands on, and how much longer the pipeline takes for it.
static Communication sends(const TrainingPlan &plan, const PlanPrice &price, cost::PipelineProblem problem,
                           const std::vector<std::vector<const UnitCost *>> &chunks) {
  Communication told{"send between stages", 0, 0, 0};
  int last = plan.pipeline - 1, stage = price.lastStage;
  for (auto [unit, to] : handsOn(plan, chunks, stage)) {
    int low = std::min(stage, to), high = std::max(stage, to);
    told.bytes += unit->outputBytes * problem.microbatches;
    told.seconds += problem.hopSeconds[high - low == 1 ? low : last] * problem.microbatches;
  }
  std::fill(problem.hopSeconds.begin(), problem.hopSeconds.end(), 0);
  told.exposed = std::max(0.0, price.pipeline - cost::simulate(problem).seconds);
  return told;
}

/// Bytes over the step on `stage`, unit by unit: passes keep what each unit saves, gradients free it, and
/// hold `transient` bytes meanwhile. Thinned to at most 200 points that keep the peaks.
static std::vector<MemoryPoint> memoryCurve(const cost::PipelineProblem &problem,
                                            const cost::PipelineResult &result,
                                            const std::vector<std::vector<const UnitCost *>> &chunks,
                                            int stage, double state, double transient, double end) {
  std::vector<MemoryPoint> all{{0, state}};
  double held = state;
  bool split = cost::splitsBackward(problem.schedule);
  for (const cost::PipelineEvent &event : result.timeline) {
    if (event.stage != stage)
      continue;
    int part = problem.schedule == cost::Schedule::ZeroBubbleV && event.chunk == 1
                   ? 2 * problem.stages - 1 - stage
                   : event.chunk * problem.stages + stage;
    const std::vector<const UnitCost *> &units = chunks[part];
    bool isForward = event.pass == cost::PipelineEvent::Forward;
    // The last part's forward pass is a part of the backward one: what it has received waits for that.
    const bool isLate = part > 0 && part + 1 == static_cast<int>(chunks.size()) && problem.microbatches > 1;
    if (event.pass == cost::PipelineEvent::Backward)
      all.push_back({event.start, held + transient});
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::size_t at = isForward ? i : units.size() - 1 - i; // in the order of the forward pass
      const UnitCost &unit = *units[at];
      const bool isFirst = isForward ? i == 0 : i + 1 == units.size();
      const double before = at > 0 ? unit.savedWith(*units[at - 1]) : 0;
      const double kept = !isLate   ? unit.saved(split) - before
                          : isFirst ? chunks[part - 1].back()->outputBytes
                                    : 0;
      const double done = event.start + (event.end - event.start) * static_cast<double>(i + 1) / units.size();
      if (isForward)
        held += kept;
      else if (event.pass == cost::PipelineEvent::Backward)
        held -= split ? kept - unit.weightKeptBytes : kept;
      else
        held -= unit.weightKeptBytes;
      bool isLast = i + 1 == units.size();
      all.push_back({done, held + (event.pass == cost::PipelineEvent::Backward && !isLast ? transient : 0)});
    }
  }
  all.push_back({std::max(end, all.back().seconds), held});
  constexpr std::size_t kPoints = 200;
  if (all.size() <= kPoints)
    return all;
  std::vector<MemoryPoint> thinned;
  for (std::size_t i = 0; i < kPoints / 2; ++i) {
    auto begin = all.begin() + i * all.size() / (kPoints / 2),
         end = all.begin() + (i + 1) * all.size() / (kPoints / 2);
    auto less = [](const MemoryPoint &a, const MemoryPoint &b) { return a.bytes < b.bytes; };
    auto low = std::min_element(begin, end, less), high = std::max_element(begin, end, less);
    thinned.push_back(*std::min(low, high));
    if (low != high)
      thinned.push_back(*std::max(low, high));
  }
  return thinned;
}

void fillDetails(const StageCosts &costs, const TrainingPlan &plan, const Cell &cell,
                 const cost::PipelineProblem &problem, const cost::PipelineResult &schedule,
                 const std::vector<StageCosts::Stage> &stages, PlanPrice &price) {
  StageMemory state = price.memory[price.curveStage];
  std::vector<std::vector<const UnitCost *>> chunks = unitsByChunk(cell, price.parts);
  double kept = state.total() - state.activations - state.transient;
  price.curve = memoryCurve(problem, schedule, chunks, price.curveStage, kept, state.transient,
                            price.seconds / price.straggler);
  std::vector<int> units; // of the stage that ends last
  bool endsModel = plan.stageOf(static_cast<int>(price.parts.size()) - 1) == price.lastStage;
  for (std::size_t c = 0, unit = 0; c < price.parts.size(); unit += price.parts[c], ++c)
    if (plan.stageOf(static_cast<int>(c)) == price.lastStage)
      units.insert(units.end(), cell.units.begin() + unit, cell.units.begin() + unit + price.parts[c]);
  double beside = 0;
  for (std::size_t c = 0; c < problem.work.size(); ++c)
    if (plan.stageOf(static_cast<int>(c)) == price.lastStage)
      beside += problem.work[c].backward + problem.work[c].weightGradient;
  costs.step.tellUnits(costs.shape(plan), cell.kinds, units, endsModel, price.communication);
  costs.reduction(plan, stages, price.lastStage, beside, &price.communication);
  if (plan.pipeline > 1)
    price.communication.push_back(sends(plan, price, problem, chunks));
  MovedBytes moved(costs, plan, stages, problem.microbatches);
  std::vector<double> collective(plan.pipeline, 0);
  std::size_t unit = 0;
  for (std::size_t c = 0; c < price.parts.size(); ++c)
    for (int i = 0; i < price.parts[c]; ++i, ++unit) {
      const UnitCost &cost = cell.kinds[cell.units[unit]];
      const int stage = plan.stageOf(static_cast<int>(c));
      collective[stage] += cost.collective * problem.microbatches;
      moved.add(stage, cost);
    }
  price.collective = *std::max_element(collective.begin(), collective.end());
  double handed = 0; // of a microbatch
  for (auto [sender, to] : handsOn(plan, chunks, 0))
    handed += sender->outputBytes;
  price.bytesByCollective = moved.tell(handed);
}

} // namespace colossal::planner
