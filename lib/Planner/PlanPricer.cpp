// A plan's step.
#include "colossal/Planner/PlanPricer.h"

#include "ChunkBalance.h"
#include "PriceDetails.h"
#include "RemadeUnits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <tuple>

namespace colossal::planner {

/// A step that is compiled keeps trained parameters in f32, with a narrow copy for products beside them, and
/// sums gradients and gathers parameters so.
static TrainingTypes typesOf(const TrainingTask &task) {
  TrainingTypes types = *trainingTypes(task.precision, task.optimizer);
  constexpr double kWide = 4;
  if (task.scoresInMemory && types.parameter < kWide) {
    types.narrow = types.parameter;
    types.parameter = kWide;
    types.optimizer -= kWide; // the master copy
    types.reduced = types.gathered = kWide;
  }
  return types;
}

struct PlanPricer::Parts {
  Parts(const FactorGraph &graph, const cost::CostModel &machine, const TrainingTask &task)
      : graph(graph), machine(machine), task(task), types(typesOf(task)),
        pricing(cost::makePricing(machine.machine(), task.devices)), blocks(graph, *pricing, types),
        costs(graph, machine, types) {
    limit = task.memoryBytes > 0 ? task.memoryBytes
                                 : static_cast<double>(machine.machine().memoryOfRank(task.devices)) -
                                       machine.machine().fitted["reserved_bytes"];
    const std::vector<cost::Level> &levels = machine.machine().levels;
    std::int64_t inside = 1;
    for (std::size_t k = 0; k + 1 < levels.size(); ++k)
      inside *= levels[k].units;
    if (levels.size() > 1 && levels.back().links.empty() && levels.back().sharedBandwidth <= 0)
      mostActive = static_cast<int>(std::min<std::int64_t>(inside, mostActive));
  }

  const FactorGraph &graph;
  const cost::CostModel &machine;
  TrainingTask task;
  TrainingTypes types;
  std::shared_ptr<const cost::Pricing> pricing;
  BlockPlanner blocks;
  StageCosts costs;
  double limit; ///< bytes
  int mostActive = std::numeric_limits<int>::max();
  std::map<std::string, Cell> cells;
  std::map<std::pair<Recompute, KeptOperations>, RemadeUnits> remade;
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

  /// What a compiled step keeps of units under recompute; null where it keeps all, and where a plan is not
  /// for one and does not say it of each value.
  const RemadeUnits *remadeUnits(const TrainingPlan &plan) {
    if (plan.recompute == Recompute::None ||
        (!plan.task.scoresInMemory && plan.recompute != Recompute::ByValue))
      return nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    auto [at, isNew] = remade.try_emplace({plan.recompute, plan.kept ? *plan.kept : KeptOperations()});
    if (isNew)
      at->second = findRemadeUnits(graph, plan.recompute, plan.kept.get(), types.activation);
    return &at->second;
  }

  /// The axes that layouts are found for. Beyond the devices of one unit of the outermost level, how many
  /// devices are active makes no difference: a group's neighbours there have adapters of their own.
  std::vector<TensorAxis> axes(const TrainingPlan &plan) const {
    std::vector<TensorAxis> axes = tensorAxes(plan);
    for (TensorAxis &axis : axes)
      axis.group.active = std::min(axis.group.active, mostActive);
    return axes;
  }
};

PlanPricer::PlanPricer(const FactorGraph &graph, const cost::CostModel &machine, const TrainingTask &task)
    : p(std::make_unique<Parts>(graph, machine, task)) {}
PlanPricer::~PlanPricer() = default;
BlockPlanner &PlanPricer::blocks() {
  return p->blocks;
}
const cost::CostModel &PlanPricer::machine() const {
  return p->machine;
}
const FactorGraph &PlanPricer::graph() const {
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
  return p->costs.step.straggler(ranks);
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
  for (double number :
       {static_cast<double>(lean), plan.microbatch, static_cast<double>(plan.recompute),
        static_cast<double>(plan.fusedAttention), static_cast<double>(plan.task.scoresInMemory)})
    add(number);
  for (const auto &place : plan.boundary)
    for (double number :
         {place ? static_cast<double>(place->dim) : -1, place ? place->size : 0, place ? place->inner : 0})
      add(number);
  if (plan.kept)
    for (const std::vector<bool> &operations : *plan.kept)
      for (bool isKept : operations)
        key += isKept ? '1' : '0';
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
  const RemadeUnits *remade = p->remadeUnits(plan);
  cell.units = remade ? remade->units : p->graph.units;
  std::vector<UnitQuery> queries(p->graph.kinds.size());
  std::vector<std::optional<UnitLayout>> layouts(queries.size());
  std::map<int, Boundary> shared;                  // where parameters lie that several units have
  for (std::size_t k = queries.size(); k-- > 0;) { // the last, mostly a head, has most to do with its table
    UnitQuery &query = queries[k];
    query.kind = static_cast<int>(k);
    query.axes = axes;
    query.microbatch = plan.microbatch;
    query.recompute = plan.recompute;
    query.fusedAttention = plan.fusedAttention;
    query.scoresInMemory = plan.task.scoresInMemory;
    query.copiedBytes = plan.task.copiedBytes;
    query.convolutionBytes = plan.task.convolutionBytes;
    query.boundary = plan.boundary;
    query.microbatches = 16; // reductions of small gradients once a step: the layout should not depend on the
                             // mesh's other axes
    auto given = plan.layouts.find(p->graph.kinds[k].name);
    std::optional<UnitLayout> &layout = layouts[k];
    if (given == plan.layouts.end()) {
      UnitQuery asked = query;
      if (query.axes.size() > 1 || plan.lean > 0) { // the choice hardly depends on these
        asked.microbatch = 1;
        asked.recompute = Recompute::None;
      }
      if (asked.recompute == Recompute::ByValue)
        asked.recompute = Recompute::None;
      double state = p->graph.kinds[k].parameters() *
                         (p->types.parameter + p->types.narrow + p->types.gradient + p->types.optimizer) +
                     p->graph.kinds[k].frozen() * p->types.frozen();
      if (plan.lean > 0 && state > 0)
        asked.parameterPrice =
            (plan.lean > 1 ? 100 : 1) * p->blocks.leastDeviceSeconds(query.kind) * asked.microbatch / state;
      asked.shared = shared;
      layout = p->blocks.solve(asked);
      if (!layout)
        cell.error =
            "boundary: no layout of unit '" + p->graph.kinds[k].name + "' meets " + toString(plan.boundary);
    } else {
      layout = p->blocks.parse(query, given->second, cell.error);
      if (!cell.error.empty())
        cell.error = "layouts." + p->graph.kinds[k].name + ": " + cell.error;
    }
    if (!cell.error.empty())
      return cell;
    shared.merge(p->blocks.findShared(query, *layout));
  }
  std::vector<bool> isLeaner; // by kind: whether the leaner cell has the same layout
  for (std::size_t k = 0; k < queries.size(); ++k) {
    isLeaner.push_back(leaner && k < leaner->layouts.size() && leaner->layouts[k] == *layouts[k]);
    if (remade)
      queries[k].remade = &remade->kinds[k];
    cell.kinds.push_back(isLeaner[k] ? leaner->kinds[k]
                                     : p->blocks.price(queries[k], *layouts[k], cell.error));
    if (!cell.error.empty()) {
      cell.error = "layouts." + p->graph.kinds[k].name + ": " + cell.error;
      return cell;
    }
    cell.layouts.push_back(std::move(*layouts[k]));
  }
  for (std::size_t k = cell.kinds.size(); remade && k < remade->kinds.size(); ++k) {
    const int kind = remade->graphKinds[k];
    queries[kind].remade = &remade->kinds[k];
    cell.kinds.push_back(isLeaner[kind] ? leaner->kinds[k]
                                        : p->blocks.price(queries[kind], cell.layouts[kind], cell.error));
    if (!cell.error.empty())
      return cell;
  }
  if (remade) {
    std::vector<int> ofKind;
    for (UnitQuery &query : queries) {
      query.remade = nullptr;
      query.recompute = Recompute::None;
      ofKind.push_back(static_cast<int>(cell.kinds.size()));
      cell.kinds.push_back(p->blocks.price(query, cell.layouts[query.kind], cell.error));
      if (!cell.error.empty())
        return cell;
    }
    for (int kind : p->graph.units)
      cell.keeping.push_back(ofKind[kind]);
  }
  std::set<int> counted, countedFrozen; // one copy counts, wherever it lies
  const UnitCost *before = nullptr;
  for (int unit : cell.units) {
    const UnitCost &cost = cell.kinds[unit];
    double seconds = cost.forward + cost.backward + cost.weightGradient;
    cell.seconds += seconds;
    cell.largest = std::max(cell.largest, seconds);
    cell.parameters += cost.parameters;
    cell.slots += cost.slots;
    cell.frozen += cost.frozen;
    cell.saved += cost.savedBytes - (before ? cost.savedWith(*before) : 0);
    before = &cost;
    for (auto [number, held] : cost.shared)
      if (!counted.insert(number).second) {
        cell.parameters -= held;
        cell.slots -= cost.sharedSlots.at(number);
      }
    for (auto [number, held] : cost.sharedFrozen)
      if (!countedFrozen.insert(number).second)
        cell.frozen -= held;
  }
  return cell;
}

//===- Stages ---===//

std::vector<int> PlanPricer::balance(const TrainingPlan &plan, const Cell &cell) const {
  int count = static_cast<int>(p->graph.units.size()), parts = plan.pipeline * plan.chunks;
  std::vector<double> prefix(count + 1, 0);
  for (int u = 0; u < count; ++u) {
    const UnitCost &unit = cell.kinds[cell.units[u]];
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

//===- The step ---===//

PlanEstimate PlanPricer::estimate(const TrainingPlan &plan, const Cell &cell) const {
  PlanEstimate estimate;
  cost::PipelineProblem problem = p->costs.problem(plan, cell, plan.parts);
  estimate.stages = p->costs.stages(plan, cell, plan.parts);
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
    after[s] = isLikeLast ? after[s - 1]
                          : p->costs.reduction(plan, estimate.stages, s, beside) +
                                p->costs.update(plan, estimate.stages[s]);
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
    estimate.saved.push_back(chunk.keptForward < 0 ? chunk.activationBytes : chunk.keptForward);
  return estimate;
}

double PlanPricer::leastBytes(const TrainingPlan &plan, const Cell &cell) const {
  StageCosts::Stage stage;
  stage.parameters = cell.parameters;
  stage.slots = cell.slots;
  stage.frozen = cell.frozen;
  if (plan.microbatches() == 1) // gradients come while what was saved goes
    stage.made = 0;
  const double given = cell.kinds[cell.units.back()].resultBytes * plan.microbatches();
  return std::max((p->costs.state(plan, stage).total() + cell.saved) / plan.pipeline, given);
}

double PlanPricer::leastBytes(const TrainingPlan &plan, const PlanEstimate &estimate) const {
  double most = 0;
  int microbatches = plan.microbatches();
  for (int s = 0; s < plan.pipeline; ++s) {
    // What a stage has taken in when its first gradient arrives.
    double saved = 0;
    const bool turnsBack = s + 1 == plan.pipeline; // PipelineProblem::lastTurnsBack
    if (plan.schedule == cost::Schedule::Interleaved) {
      int warmup = microbatches > plan.pipeline
                       ? 2 * (plan.pipeline - s - 1) + (plan.chunks - 1) * plan.pipeline + 1
                   : turnsBack ? microbatches * (plan.chunks - 1) + 1
                               : microbatches * plan.chunks;
      warmup = std::min(warmup, microbatches * plan.chunks);
      for (int k = 0; k < warmup; ++k)
        saved +=
            estimate.saved[static_cast<std::size_t>(k / plan.pipeline % plan.chunks) * plan.pipeline + s];
    } else if (plan.schedule == cost::Schedule::GPipe) {
      saved = (turnsBack ? 1 : microbatches) * estimate.saved[s];
    } else {
      saved = std::min(microbatches, plan.pipeline - s) * estimate.saved[s];
    }
    most = std::max(most, p->costs.state(plan, estimate.stages[s]).total() + saved);
  }
  return most;
}

/// Of what passes have in memory, for gaps between the places of what lives for different times. An
/// allowance, not a count: how places will lie is not known here, and programs have no gaps or many more.
/// With it what is foreseen of the plans of test/Benchmark/training_memory.py is 1.4 % more than their arenas
/// in the mean.
constexpr double kGaps = 0.025;

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
  cost::PipelineProblem problem = p->costs.problem(plan, cell, price.parts);
  cost::PipelineResult schedule = p->simulate(plan, cell, price.parts, problem, detailed);
  price.error = schedule.error;
  if (!price.error.empty())
    return price;
  std::vector<StageCosts::Stage> stages = p->costs.stages(plan, cell, price.parts);
  price.limitBytes = limitBytes();
  cost::StepPrice step = p->costs.step.price(p->costs.shape(plan), problem, schedule, stages);
  price.seconds = step.seconds;
  price.pipeline = step.pipeline;
  price.reduction = step.reduction;
  price.optimizer = step.optimizer;
  price.bubble = step.bubble;
  price.lastStage = step.lastStage;
  price.memory = std::move(step.memory);
  const double samples = plan.task.globalBatch / plan.data;
  std::vector<int> stageOf; // by unit
  for (std::size_t c = 0; c < price.parts.size(); ++c)
    stageOf.resize(stageOf.size() + price.parts[c], plan.stageOf(static_cast<int>(c)));
  for (const factors::GivenInput &input : p->graph.inputs) {
    std::set<int> readers;
    for (int unit : input.units)
      readers.insert(stageOf[unit]);
    if (input.isForLoss)
      readers.insert(stageOf.back());
    for (int s : readers)
      price.memory[s].io += samples * input.bytes;
  }
  price.memory[stageOf.back()].io += samples * p->graph.lossBytes * cell.kinds[cell.units.back()].resultShare;
  // Tables that a compiled step reads lie beside the parameters, as what is read of them. An evaluation takes
  // all samples at once, and has its own.
  for (const factors::Table &table : p->graph.tables) {
    std::vector<double> parts(price.memory.size(), table.uses.empty() ? 1 : 0);
    for (auto [unit, place] : table.uses) {
      double &part = parts[stageOf[unit]];
      part = std::max(part, cell.kinds[cell.units[unit]].tableParts[place]);
    }
    const double whole =
        table.bytes + table.bytesPerSequence * (plan.microbatch + (plan.microbatches() > 1 ? samples : 0));
    for (std::size_t s = 0; plan.task.scoresInMemory && s < parts.size(); ++s)
      price.memory[s].parameters += whole * parts[s];
  }
  // What an evaluation gives back, and what its passes have, lies where a step has its activations, as far as
  // they reach. The last unit gives it: what those before it have is gone then, but in later microbatches.
  const int lastStage = stageOf.back();
  StageMemory &last = price.memory[lastStage];
  const double given = cell.kinds[cell.units.back()].resultBytes * plan.microbatches();
  double forward = 0, masks = 0;
  std::size_t unit = 0;
  for (std::size_t c = 0; c < price.parts.size(); ++c)
    for (int i = 0; i < price.parts[c]; ++i, ++unit)
      if (plan.stageOf(static_cast<int>(c)) == lastStage) {
        const UnitCost &cost = cell.kinds[cell.units[unit]];
        const bool isGathered = plan.zero >= 3 && plan.pipeline == 1 && plan.data * plan.context > 1;
        forward =
            std::max(forward, cost.forwardBytes + (isGathered ? cost.largest * p->types.read() : 0) +
                                  (plan.microbatches() > 1 || unit + 1 == cell.units.size() ? given : 0));
        masks = std::max(masks, cost.maskBytes);
      }
  last.io +=
      (1 + kGaps) * std::max(0.0, forward + masks - (last.gradients + last.activations + last.transient));
  for (StageMemory &memory : price.memory)
    memory.transient += kGaps * (memory.gradients + memory.activations + memory.transient);
  auto most =
      std::max_element(price.memory.begin(), price.memory.end(),
                       [](const StageMemory &a, const StageMemory &b) { return a.total() < b.total(); });
  price.peakBytes = most->total();
  price.curveStage = static_cast<int>(most - price.memory.begin());
  price.straggler = step.straggler;
  price.flops = p->graph.stepFlops(plan.task.globalBatch);
  if (detailed && plan.pipeline > 1)
    price.passes = schedule.timeline;
  if (const RemadeUnits *remade = detailed ? p->remadeUnits(plan) : nullptr)
    price.segments = remade->segments;
  if (detailed)
    fillDetails(p->costs, plan, cell, problem, schedule, stages, price);
  return price;
}

} // namespace colossal::planner
