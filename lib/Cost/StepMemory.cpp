// What a step has in memory: while backward passes run, and for good.
#include "colossal/Cost/StepCost.h"

#include <algorithm>
#include <map>
#include <utility>

namespace colossal::cost {

/// What the backward pass of a unit takes where a gradient is whole until ranks have scattered it (`whole`;
/// `without` it), and a parameter while it is read: in the product of a loss in parts all the time, and where
/// the product with it comes behind its gradient until that is scattered.
double StepCost::scatteredTransient(const StepShape &shape, const UnitCost &cost, double whole,
                                    double without) const {
  // A table that is looked up in is not read again.
  const double read = shape.zero >= 3 ? std::min(cost.largest, cost.readAgain) * types.read() : 0;
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

/// What it takes with the gradients that ranks exchange meanwhile, behind the unit `behind` (null: none):
/// without them it takes `alone`.
HeldBytes StepCost::heldBytes(const StepShape &shape, const UnitCost &cost, const UnitCost *behind,
                              const HeldBytes &alone) const {
  HeldBytes held;
  const auto &moments = types.narrow > 0 && shape.zero < 3 ? cost.heldNarrow : cost.held;
  for (std::size_t begun = 0; begun < moments.size(); ++begun) {
    const double left = behind && begun < behind->leftBytes.size() ? behind->leftBytes[begun] : 0;
    held.most = std::max(held.most, moments[begun].most + left);
    held.turn = std::max(held.turn, moments[begun].turn + left);
    held.once = std::max(held.once, moments[begun].once + left);
  }
  if (held.most == HeldBytes::kNone) // none are known
    return alone;
  held.turn += alone.turn - cost.turnTransientBytes;
  held.once += alone.once - cost.onceTransientBytes;
  return held;
}

/// What the backward pass of chunk `c`, whose units end before `unit`, takes beside what microbatches keep.
void StepCost::addTransient(const StepShape &shape, const UnitOrder &order, std::size_t c, std::size_t unit,
                            StageState &stage) const {
  // Convolutions' gradients are turned, and so scattered, at once: where it takes too much that they stay
  // meanwhile (Schedule's overlapAndPlace), nothing goes on beside their exchanges.
  double parameters = 0, convolved = 0;
  for (std::size_t at = unit - order.parts[c]; at < unit; ++at) {
    parameters += order.kinds[order.units[at]].parameters;
    convolved += order.kinds[order.units[at]].convolved;
  }
  const double ranks = shape.data * shape.context;
  if (!shape.isOnce() || !shape.asCompiled || ranks == 1 || 2 * convolved < parameters) {
    addTransient(shape, order, c, unit, stage, true);
    return;
  }
  StageState alone = stage;
  const double saved = addTransient(shape, order, c, unit, stage, true);
  addTransient(shape, order, c, unit, alone, false);
  auto all = [&](const StageState &state) {
    return saved + state.transient + std::max(0.0, state.made) * types.gradient / ranks;
  };
  if (all(stage) > all(alone) * (1 + 1.0 / kExchangeShareOfMemory))
    stage = std::move(alone);
}

/// The same, and what microbatches keep; `holds`: gradients stay while ranks exchange them.
double StepCost::addTransient(const StepShape &shape, const UnitOrder &order, std::size_t c, std::size_t unit,
                              StageState &stage, bool holds) const {
  const bool splits = splitsBackward(shape.schedule), isPipelined = shape.isUnrolled();
  // What tensor ranks add up is little.
  const bool isHeld = holds && shape.asCompiled && shape.data * shape.context > 1;
  if (shape.isMergedIntoNext(c))
    return 0;
  std::size_t units = order.parts[c];
  if (c > 0 && shape.isMergedIntoNext(c - 1))
    units += order.parts[c - 1];
  // Nobody waits for the last chunk's forward pass, which is a part of the backward one. What others save
  // lies in a copy for each microbatch that is on its way, which nothing else takes.
  const bool isLast = c + 1 == order.parts.size(), isFixed = isPipelined && !isLast;
  double freed = 0; // by the units of the chunk that are done
  double most = 0, saved = 0, masks = 0;
  // Gradients of one microbatch come while what was saved goes; those of several are added up from the first.
  const bool isOnce = shape.isOnce();
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
    const HeldBytes alone{cost.transientBytes, turn, once};
    const UnitCost *behind = i > 1 ? &order.kinds[order.units[at + 1]] : nullptr;
    const HeldBytes whole = isHeld ? heldBytes(shape, cost, behind, alone) : alone;
    // A table that is looked up in again is brought together ahead of the unit's own gradients.
    const double left = isHeld && behind && !behind->leftBytes.empty() ? behind->leftBytes.front() : 0;
    const double without = cost.againTables < cost.largest ? whole.most : alone.most + left;
    auto atPeak = [&](double beside) { // less what is not made yet of what has been made in the end
      const double all = (1 - lasting) * beside + lasting * (whole.once + cost.parameters * types.gradient);
      return std::min(beside, all - (cost.parameters - cost.largest) * part);
    };
    double transient =
        isFixed       ? (splits ? cost.fixedWeightTransientBytes : cost.fixedTransientBytes)
        : splits      ? cost.weightTransientBytes
        : isScattered ? scatteredTransient(shape, cost, atPeak(whole.turn), atPeak(without))
        : isOnce      ? once
        : isExchanged ? scatteredTransient(shape, cost, exchangedTransient(shape, cost), cost.transientBytes)
        : isAdded     ? cost.turnTransientBytes
                      : cost.transientBytes;
    // The gradient of a table that units before read as well is whole until they have added theirs to it.
    const bool isWhole = isScattered || isExchanged;
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
    double lookedUp = 0; // what its segment looks up in again, before it makes anything else
    for (std::size_t before = at;
         before > unit - units && order.kinds[order.units[before]].continuesSegment;) {
      const bool isNext = before-- == at;
      const UnitCost &maker = order.kinds[order.units[before]];
      again += maker.againBytes + maker.againParameters * gathered;
      // In turns tables are brought together ahead.
      again += !isOnce && isNext ? maker.againTables * gathered : 0;
      lookedUp = maker.againTables * gathered;
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
    // The loss's product has read its weights' narrow copies when it makes their gradients; what is brought
    // together for it is no copy that stays.
    const double unread = isOnce && i == 1 && shape.zero < 3 ? cost.headElements * narrow : 0;
    if (unread > 0)
      reach(cost.headTransientBytes - freed, made);
    if (isOnce && lookedUp > 0)
      reach(lookedUp + left - freed, (cost.parameters * kept(cost) - addedKept) * order.amount(at));
    freed += unread;
    reach(transient - freed + (isFixed && !splits ? ofTurn : 0),
          isScattered ? std::min(cost.largest * kept(cost), cost.parameters * kept(cost) - addedKept) : 0);
    if (isScattered && cost.shared.empty()) // from whole into its part
      reach(std::max(isHeld ? (1 - lasting) * cost.heldScatteredBytes : 0.0,
                     (1 - lasting) * cost.scatteredTransientBytes +
                         lasting * cost.onceScatteredTransientBytes) -
            freed);
    freed -= unread;
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
    // But for those that products of units before read as well, or of units behind have read.
    double gone = copies;
    for (auto [number, copied] : isOnce ? cost.sharedNarrowed : std::map<int, double>())
      if (isReadIn(number, at + 1, unit))
        gone -= order.amount(at) * copied * narrow;
      else
        for (std::size_t before = unit - units; before < at; ++before)
          if (order.kinds[order.units[before]].sharedByProducts.count(number)) {
            gone -= order.amount(at) * copied * narrow;
            break;
          }
    if (!isFixed)
      freed += order.amount(at) * held + (cost.narrowsAgain ? 0 : gone);
    if (!holds) // what nothing turns is whole until the update
      freed -= std::max(0.0, cost.parameters - cost.convolved - added) * (types.gradient - part);
    if (isScattered) { // from whole into its part
      reach(scattered * types.gradient - freed);
      for (auto [number, held] : cost.shared) // a table's, once the last has added to it
        if (shape.scattersGradients() && isReadIn(number, at + 1, unit) &&
            !isReadIn(number, unit - units, at))
          reach((shape.scattersAsSlots() ? cost.sharedSlots.at(number) : held) * gradient - freed);
    }
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
  return saved;
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

} // namespace colossal::cost
