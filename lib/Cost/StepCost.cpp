// A step's passes, transfers, reductions, update and memory.
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

/// Whether passes are done once, so that what one of them alone reads comes and goes with it.
bool isOnce(const StepShape &shape) {
  return shape.microbatches == 1 && shape.chunks == 1;
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
  return types.gathered * (unit.parameters + unit.frozen) -
         types.narrowGathered() * (unit.narrowed + unit.frozen);
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

/// What the backward pass of a unit takes where a gradient is whole until ranks have scattered it (`whole`;
/// `without` it), and a parameter while it is read: in the product of a loss in parts all the time, and where
/// the product with it comes behind its gradient until that is scattered.
double StepCost::scatteredTransient(const StepShape &shape, const UnitCost &cost, double whole,
                                    double without) const {
  const double read = shape.zero >= 3 ? cost.largest * types.read() : 0;
  if (cost.partedBytes > 0)
    return whole + read;
  const double part = types.gradient / (shape.data * shape.context),
               held = types.read() + types.gradient + part;
  return std::max(
      {whole, without + read, shape.zero >= 3 ? cost.lateTransientBytes + cost.lateElements * held : 0.0});
}

/// What it takes where ranks exchange a gradient into its parts while the next is made: the most of several
/// moments, each of which grows with the part that a rank gets, is no more than between those of no part and
/// of half.
double StepCost::exchangedTransient(const StepShape &shape, const UnitCost &cost) const {
  const double ofHalf = std::min(1.0, 2.0 / (shape.data * shape.context));
  return cost.exchangedTransientBytes +
         ofHalf * (cost.exchangedHalfTransientBytes - cost.exchangedTransientBytes);
}

/// What the backward pass of chunk `c`, whose units end before `unit`, takes beside what microbatches keep.
void StepCost::addTransient(const StepShape &shape, const UnitOrder &order, std::size_t c, std::size_t unit,
                            StageState &stage) const {
  const bool splits = splitsBackward(shape.schedule), isPipelined = shape.isUnrolled();
  if (shape.isMergedIntoNext(c))
    return;
  std::size_t units = order.parts[c];
  if (c > 0 && shape.isMergedIntoNext(c - 1))
    units += order.parts[c - 1];
  // Nobody waits for the last chunk's forward pass, which is a part of the backward one. What others save
  // lies in a copy for each microbatch that is on its way, which nothing else takes.
  const bool isLast = c + 1 == order.parts.size(), isFixed = isPipelined && !isLast;
  double freed = 0; // by the units of the chunk that are done
  double most = 0, saved = 0, masks = 0;
  // Gradients of one microbatch come while what was saved goes; those of several are added up from the first.
  const bool isOnce = cost::isOnce(shape);
  const double narrow = types.narrow / (shape.zero >= 3 ? shape.data * shape.context : 1);
  const bool isShared = (isOnce && shape.scattersGradients()) || shape.scattersInTurns();
  const double gradient = types.gradient / (isShared ? shape.data * shape.context : 1);
  const bool isExchanged = shape.microbatches > 1 && shape.scattersInTurns(),
             isAdded = shape.microbatches > 1 && !shape.addsInPlace;
  const bool isGathered = shape.zero >= 3 && shape.data * shape.context > 1 && !shape.movesStateOnce();
  const double gathered = isGathered ? types.read() : 0;
  auto kept = [&](const UnitCost &cost) { // of an element of a parameter, once its gradient is scattered
    return shape.scattersAsSlots() && cost.parameters > 0 ? cost.slots / cost.parameters : 1.0;
  };
  auto isReadIn = [&](int shared, std::size_t begin, std::size_t end) { // by units
    return std::any_of(order.units.begin() + static_cast<std::ptrdiff_t>(begin),
                       order.units.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](int kind) { return order.kinds[kind].shared.count(shared) > 0; });
  };
  constexpr double kRounding = 1e-6;
  double made = 0, peak = 0;
  // `beside`: on top of all that was saved.
  auto reach = [&](double beside, double whole = 0) {
    if (!isOnce) {
      most = std::max(most, beside);
    } else if (beside + (made - whole) * gradient > peak) {
      peak = beside + (made - whole) * gradient;
      most = std::max(0.0, beside);
      stage.made = (peak - most) / gradient;
    }
  };
  for (std::size_t i = 1; i <= units; ++i) {
    const std::size_t at = unit - i;
    const UnitCost &cost = order.kinds[order.units[at]];
    // Ranks scatter a gradient as soon as it is made, and keep its part.
    const bool isScattered = isOnce && (shape.scattersGradients() || kept(cost) < 1 - kRounding);
    // Of what is scattered the unit has not made all when it has its most: the peak over its operations is
    // convex in what ranks keep of gradients, so that it is no more than between those of all of them, and of
    // nothing.
    const double turn = cost.turnTransientBytes + (isOnce ? cost.againComputedInTurns : 0),
                 once = cost.onceTransientBytes + (isOnce ? cost.againComputed : 0);
    const double part = gradient * kept(cost), lasting = part / types.gradient;
    auto atPeak = [&](double beside) { // less what is not made yet of what has been made in the end
      const double all = (1 - lasting) * beside + lasting * (once + cost.parameters * types.gradient);
      return std::min(beside, all - (cost.parameters - cost.largest) * part);
    };
    double transient =
        isFixed       ? (splits ? cost.fixedWeightTransientBytes : cost.fixedTransientBytes)
        : splits      ? cost.weightTransientBytes
        : isScattered ? scatteredTransient(shape, cost, atPeak(turn), atPeak(cost.transientBytes))
        : isOnce      ? once
        : isExchanged ? scatteredTransient(shape, cost, exchangedTransient(shape, cost), cost.transientBytes)
        : isAdded     ? cost.turnTransientBytes
                      : cost.transientBytes;
    // The gradient of a table that units before read as well is whole until they have added theirs to it.
    // (Over context ranks what the products make of it goes its own way.)
    const bool isWhole = isScattered || (isExchanged && shape.context == 1);
    double added = 0, addedKept = 0; // elements whose gradients are added to what those behind have made
    for (auto [number, held] : cost.shared)
      if (isReadIn(number, at + 1, unit)) {
        added += held;
        addedKept += shape.scattersAsSlots() ? cost.sharedSlots.at(number) : held;
      }
    if (isWhole)
      transient -= added * types.gradient;
    if (isOnce && added > 0)
      transient =
          std::max(transient, cost.transientBytes - (cost.parameters * kept(cost) - addedKept) * gradient);
    transient += isOnce && (isFixed || splits) ? cost.againComputed : 0;
    // What is gathered for a segment that is made again is there for its backward pass.
    transient += std::max(0.0, cost.againParameters - cost.largest) * gathered;
    // What units before it made again with it is still there.
    double again = cost.continuesSegment && i < units ? -order.kinds[order.units[at - 1]].sourceBytes : 0;
    for (std::size_t before = at;
         before > unit - units && order.kinds[order.units[before]].continuesSegment;) {
      const bool isNext = before-- == at;
      const UnitCost &maker = order.kinds[order.units[before]];
      again += maker.againBytes + maker.againParameters * gathered;
      // Tables are brought together ahead: of one microbatch, before the last of what they meet is used.
      again += isOnce || isNext ? maker.againTables * gathered : 0;
      if (!maker.isInOneSegment)
        break;
    }
    transient = std::max(transient - cost.continuedMore, transient - cost.continuedLess + again);
    const double copies = isOnce ? order.amount(at) * (cost.narrowed - cost.narrowedTables) * narrow : 0;
    if (cost.narrowsAgain)
      transient += copies;
    made += order.amount(at) * (cost.parameters * kept(cost) - addedKept);
    // A microbatch's part of a gradient, before it is added up: made in this pass, or in one of its own.
    const double ofTurn = isAdded || isExchanged ? cost.largest * part : 0;
    reach(transient - freed + (isFixed && !splits ? ofTurn : 0),
          isScattered ? std::min(cost.largest * kept(cost), cost.parameters * kept(cost) - addedKept) : 0);
    if (isScattered && cost.shared.empty()) // from whole into its part
      reach((1 - lasting) * cost.scatteredTransientBytes + lasting * cost.onceScatteredTransientBytes -
            freed);
    // Elements of a gradient that is whole beside what the unit leaves. (A table's that units behind have
    // made is there.)
    double scattered = std::min(cost.largest, cost.parameters - added);
    for (auto [number, held] : isWhole ? cost.shared : std::map<int, double>())
      if (isReadIn(number, unit - units, at)) {
        freed -=
            held * types.gradient -
            (isScattered ? gradient * (shape.scattersAsSlots() ? cost.sharedSlots.at(number) : held) : 0);
        scattered = held < cost.largest ? scattered : 0; // that of a table stays as it is
      }
    most = std::max(most, splits ? ofTurn : 0);
    // What the gradients of weights wait for lies where microbatches keep it, from the beginning.
    const double waiting = !splits ? 0 : isPipelined ? cost.weightSavedBytes : cost.weightKeptBytes;
    // A chunk keeps what it has received, and makes nothing of it again.
    const double received = i < units ? -cost.savedWith(order.kinds[order.units[at - 1]])
                            : at > 0  ? cost.againInputBytes
                                      : 0;
    // Of its results a chunk makes nothing again, either: the next has received them.
    const double handed = i == 1 && unit < order.units.size() ? cost.sourceBytes : 0;
    const double held = cost.saved(splits) + received - waiting - handed;
    saved += order.amount(at) * held;
    masks = std::max(masks, cost.maskBytes);
    if (!isFixed)
      freed += order.amount(at) * held + (cost.narrowsAgain ? 0 : copies);
    if (isScattered) // from whole into its part
      reach(scattered * types.gradient - freed);
  }
  if (isOnce) {
    stage.made = std::max(0.0, stage.made);
    reach(-freed); // the update
  }
  if (isPipelined) {
    if (isLast)
      most += saved;
    // What is sent or received stays for one pass more, so that two passes that follow each other have one
    // each. What is received on the way forward is saved, too, and what the last chunk sends back has its
    // next pass, which receives, in between; gradients that weights' gradients read are kept for these.
    const double back = unit > units ? order.kinds[order.units[unit - units - 1]].outputBytes : 0,
                 on = isLast ? 0 : order.kinds[order.units[unit - 1]].outputBytes;
    stage.messages += back * (isLast ? 2 : 3) + on * (splits ? 3 : 4);
  }
  // Masks that others keep are counted with what they save.
  stage.transient = std::max(stage.transient, most + (isFixed ? 0 : masks));
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
      if (!(cost.narrowsAgain && isOnce(shape))) {
        stage.narrowed += amount * (cost.narrowed - (isOnce(shape) ? cost.narrowedTables : 0));
        for (auto [number, copied] : cost.sharedNarrowed)
          if (!narrowed[shape.stageOf(static_cast<int>(c))].insert(number).second)
            stage.narrowed -= copied;
      }
      stage.frozen += amount * cost.frozen;
      for (auto [number, held] : cost.sharedFrozen)
        if (!frozen[shape.stageOf(static_cast<int>(c))].insert(number).second)
          stage.frozen -= held;
      for (const auto &[number, sum] : cost.sharedReduction) // uses are added up first
        if (sum.bytes > 0 && !reduced[shape.stageOf(static_cast<int>(c))].insert(number).second)
          stage.reduction.add(-1, sum);
      stage.computed += amount * cost.computed.of(shape.microbatches);
      if (shape.zero < 3 || shape.data * shape.context == 1 || shape.movesStateOnce())
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
  return stages;
}

StageMemory StepCost::state(const StepShape &shape, const StageState &stage) const {
  double ranks = shape.data * shape.context;
  StageMemory memory;
  memory.parameters =
      (stage.parameters * types.parameter + stage.narrowed * types.narrow) / (shape.zero >= 3 ? ranks : 1);
  // Ranks that update parts of a parameter bring together the narrow copies, and keep their part of the
  // master.
  if (shape.asCompiled && types.narrow > 0)
    memory.parameters -= stage.elsewhere * types.parameter / (shape.zero >= 3 ? ranks : 1);
  memory.parameters += stage.frozen * types.frozen() / (shape.zero >= 3 ? ranks : 1);
  const double parameters = shape.scattersAsSlots() ? stage.slots : stage.parameters;
  memory.gradients = parameters * types.gradient / (shape.scattersGradients() ? ranks : 1);
  memory.optimizer =
      (shape.asCompiled ? stage.slots : stage.parameters) * types.optimizer / (shape.zero >= 1 ? ranks : 1);
  if (stage.made >= 0)
    memory.gradients *= std::min(1.0, stage.made / std::max(1.0, parameters));
  if (ranks > 1 && shape.movesStateOnce() && shape.microbatches > 1 && shape.zero >= 2) {
    memory.gradients = stage.parameters * types.gradient;
    if (shape.zero >= 3)
      memory.parameters += (stage.parameters + stage.frozen) * types.gathered -
                           (stage.narrowed + stage.frozen) * types.narrowGathered() -
                           stage.narrowed * types.narrow / ranks; // the copies are brought together
  } else if (ranks > 1 && shape.zero >= 3 && shape.keepsGathered && shape.pipeline > 1) {
    memory.parameters += stage.parameters * types.gathered;
    memory.gradients += stage.parameters * types.gradient;
  } else if (ranks > 1 && !shape.asCompiled) { // the passes of a compiled step count what is whole in them
    // With ZeRO 3 two units are whole at a time, and their gradients before they are scattered.
    if (shape.zero >= 3)
      memory.parameters += 2 * stage.largest * (types.gathered + types.reduced);
    else if (shape.zero == 2)
      memory.gradients += 2 * stage.largest * types.reduced;
  }
  memory.transient = stage.transient;
  memory.transient += stage.messages;
  if (shape.asCompiled)
    memory.transient += stage.computed;
  // Between stages each unit that has a shared parameter adds up for itself.
  if (shape.asCompiled && shape.microbatches > 1 && shape.pipeline > 1)
    memory.transient += stage.again * types.gradient;
  return memory;
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
    // sum.
    if (shape.asCompiled)
      memory.transient =
          std::max(memory.transient, 2 * stages[s].received * types.gradient /
                                             (shape.zero >= 1 ? shape.data * shape.context : 1) -
                                         memory.activations);
    // There, too, ranks scatter gradients that several microbatches have added up: each is whole until they
    // have its part.
    const int sharing = shape.data * shape.context;
    if (shape.asCompiled && shape.zero == 1 && sharing > 1 && !isOnce(shape))
      memory.transient = std::max(memory.transient,
                                  stages[s].largestParameter * types.gradient / sharing - memory.activations);
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
