// The memory curve, communication by name, and bytes by collective.
#include "PriceDetails.h"

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

/// Elements of the first stage's parameters that later ones have, too. The last of these updates them: the
/// first sends it their gradients, and receives the parameters.
static double findUpdatedLater(const std::vector<StageCosts::Stage> &stages) {
  double elements = 0;
  for (auto [number, held] : stages.front().shared)
    if (std::any_of(stages.begin() + 1, stages.end(),
                    [number = number](const auto &later) { return later.shared.count(number) > 0; }))
      elements += held;
  return elements;
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
  std::size_t unit = 0;
  // Of the first stage's parameters; and those that products read, of one copy of what units share.
  double readAgain = 0, narrowedAgain = 0, narrowed = 0;
  std::set<int> known, knownAgain; // what units share is brought together for all of them at once
  std::map<int, double> computed;  // bytes, of what the first stage computes of parameters that units share
  double handedComputed = 0;       // of them, that later stages read: each hands it on to the next
  std::vector<double> collective(plan.pipeline, 0);
  for (std::size_t c = 0; c < price.parts.size(); ++c)
    for (int i = 0; i < price.parts[c]; ++i, ++unit) {
      const UnitCost &cost = cell.kinds[cell.units[unit]];
      int stage = plan.stageOf(static_cast<int>(c));
      collective[stage] += cost.collective * problem.microbatches;
      for (const auto &[number, bytes] : cost.sharedComputed) {
        // Stages hand on in 16 bits what is wide where it is read.
        const double all = (bytes.once + bytes.perMicrobatch * problem.microbatches) *
                           (costs.types.narrow > 0 ? costs.types.narrow / costs.types.gradient : 1);
        if (stage == 0) {
          computed.try_emplace(number, all);
        } else if (auto first = computed.find(number); first != computed.end()) {
          handedComputed += first->second;
          first->second = 0;
        }
      }
      if (stage != 0)
        continue;
      readAgain += cost.readAgain;
      narrowedAgain += cost.narrowedAgain;
      narrowed += cost.narrowed;
      for (auto [number, copied] : cost.sharedNarrowed)
        narrowed -= known.insert(number).second ? 0 : copied;
      for (auto [number, again] : cost.sharedReadAgain)
        if (!knownAgain.insert(number).second) {
          readAgain -= again;
          const auto narrow = cost.sharedNarrowedAgain.find(number);
          narrowedAgain -= narrow == cost.sharedNarrowedAgain.end() ? 0 : narrow->second;
        }
      for (const auto &[name, bytes] : cost.bytesByCollective)
        price.bytesByCollective[name + " (tensor)"] += bytes * problem.microbatches;
    }
  price.collective = *std::max_element(collective.begin(), collective.end());
  const double updatedLater = findUpdatedLater(stages);
  const int ranks = plan.data * plan.context;
  const cost::GradientReduction &sums = stages[0].reduction;
  // Context ranks have the same parameters: a program sums over them and the data ranks at once.
  const bool isAtOnce = plan.zero > 0 || plan.task.scoresInMemory;
  const double summed = sums.bytes - (isAtOnce ? sums.contextBytes : 0);
  double elsewhere = 0; // elements of gradients that a rank has none of when data ranks share theirs
  if (summed > 0 && !plan.task.scoresInMemory) {
    price.bytesByCollective["all-reduce (tensor)"] += summed;
  } else if (summed > 0) {
    // Each rank updates what it has the sums of, which passes read whole; data ranks that keep parts of
    // parameters bring together those of theirs.
    price.bytesByCollective["reduce-scatter (tensor)"] += summed / 2;
    price.bytesByCollective["all-gather (tensor)"] += summed / 2 / (plan.zero >= 3 ? ranks : 1);
    elsewhere = sums.elsewhere / costs.types.reduced;
  }
  if (ranks > 1) {
    // A program adds up the gradients of all microbatches on a rank before it moves them, but for those of
    // which it keeps pieces. What is read of parameters has gradients, and is gathered for the passes; all of
    // them are updated.
    const bool movesOnce = costs.shape(plan).movesStateOnce();
    const double read = stages[0].parameters - stages[0].unread, turns = movesOnce ? 1 : problem.microbatches,
                 gradients = costs.types.reduced * (read - elsewhere) * (plan.zero >= 2 ? turns : 1),
                 gathered = plan.zero < 3 ? stages[0].parameters - updatedLater - elsewhere
                            : movesOnce   ? read + stages[0].frozen
                                          : turns * (read + stages[0].frozen + readAgain),
                 narrow = plan.zero < 3 ? 0
                          : movesOnce   ? narrowed + stages[0].frozen
                                        : turns * (narrowed + stages[0].frozen + narrowedAgain),
                 parameters = costs.types.gathered * gathered - costs.types.narrowGathered() * narrow;
    if (plan.zero == 0) {
      // The stage that updates a parameter for others needs parts of their sums, not whole ones.
      const double scattered = costs.types.reduced * updatedLater;
      const double context = plan.context, moved = context > 1 ? 2 * (context - 1) / context : 1,
                   sumsOverBoth = isAtOnce ? sums.contextBytes / moved : 0;
      const bool isScatteredOverBoth = sumsOverBoth > 0;
      const double overBoth = isScatteredOverBoth ? sumsOverBoth - scattered : 0;
      price.bytesByCollective["all-reduce (data)"] =
          cost::CostModel::bytesMoved(cost::Collective::AllReduce, overBoth, ranks) +
          cost::CostModel::bytesMoved(cost::Collective::AllReduce, gradients - scattered - overBoth,
                                      plan.data);
      if (scattered > 0)
        price.bytesByCollective["reduce-scatter (data)"] = cost::CostModel::bytesMoved(
            cost::Collective::ReduceScatter, scattered, isScatteredOverBoth ? ranks : plan.data);
    } else {
      price.bytesByCollective["reduce-scatter (data)"] =
          cost::CostModel::bytesMoved(cost::Collective::ReduceScatter, gradients, ranks);
      price.bytesByCollective["all-gather (data)"] =
          cost::CostModel::bytesMoved(cost::Collective::AllGather, parameters, ranks);
    }
  }
  double handed = 0; // of a microbatch
  for (auto [unit, to] : handsOn(plan, chunks, 0))
    handed += unit->outputBytes;
  if (plan.pipeline > 1)
    // Context ranks send the parts they have the sums of, data ranks these to each of theirs.
    price.bytesByCollective["send (pipeline)"] =
        handed * problem.microbatches + handedComputed +
        costs.types.reduced * updatedLater / (plan.zero > 0 ? ranks : plan.context);
}

} // namespace colossal::planner
