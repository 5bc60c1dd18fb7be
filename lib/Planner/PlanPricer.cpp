// A plan's step.
#include "colossal/Planner/PlanPricer.h"

#include "ChunkBalance.h"
#include "colossal/Cost/Training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <tuple>

namespace colossal::planner {

namespace {

/// Bytes that an optimizer moves for one parameter. Adam in mixed precision: the gradient unscaled to f32 (2
/// + 4), state (16 read, 12 written), the new 16-bit copy (2); in f32: 16 read, 12 written.
double optimizerTraffic(const TrainingTypes &types) {
  return types.parameter < 4 ? 36 : 28;
}

} // namespace

struct PlanPricer::Parts {
  Parts(const TrainingGraph &graph, const cost::CostModel &machine, const TrainingTask &task)
      : graph(graph), machine(machine), task(task), types(*trainingTypes(task.precision)),
        blocks(graph, machine, types), operations(machine, machine.machine().device.launchSeconds),
        contention(machine.machine().fitted["overlap_contention"]),
        exposed(machine.machine().fitted["exposed_gradient"]),
        shardedBandwidth(machine.machine().fitted["sharded_parameter_bandwidth"]) {
    limit = task.memoryBytes > 0
                ? task.memoryBytes
                : machine.machine().device.memoryBytes - machine.machine().fitted["reserved_bytes"];
    const std::vector<cost::Level> &levels = machine.machine().levels;
    std::int64_t inside = 1;
    for (std::size_t k = 0; k + 1 < levels.size(); ++k)
      inside *= levels[k].units;
    if (levels.size() > 1 && levels.back().links.empty() && levels.back().sharedBandwidth <= 0)
      mostActive = static_cast<int>(std::min<std::int64_t>(inside, mostActive));
  }

  const TrainingGraph &graph;
  const cost::CostModel &machine;
  TrainingTask task;
  TrainingTypes types;
  BlockPlanner blocks;
  cost::OperationCost operations;
  /// Fitted constants that every plan asks for.
  double contention, exposed, shardedBandwidth;
  double limit; ///< bytes
  int mostActive = std::numeric_limits<int>::max();
  std::map<std::string, Cell> cells;
  std::mutex mutex; ///< of the maps
  std::map<std::pair<const Cell *, int>, std::vector<int>> balanced;
  /// Simulations without what ZeRO 2 and 3 move: plans that differ in where state lies share them.
  using Simulated = std::tuple<const Cell *, std::vector<int>, cost::Schedule, int, int>;
  std::map<Simulated, cost::PipelineResult> simulations;
  cost::PipelineResult simulate(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &parts,
                                const cost::PipelineProblem &problem, bool withTimeline) {
    if (withTimeline || plan.zero >= 2)
      return cost::simulate(problem, withTimeline);
    Simulated key{&cell, parts, plan.schedule, plan.pipeline, problem.microbatches};
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (auto at = simulations.find(key); at != simulations.end())
        return at->second;
    }
    cost::PipelineResult result = cost::simulate(problem, false);
    std::lock_guard<std::mutex> lock(mutex);
    return simulations.emplace(std::move(key), std::move(result)).first->second;
  }

  /// The axes that layouts are found for. Beyond the devices of one unit of the outermost level, how many
  /// devices are active makes no difference: a group's neighbours there have adapters of their own.
  std::vector<TensorAxis> axes(const TrainingPlan &plan) const {
    std::vector<TensorAxis> axes = tensorAxes(plan);
    for (TensorAxis &axis : axes)
      axis.group.active = std::min(axis.group.active, mostActive);
    return axes;
  }

  using Stage = PlanEstimate::Stage;
  std::vector<Stage> stages(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &parts) const;
  cost::PipelineProblem problem(const TrainingPlan &plan, const Cell &cell,
                                const std::vector<int> &parts) const;
  void fillHops(const TrainingPlan &plan, const std::vector<double> &handed,
                cost::PipelineProblem &problem) const;
  StageMemory state(const TrainingPlan &plan, const Stage &stage) const;
  cost::Group dataGroup(const TrainingPlan &plan) const {
    return {plan.data * plan.context, plan.tensorSize(), plan.ranks()};
  }
  double gather(const TrainingPlan &plan, const UnitCost &unit) const;
  double reduction(const TrainingPlan &plan, const std::vector<Stage> &stages, int stage, double beside,
                   std::vector<Communication> *told = nullptr) const;
  void tellUnits(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &units, int microbatches,
                 std::vector<Communication> &told) const;
  double update(const TrainingPlan &plan, const Stage &stage) const;
};

PlanPricer::PlanPricer(const TrainingGraph &graph, const cost::CostModel &machine, const TrainingTask &task)
    : p(std::make_unique<Parts>(graph, machine, task)) {}
PlanPricer::~PlanPricer() = default;
BlockPlanner &PlanPricer::blocks() {
  return p->blocks;
}
const cost::CostModel &PlanPricer::machine() const {
  return p->machine;
}
const TrainingGraph &PlanPricer::graph() const {
  return p->graph;
}
const TrainingTypes &PlanPricer::types() const {
  return p->types;
}

double PlanPricer::limitBytes() const {
  return p->limit;
}

int PlanPricer::activeRanks(int ranks) const {
  return std::min(ranks, p->mostActive);
}

double PlanPricer::straggler(int ranks) const {
  double nodes = static_cast<double>(ranks) / p->machine.machine().levels.front().units;
  return 1 + p->machine.machine().fitted["straggler"] * std::log2(std::max(1.0, nodes));
}

//===- Cells ---===//

/// All that a cell depends on.
static std::string cellKey(const TrainingPlan &plan, const std::vector<TensorAxis> &axes, int lean) {
  std::string key;
  auto add = [&](double number) { key.append(reinterpret_cast<const char *>(&number), sizeof number); };
  add(static_cast<double>(axes.size()));
  for (const TensorAxis &axis : axes)
    for (int number : {axis.size, axis.group.stride, axis.group.active, static_cast<int>(axis.isContext)})
      add(number);
  for (double number : {static_cast<double>(lean), plan.microbatch, static_cast<double>(plan.recompute),
                        static_cast<double>(plan.fusedAttention)})
    add(number);
  for (const auto &place : plan.boundary)
    for (double number :
         {place ? static_cast<double>(place->dim) : -1, place ? place->size : 0, place ? place->inner : 0})
      add(number);
  for (const auto &[kind, operations] : plan.layouts)
    for (const auto &[name, line] : operations)
      key += kind + '|' + name + '|' + line + '\n';
  return key;
}

const Cell &PlanPricer::cell(const TrainingPlan &plan) {
  std::vector<TensorAxis> axes = p->axes(plan);
  const Cell *leaner = nullptr; // the cell that weighs state less: often it has the same layouts
  auto [at, isNew] = [&] {
    std::lock_guard<std::mutex> lock(p->mutex);
    if (plan.lean > 0)
      if (auto before = p->cells.find(cellKey(plan, axes, plan.lean - 1)); before != p->cells.end())
        leaner = &before->second;
    return p->cells.try_emplace(cellKey(plan, axes, plan.lean));
  }();
  Cell &cell = at->second;
  if (!isNew)
    return cell;
  for (std::size_t k = 0; k < p->graph.kinds.size(); ++k) {
    UnitQuery query;
    query.kind = static_cast<int>(k);
    query.axes = axes;
    query.microbatch = plan.microbatch;
    query.recompute = plan.recompute;
    query.fusedAttention = plan.fusedAttention;
    query.boundary = plan.boundary;
    query.microbatches = 16; // reductions of small gradients once a step: the layout should not depend on the
                             // mesh's other axes
    std::string where = "layouts." + p->graph.kinds[k].name + ": ";
    auto given = plan.layouts.find(p->graph.kinds[k].name);
    std::optional<UnitLayout> layout;
    if (given == plan.layouts.end()) {
      UnitQuery asked = query;
      if (query.axes.size() > 1 || plan.lean > 0) { // the choice hardly depends on these
        asked.microbatch = 1;
        asked.recompute = Recompute::None;
      }
      double state =
          p->graph.kinds[k].parameters() * (p->types.parameter + p->types.gradient + p->types.optimizer);
      if (plan.lean > 0 && state > 0)
        asked.parameterPrice =
            (plan.lean > 1 ? 100 : 1) * p->blocks.leastDeviceSeconds(query.kind) * asked.microbatch / state;
      layout = p->blocks.solve(asked);
      if (!layout)
        cell.error =
            "boundary: no layout of unit '" + p->graph.kinds[k].name + "' meets " + toString(plan.boundary);
    } else {
      layout = p->blocks.parse(query, given->second, cell.error);
      if (!cell.error.empty())
        cell.error = where + cell.error;
    }
    UnitCost cost;
    if (layout && cell.error.empty()) {
      bool isKnown = leaner && k < leaner->layouts.size() && leaner->layouts[k] == *layout;
      cost = isKnown ? leaner->kinds[k] : p->blocks.price(query, *layout, cell.error);
      if (!cell.error.empty())
        cell.error = where + cell.error;
    }
    if (!cell.error.empty())
      return cell;
    cell.kinds.push_back(std::move(cost));
    cell.layouts.push_back(std::move(*layout));
  }
  std::set<int> shared; // one copy counts, wherever it lies
  for (int unit : p->graph.units) {
    const UnitCost &cost = cell.kinds[unit];
    double seconds = cost.forward + cost.backward + cost.weightGradient;
    cell.seconds += seconds;
    cell.largest = std::max(cell.largest, seconds);
    cell.parameters += cost.parameters;
    cell.saved += cost.savedBytes;
    for (auto [number, held] : cost.shared)
      if (!shared.insert(number).second)
        cell.parameters -= held;
  }
  return cell;
}

//===- Stages ---===//

double PlanPricer::Parts::gather(const TrainingPlan &plan, const UnitCost &unit) const {
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

std::vector<int> PlanPricer::balance(const TrainingPlan &plan, const Cell &cell) const {
  int count = static_cast<int>(p->graph.units.size()), parts = plan.pipeline * plan.chunks;
  std::vector<double> prefix(count + 1, 0);
  for (int u = 0; u < count; ++u) {
    const UnitCost &unit = cell.kinds[p->graph.units[u]];
    prefix[u + 1] = prefix[u] + unit.forward + unit.backward + unit.weightGradient;
  }
  if (parts == 1)
    return {count};
  {
    std::lock_guard<std::mutex> lock(p->mutex);
    if (auto at = p->balanced.find({&cell, parts}); at != p->balanced.end())
      return at->second;
  }
  std::vector<int> sizes = balanceChunks(prefix, parts);
  std::lock_guard<std::mutex> lock(p->mutex);
  return p->balanced.emplace(std::pair{&cell, parts}, std::move(sizes)).first->second;
}

std::vector<PlanPricer::Parts::Stage> PlanPricer::Parts::stages(const TrainingPlan &plan, const Cell &cell,
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

StageMemory PlanPricer::Parts::state(const TrainingPlan &plan, const Stage &stage) const {
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

cost::PipelineProblem PlanPricer::Parts::problem(const TrainingPlan &plan, const Cell &cell,
                                                 const std::vector<int> &parts) const {
  cost::PipelineProblem problem;
  problem.schedule = plan.schedule;
  problem.stages = plan.pipeline;
  problem.chunks = plan.chunks;
  problem.microbatches = plan.microbatches();
  std::vector<Passes> passes; // by kind
  for (const UnitCost &cost : cell.kinds)
    passes.emplace_back(cost, gather(plan, cost), plan.zero, contention);
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
void PlanPricer::Parts::fillHops(const TrainingPlan &plan, const std::vector<double> &handed,
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

/// Adds to the entry of that name.
static void tell(std::vector<Communication> &told, const std::string &name, double bytes, double seconds,
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

/// Collectives inside the passes of `units` (kinds), which nothing hides, and what ZeRO moves beside them.
void PlanPricer::Parts::tellUnits(const TrainingPlan &plan, const Cell &cell, const std::vector<int> &units,
                                  int microbatches, std::vector<Communication> &told) const {
  for (int kind : units) {
    const UnitCost &unit = cell.kinds[kind];
    for (const auto &[name, bytes] : unit.bytesByCollective) {
      auto at = unit.secondsByCollective.find(name);
      double seconds = (at == unit.secondsByCollective.end() ? 0 : at->second) * microbatches;
      tell(told, name + " inside units, tensor and context ranks", bytes * microbatches, seconds, seconds);
    }
    double once = gather(plan, unit);
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

double PlanPricer::Parts::reduction(const TrainingPlan &plan, const std::vector<Stage> &stages, int stage,
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
    double once = gather(plan, bucket);
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

double PlanPricer::Parts::update(const TrainingPlan &plan, const Stage &stage) const {
  double count = stage.parameters / (plan.zero >= 1 ? plan.data * plan.context : 1);
  return operations.seconds(cost::streaming(count * optimizerTraffic(types), 20));
}

//===- The step ---===//

PlanEstimate PlanPricer::estimate(const TrainingPlan &plan, const Cell &cell) const {
  PlanEstimate estimate;
  cost::PipelineProblem problem = p->problem(plan, cell, plan.parts);
  estimate.stages = p->stages(plan, cell, plan.parts);
  bool splits = cost::splitsBackward(plan.schedule);
  std::vector<double> work(plan.pipeline, 0), before(plan.pipeline, 0), after(plan.pipeline, 0);
  for (std::size_t c = 0; c < problem.work.size(); ++c) {
    const cost::ChunkWork &chunk = problem.work[c];
    int stage = plan.stageOf(static_cast<int>(c));
    work[stage] += chunk.forward + chunk.backward + chunk.weightGradient;
    before[stage] += chunk.forward + chunk.backward + (splits ? 0 : chunk.weightGradient);
    after[stage] += chunk.backward + chunk.weightGradient;
  }
  // What a stage does after its last backward pass does not depend on the schedule.
  double beside = 0;
  for (int s = 0; s < plan.pipeline; ++s) {
    bool isLikeLast = s > 0 && after[s] == beside && estimate.stages[s] == estimate.stages[s - 1];
    beside = after[s];
    after[s] = isLikeLast
                   ? after[s - 1]
                   : p->reduction(plan, estimate.stages, s, beside) + p->update(plan, estimate.stages[s]);
  }
  // While a stage sends it does nothing else. Its last send, back to the stage before, may be after its end.
  if (problem.transferBlocks && plan.pipeline > 1)
    for (int s = 0; s < plan.pipeline; ++s) {
      double back = s > 0 ? problem.hopSeconds[s - 1] : 0,
             on = s + 1 < plan.pipeline ? problem.hopSeconds[s] : 0;
      double sends = problem.microbatches * (back + on) - back;
      work[s] += sends / problem.microbatches;
      before[s] += sends / problem.microbatches;
    }
  // A stage waits for the first microbatch to come through the stages before it and does all its work; its
  // last gradient goes back through them to the first. Gradients of weights that are apart may come after
  // that.
  double there = 0, way = 0;
  for (int s = 0; s < plan.pipeline; ++s) {
    estimate.bound = std::max({estimate.bound, there + problem.microbatches * work[s] + after[s],
                               way + problem.microbatches * before[s] + after[0]});
    const cost::ChunkWork &first = problem.work[s];
    double hop = plan.pipeline > 1 ? problem.hopSeconds[s] : 0;
    there += first.forward + hop;
    way += first.forward + first.backward + (splits ? 0 : first.weightGradient) + 2 * hop;
  }
  estimate.bound *= straggler(plan.ranks());
  for (const cost::ChunkWork &chunk : problem.work)
    estimate.saved.push_back(chunk.activationBytes);
  return estimate;
}

double PlanPricer::leastBytes(const TrainingPlan &plan, const Cell &cell) const {
  Parts::Stage stage;
  stage.parameters = cell.parameters;
  return (p->state(plan, stage).total() + cell.saved) / plan.pipeline;
}

double PlanPricer::leastBytes(const TrainingPlan &plan, const PlanEstimate &estimate) const {
  double most = 0;
  int microbatches = plan.microbatches();
  for (int s = 0; s < plan.pipeline; ++s) {
    // What a stage has taken in when its first gradient arrives.
    double saved = 0;
    if (plan.schedule == cost::Schedule::Interleaved) {
      int warmup = microbatches > plan.pipeline
                       ? 2 * (plan.pipeline - s - 1) + (plan.chunks - 1) * plan.pipeline + 1
                       : microbatches * plan.chunks;
      warmup = std::min(warmup, microbatches * plan.chunks);
      for (int k = 0; k < warmup; ++k)
        saved +=
            estimate.saved[static_cast<std::size_t>(k / plan.pipeline % plan.chunks) * plan.pipeline + s];
    } else if (plan.schedule == cost::Schedule::GPipe) {
      saved = microbatches * estimate.saved[s];
    } else {
      saved = std::min(microbatches, plan.pipeline - s) * estimate.saved[s];
    }
    most = std::max(most, p->state(plan, estimate.stages[s]).total() + saved);
  }
  return most;
}

/// The units of each chunk, in the model's order.
static std::vector<std::vector<const UnitCost *>>
unitsByChunk(const std::vector<int> &units, const Cell &cell, const std::vector<int> &parts) {
  std::vector<std::vector<const UnitCost *>> chunks;
  std::size_t unit = 0;
  for (int size : parts) {
    chunks.emplace_back();
    for (int i = 0; i < size; ++i, ++unit)
      chunks.back().push_back(&cell.kinds[units[unit]]);
  }
  return chunks;
}

/// What a rank of the stage that ends last hands on, and how much longer the pipeline takes for it.
static Communication sends(const TrainingPlan &plan, const PlanPrice &price, cost::PipelineProblem problem,
                           const std::vector<std::vector<const UnitCost *>> &chunks) {
  Communication told{"send between stages", 0, 0, 0};
  int last = plan.pipeline - 1, stage = price.lastStage;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (plan.stageOf(static_cast<int>(c)) != stage)
      continue;
    // Activations on, their gradients back.
    for (int to : {static_cast<int>(c) + 1, static_cast<int>(c) - 1}) {
      bool isOn = to > static_cast<int>(c);
      if (to < 0 || to >= static_cast<int>(chunks.size()) || plan.stageOf(to) == stage)
        continue;
      const UnitCost *unit = chunks[isOn ? c : to].back();
      int low = std::min(stage, plan.stageOf(to)), high = std::max(stage, plan.stageOf(to));
      told.bytes += unit->outputBytes * problem.microbatches;
      told.seconds += problem.hopSeconds[high - low == 1 ? low : last] * problem.microbatches;
    }
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
    if (event.pass == cost::PipelineEvent::Backward)
      all.push_back({event.start, held + transient});
    for (std::size_t i = 0; i < units.size(); ++i) {
      const UnitCost &unit = *units[isForward ? i : units.size() - 1 - i];
      double at = event.start + (event.end - event.start) * static_cast<double>(i + 1) / units.size();
      if (isForward)
        held += unit.savedBytes;
      else if (event.pass == cost::PipelineEvent::Backward)
        held -= split ? unit.savedBytes - unit.weightSavedBytes : unit.savedBytes;
      else
        held -= unit.weightSavedBytes;
      bool isLast = i + 1 == units.size();
      all.push_back({at, held + (event.pass == cost::PipelineEvent::Backward && !isLast ? transient : 0)});
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

PlanPrice PlanPricer::price(const TrainingPlan &plan, bool detailed) {
  PlanPrice price;
  price.error = validate(plan, p->graph);
  if (!price.error.empty())
    return price;
  const Cell &cell = this->cell(plan);
  price.error = cell.error;
  if (!price.error.empty())
    return price;
  price.parts = plan.parts.empty() ? balance(plan, cell) : plan.parts;
  cost::PipelineProblem problem = p->problem(plan, cell, price.parts);
  cost::PipelineResult schedule = p->simulate(plan, cell, price.parts, problem, detailed);
  price.error = schedule.error;
  if (!price.error.empty())
    return price;
  std::vector<Parts::Stage> stages = p->stages(plan, cell, price.parts);
  price.pipeline = schedule.seconds;
  price.bubble = schedule.bubble;
  price.limitBytes = limitBytes();
  for (int s = 0; s < plan.pipeline; ++s) {
    double lastBackward = 0;
    for (std::size_t c = 0; c < problem.work.size(); ++c)
      if (plan.stageOf(static_cast<int>(c)) == s)
        lastBackward += problem.work[c].backward + problem.work[c].weightGradient;
    double reduction = p->reduction(plan, stages, s, lastBackward), update = p->update(plan, stages[s]);
    double end = schedule.stageEnd[s] + reduction + update;
    if (end > price.seconds) {
      price.seconds = end;
      price.lastStage = s;
      price.reduction = reduction;
      price.optimizer = update;
    }
    StageMemory memory = p->state(plan, stages[s]);
    memory.activations = schedule.peakBytes[s];
    if (memory.total() > price.peakBytes) {
      price.peakBytes = memory.total();
      price.curveStage = s;
    }
    price.memory.push_back(memory);
  }
  price.straggler = straggler(plan.ranks());
  price.seconds *= price.straggler;
  price.flops = p->graph.stepFlops(plan.task.globalBatch);
  if (detailed) {
    StageMemory state = price.memory[price.curveStage];
    std::vector<std::vector<const UnitCost *>> chunks = unitsByChunk(p->graph.units, cell, price.parts);
    double kept = state.total() - state.activations - state.transient;
    price.curve = memoryCurve(problem, schedule, chunks, price.curveStage, kept, state.transient,
                              price.seconds / price.straggler);
    std::vector<int> units; // of the stage that ends last
    for (std::size_t c = 0, unit = 0; c < price.parts.size(); unit += price.parts[c], ++c)
      if (plan.stageOf(static_cast<int>(c)) == price.lastStage)
        units.insert(units.end(), p->graph.units.begin() + unit,
                     p->graph.units.begin() + unit + price.parts[c]);
    double beside = 0;
    for (std::size_t c = 0; c < problem.work.size(); ++c)
      if (plan.stageOf(static_cast<int>(c)) == price.lastStage)
        beside += problem.work[c].backward + problem.work[c].weightGradient;
    p->tellUnits(plan, cell, units, problem.microbatches, price.communication);
    p->reduction(plan, stages, price.lastStage, beside, &price.communication);
    if (plan.pipeline > 1)
      price.communication.push_back(sends(plan, price, problem, chunks));
    std::size_t unit = 0;
    std::vector<double> collective(plan.pipeline, 0);
    for (std::size_t c = 0; c < price.parts.size(); ++c)
      for (int i = 0; i < price.parts[c]; ++i, ++unit) {
        const UnitCost &cost = cell.kinds[p->graph.units[unit]];
        int stage = plan.stageOf(static_cast<int>(c));
        collective[stage] += cost.collective * problem.microbatches;
        if (stage == 0)
          for (const auto &[name, bytes] : cost.bytesByCollective)
            price.bytesByCollective[name + " (tensor)"] += bytes * problem.microbatches;
      }
    price.collective = *std::max_element(collective.begin(), collective.end());
    if (plan.data * plan.context > 1) {
      double bytes = p->types.reduced * stages[0].parameters;
      int ranks = plan.data * plan.context;
      if (plan.zero == 2) {
        price.bytesByCollective["reduce-scatter (data)"] =
            problem.microbatches * cost::CostModel::bytesMoved(cost::Collective::ReduceScatter, bytes, ranks);
        price.bytesByCollective["all-gather (data)"] =
            cost::CostModel::bytesMoved(cost::Collective::AllGather, bytes, ranks);
      } else if (plan.zero < 2)
        price.bytesByCollective["all-reduce (data)"] =
            cost::CostModel::bytesMoved(cost::Collective::AllReduce, bytes, plan.data);
      else
        price.bytesByCollective["all-gather, reduce-scatter (data)"] =
            3 * problem.microbatches * cost::CostModel::bytesMoved(cost::Collective::AllGather, bytes, ranks);
    }
    if (plan.pipeline > 1)
      price.bytesByCollective["send (pipeline)"] =
          cell.kinds[p->graph.units[price.parts[0] - 1]].outputBytes * problem.microbatches * plan.chunks;
  }
  return price;
}

} // namespace colossal::planner
