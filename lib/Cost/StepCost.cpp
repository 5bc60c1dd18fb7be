// A step's passes, transfers, reductions and update. (StepMemory.cpp has its memory.)
#include "colossal/Cost/StepCost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

namespace colossal::cost {

namespace {

/// Bytes that an optimizer moves for one parameter. Adam in mixed precision: the gradient unscaled to f32 (2
/// + 4), state (16 read, 12 written), the new 16-bit copy (2); in f32: 16 read, 12 written.
double optimizerTraffic(const StateTypes &types) {
  return types.parameter < 4 ? 36 : 28;
}
/// Its kernels.
constexpr double kOptimizerLaunches = 20;

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

int StepShape::stageOf(int chunk) const {
  if (schedule == Schedule::ZeroBubbleV && chunk >= pipeline)
    return 2 * pipeline - 1 - chunk;
  return chunk % pipeline;
}

bool StepShape::isMergedIntoNext(std::size_t chunk) const {
  return isUnrolled() && schedule == Schedule::ZeroBubbleV && static_cast<int>(chunk) == pipeline - 1;
}

StepCost::StepCost(const CostModel &machine, const StateTypes &types)
    : machine(machine), types(types), operations(machine, machine.machine().device.launchSeconds),
      contention(machine.machine().fitted["overlap_contention"]),
      exposed(machine.machine().fitted["exposed_gradient"]),
      shardedBandwidth(machine.machine().fitted["sharded_parameter_bandwidth"]),
      stragglerFactor(machine.machine().fitted["straggler"]) {}

/// Of units that run one after the other: seconds of kernels, and of what ZeRO moves beside them.
struct StepCost::Beside {
  double forward = 0, backward = 0;
  double gather = 0, gatherAgain = 0,
         scatter = 0; ///< for the forward pass, for the backward pass, of gradients
  void add(const UnitCost &unit, double gathering, double again, double scattering, double amount) {
    forward += amount * std::max(0.0, unit.forward - unit.forwardCollective);
    backward += amount * std::max(0.0, unit.backward + unit.weightGradient -
                                           (unit.collective - unit.forwardCollective));
    gather += amount * gathering;
    gatherAgain += amount * again;
    scatter += amount * scattering;
  }
};

double StepCost::lengthening(double compute, double moved) const {
  return std::max(compute, moved) + contention * std::min(compute, moved) - compute;
}

double StepCost::exchangeSeconds(const StepShape &shape, Collective kind, double bytes) const {
  Group group = dataGroup(shape);
  if (group.size <= 1 || bytes <= 0)
    return 0;
  double seconds = machine.seconds(kind, bytes, group);
  if (shardedBandwidth > 0 && shape.ranks() > machine.machine().levels.front().units)
    seconds = std::max(seconds, CostModel::bytesMoved(kind, bytes, group.size) / shardedBandwidth);
  return seconds;
}

double StepCost::gatherSeconds(const StepShape &shape, double bytes) const {
  return shape.zero < 3 ? 0 : exchangeSeconds(shape, Collective::AllGather, bytes);
}

double StepCost::gatheredBytes(const UnitCost &unit) const {
  return types.gathered * (unit.parameters + unit.frozen - unit.idleFrozen) -
         types.narrowGathered() * (unit.narrowed + unit.frozen - unit.idleFrozen);
}

double StepCost::gatheredAgainBytes(const StepShape &shape, const UnitCost &unit, bool isModelsLast) const {
  const bool follows = !shape.asCompiled && (shape.schedule != Schedule::GPipe || shape.microbatches == 1);
  return isModelsLast && follows
             ? 0
             : types.gathered * unit.readAgain - types.narrowGathered() * unit.narrowedAgain;
}

double StepCost::scatterSeconds(const StepShape &shape, double parameters) const {
  return shape.zero < 2 ? 0 : exchangeSeconds(shape, Collective::ReduceScatter, types.reduced * parameters);
}

std::vector<StageState> StepCost::stages(const StepShape &shape, const UnitOrder &order) const {
  std::vector<StageState> stages(shape.pipeline);
  std::map<int, StageState *> keepers;                 // of the optimizer's slots of what stages share
  std::vector<std::set<int>> narrowed(shape.pipeline); // shared parameters with a copy
  std::vector<std::set<int>> computed(shape.pipeline); // and those of which something is computed
  std::vector<std::set<int>> frozen(shape.pipeline), reduced(shape.pipeline);
  std::size_t unit = 0;
  for (std::size_t c = 0; c < order.parts.size(); ++c) {
    StageState &stage = stages[shape.stageOf(static_cast<int>(c))];
    for (int i = 0; i < order.parts[c]; ++i, ++unit) {
      const UnitCost &cost = order.kinds[order.units[unit]];
      const double amount = order.amount(unit);
      if (amount <= 0)
        continue;
      stage.parameters += amount * cost.parameters;
      stage.slots += amount * cost.slots;
      stage.elsewhere += amount * cost.elsewhere;
      stage.unread += amount * cost.unread;
      // What several microbatches read is there through all of them.
      if (!(cost.narrowsAgain && shape.isOnce())) {
        stage.narrowed += amount * (cost.narrowed - (shape.isOnce() ? cost.narrowedTables : 0));
        for (auto [number, copied] : cost.sharedNarrowed)
          if (!narrowed[shape.stageOf(static_cast<int>(c))].insert(number).second)
            stage.narrowed -= copied;
      }
      stage.frozen += amount * cost.frozen;
      stage.idleFrozen += amount * cost.idleFrozen;
      for (auto [number, held] : cost.sharedFrozen)
        if (!frozen[shape.stageOf(static_cast<int>(c))].insert(number).second)
          stage.frozen -= held;
      for (const auto &[number, sum] : cost.sharedReduction) // uses are added up first
        if (sum.bytes + sum.spread > 0 && !reduced[shape.stageOf(static_cast<int>(c))].insert(number).second)
          stage.reduction.add(-1, sum);
      stage.computed += amount * cost.computed.of(shape.microbatches);
      if (shape.microbatches > 1 &&
          (shape.zero < 3 || shape.data * shape.context == 1 || shape.movesStateOnce()))
        stage.computed += amount * cost.takenApart;
      for (auto [number, bytes] : cost.sharedComputed)
        if (computed[shape.stageOf(static_cast<int>(c))].insert(number).second)
          stage.computed += bytes.of(shape.microbatches);
      stage.largest = std::max(stage.largest, std::min(amount, 1.0) * cost.parameters);
      stage.largestParameter = std::max(stage.largestParameter, cost.largest);
      for (auto [number, held] : cost.shared) {
        auto [known, isNew] = stage.shared.try_emplace(number, held);
        const auto slots = cost.sharedSlots.find(number);
        const double kept = slots == cost.sharedSlots.end() ? 0 : slots->second;
        if (!isNew) { // one copy a stage
          stage.parameters -= held;
          stage.slots -= kept;
          if (const auto other = cost.sharedElsewhere.find(number); other != cost.sharedElsewhere.end())
            stage.elsewhere -= other->second;
          stage.again += held;
        } else if (shape.asCompiled) { // the last stage that has it updates it for all
          auto [keeper, isFirst] = keepers.try_emplace(number, &stage);
          if (!isFirst)
            std::min(keeper->second, &stage)->slots -= kept;
          keeper->second = std::max(keeper->second, &stage);
          keeper->second->received += isFirst ? 0 : held;
        }
      }
      stage.reduction.add(amount, cost.reduction);
      if (!shape.asCompiled)
        stage.transient = std::max(stage.transient, cost.transientBytes);
    }
    if (shape.asCompiled)
      addTransient(shape, order, c, unit, stage);
  }
  for (StageState &stage : stages)
    for (auto [number, held] : stage.shared)
      if (const auto keeper = keepers.find(number); keeper != keepers.end() && keeper->second != &stage)
        stage.sent = std::max(stage.sent, held);
  return stages;
}

PipelineProblem StepCost::problem(const StepShape &shape, const UnitOrder &order) const {
  PipelineProblem problem;
  problem.schedule = shape.schedule;
  problem.stages = shape.pipeline;
  problem.chunks = shape.chunks;
  problem.microbatches = shape.microbatches;
  problem.lastTurnsBack = shape.asCompiled;
  const double often = shape.keepsGathered && shape.pipeline > 1 && shape.zero >= 3 ? shape.microbatches : 1;
  struct Moved {
    double gather, again, scatter;
  };
  auto move = [&](const UnitCost &cost, bool isModelsLast) {
    return Moved{gatherSeconds(shape, gatheredBytes(cost)) / often,
                 gatherSeconds(shape, gatheredAgainBytes(shape, cost, isModelsLast)) / often,
                 scatterSeconds(shape, cost.parameters) / often};
  };
  std::vector<Moved> moved; // by kind
  for (const UnitCost &cost : order.kinds)
    moved.push_back(move(cost, false));
  const Moved last = move(order.kinds[order.units.back()], true);
  std::size_t unit = 0;
  std::vector<double> handed; // bytes, by chunk
  for (int size : order.parts) {
    ChunkWork work;
    Beside beside;
    double weightsKept = 0, masks = 0;
    for (int i = 0; i < size; ++i, ++unit) {
      const int kind = order.units[unit];
      const UnitCost &cost = order.kinds[kind];
      const double amount = order.amount(unit);
      work.forward += amount * cost.forward;
      work.backward += amount * cost.backward;
      work.weightGradient += amount * cost.weightGradient;
      const bool handsOver =
          i + 1 == size && unit + 1 < order.units.size() && !shape.isMergedIntoNext(problem.work.size());
      work.activationBytes +=
          amount * (cost.saved(splitsBackward(shape.schedule)) - (handsOver ? cost.sourceBytes : 0));
      if (i > 0)
        work.activationBytes -= amount * cost.savedWith(order.kinds[order.units[unit - 1]]);
      else if (unit > 0)
        work.activationBytes += amount * cost.againInputBytes;
      work.weightGradientBytes += amount * cost.weightSavedBytes;
      weightsKept += amount * cost.weightKeptBytes;
      masks = std::max(masks, cost.maskBytes);
      if (shape.zero >= 2) {
        const Moved &own = unit + 1 == order.units.size() ? last : moved[kind];
        beside.add(cost, own.gather, own.again, own.scatter, amount);
      }
    }
    // What weights' gradients made with the others read in parts is not kept whole.
    work.weightGradientBytes = std::min(work.weightGradientBytes, work.activationBytes);
    work.forward += lengthening(beside.forward, beside.gather);
    work.backward += lengthening(beside.backward, beside.gatherAgain + beside.scatter);
    if (shape.asCompiled) {
      work.keptBackward = weightsKept;
      // The last chunk keeps what it has received: its forward pass is a part of the backward one.
      if (shape.isUnrolled() && unit == order.units.size())
        work.keptForward = handed.empty() ? 0 : handed.back();
      else if (shape.isUnrolled())
        work.keptForward = work.activationBytes + masks; // which both passes read
      if (shape.isUnrolled()) { // the compiler orders passes by their number, whatever they keep
        work.activationBytes = ChunkWork::kMicrobatch;
        work.weightGradientBytes = ChunkWork::kOfWeights;
      }
    }
    if (const std::size_t c = problem.work.size(); c > 0 && shape.isMergedIntoNext(c - 1)) {
      ChunkWork &first = problem.work.back();
      first.keptForward += work.keptForward;
      first.keptBackward += work.keptBackward;
      work.keptForward = work.keptBackward = 0;
    }
    handed.push_back(order.kinds[order.units[unit - 1]].outputBytes);
    problem.work.push_back(work);
  }
  if (shape.pipeline > 1)
    fillHops(shape, handed, problem);
  return problem;
}

/// Each hop as the stages lie, inside a node or across; where chunks hand on different amounts, the largest.
void StepCost::fillHops(const StepShape &shape, const std::vector<double> &handed,
                        PipelineProblem &problem) const {
  problem.transferBlocks = !splitsBackward(shape.schedule) && !shape.transfersBeside;
  // A device that waits for a transfer waits for its launch as well.
  double launch = problem.transferBlocks ? shape.transferLaunch : 0;
  std::vector<double> bytes(shape.pipeline, 0);
  for (std::size_t c = 0; c + 1 < handed.size(); ++c) {
    int from = shape.stageOf(static_cast<int>(c)), to = shape.stageOf(static_cast<int>(c) + 1);
    if (from == to)
      continue;
    int low = std::min(from, to), high = std::max(from, to);
    double &most = bytes[high - low == 1 ? low : high]; // the last stage's hop leads back to the first
    most = std::max(most, handed[c]);
  }
  problem.hopSeconds.reserve(shape.pipeline);
  for (int s = 0; s < shape.pipeline; ++s)
    problem.hopSeconds.push_back(
        bytes[s] > 0 ? hopSeconds(machine, bytes[s], s, shape.pipeline, shape.ranks()) + launch : 0);
}

void StepCost::tellUnits(const StepShape &shape, const std::vector<UnitCost> &kinds,
                         const std::vector<int> &units, bool endsModel,
                         std::vector<Communication> &told) const {
  const int microbatches = shape.microbatches;
  Beside beside;
  double parameters = 0, gathered = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const UnitCost &unit = kinds[units[u]];
    for (const auto &[name, bytes] : unit.bytesByCollective) {
      auto at = unit.secondsByCollective.find(name);
      double seconds = (at == unit.secondsByCollective.end() ? 0 : at->second) * microbatches;
      tell(told, name + " inside units, tensor and context ranks", bytes * microbatches, seconds, seconds);
    }
    const double forward = gatheredBytes(unit),
                 backward = gatheredAgainBytes(shape, unit, endsModel && u + 1 == units.size());
    beside.add(unit, gatherSeconds(shape, forward), gatherSeconds(shape, backward),
               scatterSeconds(shape, unit.parameters), 1);
    parameters += unit.parameters;
    gathered += forward + backward;
  }
  if (beside.scatter <= 0)
    return;
  auto sent = [&](Collective kind, double bytes) {
    return microbatches * CostModel::bytesMoved(kind, bytes, shape.data * shape.context);
  };
  double moved = beside.gatherAgain + beside.scatter,
         forward = microbatches * lengthening(beside.forward, beside.gather),
         backward = microbatches * lengthening(beside.backward, moved),
         ofGather = backward * beside.gatherAgain / moved;
  if (shape.zero >= 3)
    tell(told, kGather, sent(Collective::AllGather, gathered),
         microbatches * (beside.gather + beside.gatherAgain), forward + ofGather);
  tell(told, kScatter, sent(Collective::ReduceScatter, types.reduced * parameters),
       microbatches * beside.scatter, backward - ofGather);
}

double StepCost::reduction(const StepShape &shape, const std::vector<StageState> &stages, int stage,
                           double beside, std::vector<Communication> *told) const {
  const StageState &own = stages[stage];
  double seconds = 0;
  Group group = dataGroup(shape);
  if (!shape.reducesOverContext) {
    group.size = shape.data;
    group.stride = shape.tensor * shape.context;
  }
  if (shape.zero < 3 && group.size > 1)
    // Reduce-scatter and, after the update, all-gather of parameters move as much as an all-reduce. With zero
    // 2 the gradients have been scattered already.
    seconds = machine.seconds(shape.zero == 2 ? Collective::AllGather : Collective::AllReduce,
                              types.reduced * own.parameters, group);
  double data = seconds;
  seconds += own.reduction.seconds;
  double all = seconds;
  if (shape.overlapGradients)
    seconds = std::min(seconds, std::max(seconds - beside, seconds * exposed));
  if (told && all > 0) {
    double part = seconds / all, bytes = types.reduced * own.parameters;
    if (data > 0 && shape.zero == 0)
      tell(*told, kAllReduce, CostModel::bytesMoved(Collective::AllReduce, bytes, group.size), data,
           data * part);
    if (data > 0 && shape.zero == 1) // as much as an all-reduce, one half before the update and one after
      for (const char *name : {kScatter, kGather})
        tell(*told, name, CostModel::bytesMoved(Collective::AllReduce, bytes, group.size) / 2, data / 2,
             data / 2 * part);
    if (data > 0 && shape.zero == 2)
      tell(*told, kGather, CostModel::bytesMoved(Collective::AllGather, bytes, group.size), data,
           data * part);
    if (own.reduction.seconds > 0)
      tell(*told, "all-reduce of gradients, tensor and context ranks", own.reduction.bytes,
           own.reduction.seconds, own.reduction.seconds * part);
  }
  // Nothing is there to hide the step's first gather and its last scatter; their volume and time are told
  // with the units'.
  for (auto [once, name] : {std::pair{scatterSeconds(shape, own.largest), kScatter},
                            std::pair{gatherSeconds(shape, types.gathered * own.largest), kGather}}) {
    seconds += once;
    if (told && once > 0)
      tell(*told, name, 0, 0, once);
  }
  for (auto [number, held] : own.shared) {
    bool elsewhere = false;
    for (std::size_t s = 0; s < stages.size(); ++s)
      elsewhere |= static_cast<int>(s) != stage && stages[s].shared.count(number);
    if (!elsewhere)
      continue;
    double once = machine.seconds(Collective::AllReduce, types.reduced * held,
                                  {2, shape.ranks() / shape.pipeline * (shape.pipeline - 1), shape.ranks()});
    seconds += once;
    if (told)
      tell(*told, "all-reduce of gradients that stages share",
           CostModel::bytesMoved(Collective::AllReduce, types.reduced * held, 2), once, once);
  }
  return seconds;
}

double StepCost::update(const StepShape &shape, const StageState &stage) const {
  double count = stage.parameters / (shape.zero >= 1 ? shape.data * shape.context : 1);
  return operations.seconds(streaming(count * optimizerTraffic(types), kOptimizerLaunches));
}

double StepCost::straggler(int ranks) const {
  double nodes = static_cast<double>(ranks) / machine.machine().levels.front().units;
  return 1 + stragglerFactor * std::log2(std::max(1.0, nodes));
}

StepPrice StepCost::price(const StepShape &shape, const PipelineProblem &problem,
                          const PipelineResult &schedule, const std::vector<StageState> &stages) const {
  StepPrice price;
  // Where steps follow each other without a common end, what counts is from step to step.
  const double early = shape.commonEnd ? 0 : schedule.seconds - schedule.steadySeconds;
  price.pipeline = schedule.seconds - early;
  price.bubble = schedule.bubble;
  std::vector<double> lastBackward(shape.pipeline, 0);
  for (std::size_t c = 0; c < problem.work.size(); ++c)
    lastBackward[shape.stageOf(static_cast<int>(c))] +=
        problem.work[c].backward + problem.work[c].weightGradient;
  for (int s = 0; s < shape.pipeline; ++s) {
    double reduced = reduction(shape, stages, s, lastBackward[s]), updated = update(shape, stages[s]);
    double end = schedule.stageEnd[s] - early + reduced + updated;
    if (end > price.seconds) {
      price.seconds = end;
      price.lastStage = s;
      price.reduction = reduced;
      price.optimizer = updated;
    }
    StageMemory memory = state(shape, stages[s]);
    memory.activations = schedule.peakBytes[s];
    // Rows that no pass reads have their gradient, zeros, behind the passes.
    if (shape.asCompiled && stages[s].made < 0 && stages[s].unread > 0)
      memory.gradients -= std::min(memory.gradients * stages[s].unread / stages[s].parameters,
                                   memory.activations + memory.transient);
    // Behind the passes, what another stage has summed up of a gradient lies beside this one's, and their
    // sum; context ranks have a part of both. Nothing reads activations and narrow copies any more.
    const double dead = memory.activations + stages[s].narrowed * types.narrow;
    if (shape.asCompiled)
      memory.transient =
          std::max(memory.transient, 2 * stages[s].received * types.gradient /
                                             (shape.zero >= 1 ? shape.data * shape.context : shape.context) -
                                         dead);
    // There, too, ranks scatter gradients that several microbatches have added up, or that another stage
    // takes parts of: each is whole until they have its part.
    const int sharing = shape.data * shape.context;
    if (shape.asCompiled && shape.zero == 0 && sharing > 1)
      memory.transient =
          std::max(memory.transient,
                   stages[s].sent * types.gradient / (shape.data > 1 ? shape.data : shape.context) - dead);
    if (shape.asCompiled && shape.zero == 1 && sharing > 1 && !shape.isOnce())
      memory.transient =
          std::max(memory.transient, stages[s].largestParameter * types.gradient / sharing - dead);
    if (memory.total() > price.peakBytes) {
      price.peakBytes = memory.total();
      price.peakStage = s;
    }
    price.memory.push_back(memory);
  }
  price.straggler = straggler(shape.ranks());
  price.seconds *= price.straggler;
  return price;
}

double hopSeconds(const CostModel &machine, double bytes, int stage, int stages, int devices) {
  int apart = devices / stages, node = machine.machine().levels.front().units;
  std::int64_t from = static_cast<std::int64_t>(stage) * apart / node;
  std::int64_t to = static_cast<std::int64_t>((stage + 1) % stages) * apart / node;
  if (from == to)
    return machine.seconds(Collective::Permute, bytes, Group{2, 1, devices});
  return machine.seconds(Collective::Permute, bytes, Group{2, std::max(node, apart), apart});
}

} // namespace colossal::cost
