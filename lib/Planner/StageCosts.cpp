// A stage's passes, transfers, reductions, update and memory.
#include "StageCosts.h"

#include "colossal/Cost/Training.h"

#include <algorithm>

namespace colossal::planner {

namespace {

/// Bytes that an optimizer moves for one parameter. Adam in mixed precision: the gradient unscaled to f32 (2
/// + 4), state (16 read, 12 written), the new 16-bit copy (2); in f32: 16 read, 12 written.
double optimizerTraffic(const TrainingTypes &types) {
  return types.parameter < 4 ? 36 : 28;
}

/// A unit's passes. Parameters that are kept over ranks (zero 3) are gathered while the unit before computes,
/// forward and backward; gradients that are (zero 2 and 3) are scattered beside the backward pass, every
/// microbatch. Both share links with the unit's own collectives, so those do not hide them; and kernels and
/// collectives share the device's processors and memory, so part of the shorter of the two (`contention`)
/// comes on top of the longer.
struct Passes {
  double forward, backward, weights;
  Passes(const UnitCost &unit, double gather, int zero, double contention) : weights(unit.weightGradient) {
    auto beside = [&](double seconds, double collective, double moved) {
      double compute = std::max(0.0, seconds - collective);
      return seconds - compute + std::max(compute, moved) + contention * std::min(compute, moved);
    };
    forward = beside(unit.forward, unit.forwardCollective, zero >= 3 ? gather : 0);
    backward = beside(unit.backward + unit.weightGradient, unit.collective - unit.forwardCollective,
                      (zero >= 3 ? 2 : 1) * gather) -
               unit.weightGradient;
    exposedForward = forward - unit.forward;
    exposedBackward = backward - unit.backward;
  }
  double exposedForward, exposedBackward; ///< of what ZeRO moves beside the passes
};

/// Adds to the entry of that name.
void tell(std::vector<Communication> &told, const std::string &name, double bytes, double seconds,
          double exposed) {
  auto at =
      std::find_if(told.begin(), told.end(), [&](const Communication &one) { return one.name == name; });
  if (at == told.end())
    at = told.insert(told.end(), {name, 0, 0, 0});
  at->bytes += bytes;
  at->seconds += seconds;
  at->exposed += exposed;
}

constexpr const char *kScatter = "reduce-scatter of gradients, data and context ranks",
                     *kGather = "all-gather of parameters, data and context ranks",
                     *kAllReduce = "all-reduce of gradients, data ranks";

} // namespace

double StageCosts::gatherSeconds(const TrainingPlan &plan, const UnitCost &unit) const {
  cost::Group group = dataGroup(plan);
  if (plan.zero < 2 || group.size <= 1)
    return 0;
  double bytes = types.parameter * unit.parameters;
  double seconds = machine.seconds(cost::Collective::AllGather, bytes, group);
  if (shardedBandwidth > 0 && plan.ranks() > machine.machine().levels.front().units)
    seconds = std::max(seconds, cost::CostModel::bytesMoved(cost::Collective::AllGather, bytes, group.size) /
                                    shardedBandwidth);
  return seconds;
}

std::vector<StageCosts::Stage> StageCosts::stages(const TrainingPlan &plan, const Cell &cell,
                                                  const std::vector<int> &parts) const {
  std::vector<Stage> stages(plan.pipeline);
  std::size_t unit = 0;
  for (std::size_t c = 0; c < parts.size(); ++c) {
    Stage &stage = stages[plan.stageOf(static_cast<int>(c))];
    for (int i = 0; i < parts[c]; ++i, ++unit) {
      const UnitCost &cost = cell.kinds[graph.units[unit]];
      stage.parameters += cost.parameters;
      stage.largest = std::max(stage.largest, cost.parameters);
      for (auto [number, held] : cost.shared) {
        auto [known, isNew] = stage.shared.try_emplace(number, held);
        if (!isNew) // one copy a stage
          stage.parameters -= held;
        else
          known->second = held;
      }
      stage.reduction += cost.stepReduction;
      stage.reductionBytes += cost.stepReductionBytes;
      stage.transient = std::max(stage.transient, cost.transientBytes);
    }
  }
  return stages;
}

StageMemory StageCosts::state(const TrainingPlan &plan, const Stage &stage) const {
  double ranks = plan.data * plan.context;
  StageMemory memory;
  memory.parameters = stage.parameters * types.parameter / (plan.zero >= 3 ? ranks : 1);
  memory.gradients = stage.parameters * types.gradient / (plan.zero >= 2 ? ranks : 1);
  memory.optimizer = stage.parameters * types.optimizer / (plan.zero >= 1 ? ranks : 1);
  if (ranks <= 1)
    ;                      // nothing is gathered or scattered
  else if (plan.zero >= 3) // two units whole at a time, and their gradients before they are scattered
    memory.parameters += 2 * stage.largest * (types.parameter + types.reduced);
  else if (plan.zero == 2)
    memory.gradients += 2 * stage.largest * types.reduced;
  memory.transient = stage.transient;
  return memory;
}

cost::PipelineProblem StageCosts::problem(const TrainingPlan &plan, const Cell &cell,
                                          const std::vector<int> &parts) const {
  cost::PipelineProblem problem;
  problem.schedule = plan.schedule;
  problem.stages = plan.pipeline;
  problem.chunks = plan.chunks;
  problem.microbatches = plan.microbatches();
  std::vector<Passes> passes; // by kind
  for (const UnitCost &cost : cell.kinds)
    passes.emplace_back(cost, gatherSeconds(plan, cost), plan.zero, contention);
  std::size_t unit = 0;
  std::vector<double> handed; // bytes, by chunk
  for (int size : parts) {
    cost::ChunkWork work;
    for (int i = 0; i < size; ++i, ++unit) {
      const UnitCost &cost = cell.kinds[graph.units[unit]];
      const Passes &pass = passes[graph.units[unit]];
      work.forward += pass.forward;
      work.backward += pass.backward;
      work.weightGradient += pass.weights;
      work.activationBytes += cost.savedBytes;
      work.weightGradientBytes += cost.weightSavedBytes;
    }
    handed.push_back(cell.kinds[graph.units[unit - 1]].outputBytes);
    problem.work.push_back(work);
  }
  if (plan.pipeline > 1)
    fillHops(plan, handed, problem);
  return problem;
}

/// Each hop as the stages lie, inside a node or across; where chunks hand on different amounts, the largest.
void StageCosts::fillHops(const TrainingPlan &plan, const std::vector<double> &handed,
                          cost::PipelineProblem &problem) const {
  problem.transferBlocks = !cost::splitsBackward(plan.schedule);
  // A device that waits for a transfer waits for its launch as well.
  double launch = problem.transferBlocks ? machine.machine().device.launchSeconds : 0;
  std::vector<double> bytes(plan.pipeline, 0);
  for (std::size_t c = 0; c + 1 < handed.size(); ++c) {
    int from = plan.stageOf(static_cast<int>(c)), to = plan.stageOf(static_cast<int>(c) + 1);
    if (from == to)
      continue;
    int low = std::min(from, to), high = std::max(from, to);
    double &most = bytes[high - low == 1 ? low : high]; // the last stage's hop leads back to the first
    most = std::max(most, handed[c]);
  }
  problem.hopSeconds.reserve(plan.pipeline);
  for (int s = 0; s < plan.pipeline; ++s)
    problem.hopSeconds.push_back(
        bytes[s] > 0 ? cost::hopSeconds(machine, bytes[s], s, plan.pipeline, plan.ranks()) + launch : 0);
}

/// Collectives inside the passes of `units` (kinds), which nothing hides, and what ZeRO moves beside them.
void StageCosts::tellUnits(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &units,
                           int microbatches, std::vector<Communication> &told) const {
  for (int kind : units) {
    const UnitCost &unit = cell.kinds[kind];
    for (const auto &[name, bytes] : unit.bytesByCollective) {
      auto at = unit.secondsByCollective.find(name);
      double seconds = (at == unit.secondsByCollective.end() ? 0 : at->second) * microbatches;
      tell(told, name + " inside units, tensor and context ranks", bytes * microbatches, seconds, seconds);
    }
    double once = gatherSeconds(plan, unit);
    if (once <= 0)
      continue;
    double bytes = microbatches * cost::CostModel::bytesMoved(cost::Collective::AllGather,
                                                              types.parameter * unit.parameters,
                                                              plan.data * plan.context);
    double seconds = microbatches * once;
    Passes passes(unit, once, plan.zero, contention);
    double backward = microbatches * passes.exposedBackward;
    if (plan.zero >= 3)
      tell(told, kGather, 2 * bytes, 2 * seconds, microbatches * passes.exposedForward + backward / 2);
    tell(told, kScatter, bytes, seconds, plan.zero >= 3 ? backward / 2 : backward);
  }
}

double StageCosts::reduction(const TrainingPlan &plan, const std::vector<Stage> &stages, int stage,
                             double beside, std::vector<Communication> *told) const {
  const Stage &own = stages[stage];
  double seconds = 0;
  cost::Group group = dataGroup(plan);
  if (plan.zero < 3 && plan.data > 1) {
    // Reduce-scatter and, after the update, all-gather of parameters move as much as an all-reduce. With zero
    // 2 the gradients have been scattered already.
    group.size = plan.data;
    group.stride = plan.tensorSize() * plan.context;
    seconds = machine.seconds(plan.zero == 2 ? cost::Collective::AllGather : cost::Collective::AllReduce,
                              types.reduced * own.parameters, group);
  }
  double data = seconds;
  seconds += own.reduction;
  double all = seconds;
  if (plan.overlapGradients)
    seconds = std::min(seconds, std::max(seconds - beside, seconds * exposed));
  if (told && all > 0) {
    double part = seconds / all, bytes = types.reduced * own.parameters;
    if (data > 0 && plan.zero == 0)
      tell(*told, kAllReduce, cost::CostModel::bytesMoved(cost::Collective::AllReduce, bytes, plan.data),
           data, data * part);
    if (data > 0 && plan.zero == 1) // as much as an all-reduce, one half before the update and one after
      for (const char *name : {kScatter, kGather})
        tell(*told, name, cost::CostModel::bytesMoved(cost::Collective::AllReduce, bytes, plan.data) / 2,
             data / 2, data / 2 * part);
    if (data > 0 && plan.zero == 2)
      tell(*told, kGather, cost::CostModel::bytesMoved(cost::Collective::AllGather, bytes, plan.data), data,
           data * part);
    if (own.reduction > 0)
      tell(*told, "all-reduce of gradients, tensor and context ranks", own.reductionBytes, own.reduction,
           own.reduction * part);
  }
  if (plan.zero >= 2) { // nothing is there to hide the step's first gather and its last scatter
    UnitCost bucket;
    bucket.parameters = own.largest;
    double once = gatherSeconds(plan, bucket);
    seconds += (plan.zero >= 3 ? 2 : 1) * once;
    if (told && once > 0) { // their volume and time are told with the units'
      tell(*told, kScatter, 0, 0, once);
      if (plan.zero >= 3)
        tell(*told, kGather, 0, 0, once);
    }
  }
  for (auto [number, held] : own.shared) {
    bool elsewhere = false;
    for (std::size_t s = 0; s < stages.size(); ++s)
      elsewhere |= static_cast<int>(s) != stage && stages[s].shared.count(number);
    if (!elsewhere)
      continue;
    double once = machine.seconds(cost::Collective::AllReduce, types.reduced * held,
                                  {2, plan.ranks() / plan.pipeline * (plan.pipeline - 1), plan.ranks()});
    seconds += once;
    if (told)
      tell(*told, "all-reduce of gradients that stages share",
           cost::CostModel::bytesMoved(cost::Collective::AllReduce, types.reduced * held, 2), once, once);
  }
  return seconds;
}

double StageCosts::update(const TrainingPlan &plan, const Stage &stage) const {
  double count = stage.parameters / (plan.zero >= 1 ? plan.data * plan.context : 1);
  return operations.seconds(cost::streaming(count * optimizerTraffic(types), 20));
}

} // namespace colossal::planner
