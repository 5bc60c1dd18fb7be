// What a whole unit costs under a layout: its operations, what brings values from one to the next, and what
// is done again.
#include "UnitLayouts.h"

#include <algorithm>
#include <limits>
#include <set>

namespace colossal::planner {

/// How often a value is brought from one placement to the other: once forward, and again where the backward
/// pass reads it and does not find it there.
int UnitLayouts::timesMoved(const Placement &from, const Placement &to, bool regather) const {
  if (query.recompute == Recompute::Full && !query.remade)
    return 2;
  bool wasPartial = std::find(from.begin(), from.end(), kPartial) != from.end();
  // Of a partial value the sum is kept, not its parts; and a compiled step keeps what ranks have exchanged.
  return regather && !query.scoresInMemory && from != to && !wasPartial ? 2 : 1;
}

/// What brings a value from one placement to the other, with the padding of that which has more of it. A
/// compiled step takes axes from places that they divide as they stand there.
const Move *UnitLayouts::findMove(int tensor, const Placement &from, const Placement &to,
                                  double widened) const {
  auto padding = [&](const Placement &placement) {
    return share(tensor, placement) / resharder.share(placement);
  };
  const double most = std::max(padding(from), padding(to));
  constexpr double kRounding = 1e-9;
  return resharder.find(bytes(tensor) * widened * most, from, to, most < 1 + kRounding);
}

/// What brings a gradient back; null where nothing does. A program adds up rows of a table's gradient in the
/// types of masters, and widens them where there are fewer of them.
const Move *UnitLayouts::moveBack(int tensor, const Placement &from, const Placement &to) const {
  static const Move nothing;
  const Tensor &t = kind.tensors[tensor];
  if (t.kind != Tensor::Activation || !t.isFloat || t.isConstant)
    return &nothing;
  const int producer = info.producer[tensor];
  const bool isWide = query.scoresInMemory && producer >= 0 && isLookup(kind, kind.operations[producer]) &&
                      resharder.share(from) < resharder.share(to);
  return findMove(tensor, from, to, isWide ? types.gradient / types.activation : 1);
}

/// The sum that a value is only a summand of, itself or in others, in which each element is one of its own:
/// their gradients are one. The value itself where there is none.
int UnitLayouts::findSum(int tensor) const {
  while (info.consumers[tensor].size() == 1) {
    const Operation &op = kind.operations[info.consumers[tensor].front().op];
    if (!op.adds || kind.tensors[op.results[0].tensor].elements != kind.tensors[tensor].elements)
      break;
    tensor = op.results[0].tensor;
  }
  return tensor;
}

double UnitLayouts::moved(int tensor, const ValueLayout &from, const ValueLayout &to, bool regather,
                          Ledger *ledger) const {
  const Move *forward = findMove(tensor, from.value, to.value);
  const Move *backward = forward ? moveBack(tensor, to.gradient, from.gradient) : nullptr;
  if (!backward)
    return -1;
  const int times = timesMoved(from.value, to.value, regather);
  if (ledger) {
    auto append = [](cost::OpList &list, const Move &move) {
      list.collectives.insert(list.collectives.end(), move.collectives.begin(), move.collectives.end());
    };
    append(ledger->forward, *forward);
    append(times > 1 ? ledger->backward : ledger->once, *forward);
    const int sum = findSum(tensor);
    if (sum == tensor || ledger->broughtBack.insert({sum, to.gradient, from.gradient}).second)
      append(ledger->backward, *backward);
  }
  return forward->seconds * times + backward->seconds;
}

std::vector<double> UnitLayouts::movedPairs(int tensor, const std::vector<ValueLayout> &from,
                                            const std::vector<ValueLayout> &to, bool regather) const {
  // Far fewer values and gradients differ than pairs of them.
  struct Distinct {
    std::vector<Placement> values, gradients;
    std::vector<std::pair<std::size_t, std::size_t>> of;
    explicit Distinct(const std::vector<ValueLayout> &layouts) {
      auto number = [](std::vector<Placement> &known, const Placement &placement) {
        auto at = static_cast<std::size_t>(std::find(known.begin(), known.end(), placement) - known.begin());
        if (at == known.size())
          known.push_back(placement);
        return at;
      };
      for (const ValueLayout &layout : layouts)
        of.emplace_back(number(values, layout.value), number(gradients, layout.gradient));
    }
  } starts(from), ends(to);
  std::vector<double> forward, backward, pairs;
  for (const Placement &a : starts.values)
    for (const Placement &b : ends.values) {
      const Move *move = findMove(tensor, a, b);
      forward.push_back(move ? move->seconds * timesMoved(a, b, regather) : -1);
    }
  for (const Placement &a : starts.gradients)
    for (const Placement &b : ends.gradients) {
      const Move *move = moveBack(tensor, b, a);
      backward.push_back(move ? move->seconds : -1);
    }
  pairs.reserve(from.size() * to.size());
  for (auto [value, gradient] : starts.of)
    for (auto [toValue, toGradient] : ends.of) {
      double there = forward[value * ends.values.size() + toValue],
             back = backward[gradient * ends.gradients.size() + toGradient];
      pairs.push_back(there < 0 || back < 0 ? -1 : there + back);
    }
  return pairs;
}

ValueLayout UnitLayouts::made(int tensor, const Choice &producer) const {
  int op = info.producer[tensor];
  return {have(op, 0, producer), gradientWant(op, 0, producer)};
}

ValueLayout UnitLayouts::taken(const KindInfo::Consumer &consumer, const Choice &choice) const {
  return {want(consumer.op, consumer.operand, choice), gradientHave(consumer.op, consumer.operand, choice)};
}

//===- The whole unit
//------------------------------------------------------------------------------------===//

static void append(cost::OpList &to, const cost::OpList &from) {
  to.ops.insert(to.ops.end(), from.ops.begin(), from.ops.end());
  to.collectives.insert(to.collectives.end(), from.collectives.begin(), from.collectives.end());
}

/// The product that the unit's loss is of, through what is done to each element of it: its own backward pass
/// follows it at once, and reads what it has read. -1: there is none.
int UnitLayouts::findLossProduct() const {
  for (std::size_t i = kind.operations.size(); i-- > 0;) {
    if (!isLoss(kind, kind.operations[i]))
      continue;
    for (int maker = info.producer[info.root[kind.operations[i].operands[0].tensor]]; maker >= 0;) {
      const Operation &op = kind.operations[maker];
      if (op.kind == Operation::Contraction)
        return maker;
      int next = -1;
      for (const Use &use : op.operands)
        if (kind.tensors[use.tensor].kind == Tensor::Activation) {
          if (next >= 0 || op.kind != Operation::Streaming || scales(op))
            return -1;
          next = info.producer[info.root[use.tensor]];
        }
      maker = next;
    }
    return -1;
  }
  return -1;
}

/// What the operations do, and what parameters a rank holds for them. Empty, or what is wrong.
std::string UnitLayouts::addOperations(const UnitLayout &layout, Ledger &ledger, UnitCost &cost) const {
  std::map<int, double> parameters, frozen; // per tensor: elements on a rank
  std::set<int> read, readAgain, narrowed, multiplied, convolved;
  const int product = findLossProduct();
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    int op = static_cast<int>(i);
    if (std::string wrong = check(op, layout[i]); !wrong.empty())
      return "operation '" + kind.operations[i].name + "' " + wrong;
    Passes work = passes(op, layout[i]);
    append(ledger.forward, work.forward);
    append(ledger.backward, work.backward);
    append(ledger.weights, work.weights);
    gradientReduction(op, layout[i], &ledger);
    for (std::size_t o = 0; o < kind.operations[i].operands.size(); ++o) {
      int tensor = kind.operations[i].operands[o].tensor;
      const Tensor &t = kind.tensors[tensor];
      if (t.kind == Tensor::Parameter && t.stored + t.frozen > 0) {
        const double part = share(tensor, want(op, static_cast<int>(o), layout[i]));
        if (t.stored > 0)
          parameters[tensor] = std::max(parameters[tensor], t.stored * part);
        if (t.frozen > 0)
          frozen[tensor] = std::max(frozen[tensor], t.frozen * part);
        if (kind.operations[i].idle)
          continue;
        read.insert(tensor);
        // A table that is looked up in as well is brought together for the product apart.
        const bool isReadOnce = op == product && t.shared < 0 && info.consumers[tensor].size() == 1;
        if (!isReadOnce &&
            (kind.operations[i].operands[o].saved || (query.recompute == Recompute::Full && !query.remade)))
          readAgain.insert(tensor);
        const bool isTable = o == 0 && isLookup(kind, kind.operations[i]);
        if (kind.operations[i].kind == Operation::Contraction || isTable)
          narrowed.insert(tensor);
        if (kind.operations[i].kind == Operation::Contraction)
          multiplied.insert(tensor);
        if (std::any_of(kind.operations[i].factors.begin(), kind.operations[i].factors.end(),
                        [](const Factor &factor) { return factor.role == "in_channels"; }))
          convolved.insert(tensor);
      }
    }
  }
  for (auto [tensor, held] : frozen) {
    cost.frozen += held;
    cost.idleFrozen += read.count(tensor) ? 0 : held;
    cost.readAgain += readAgain.count(tensor) ? held : 0;
    cost.narrowedAgain += readAgain.count(tensor) ? held : 0;
    if (kind.tensors[tensor].sharedFrozen >= 0)
      cost.sharedFrozen[kind.tensors[tensor].sharedFrozen] += held;
  }
  double ranks = 1;
  for (const TensorAxis &axis : query.axes)
    ranks *= axis.isContext ? 1 : axis.size;
  for (auto [tensor, held] : parameters) {
    const Tensor &t = kind.tensors[tensor];
    const double again = readAgain.count(tensor) ? held : 0,
                 narrowedAgain = narrowed.count(tensor) ? again : 0;
    cost.parameters += held;
    cost.readAgain += again;
    cost.narrowedAgain += narrowedAgain;
    cost.largest = std::max(cost.largest, held);
    cost.convolved += convolved.count(tensor) ? held : 0;
    if (t.shared >= 0 && again > 0)
      cost.sharedReadAgain[t.shared] += again;
    if (t.shared >= 0 && narrowedAgain > 0)
      cost.sharedNarrowedAgain[t.shared] += narrowedAgain;
    if (t.shared >= 0 && multiplied.count(tensor))
      cost.sharedByProducts.insert(t.shared);
    cost.slots += t.stored / ranks;
    if (t.elements < t.stored)
      cost.unread += held * (1 - t.elements / t.stored);
    if (kind.tensors[tensor].shared >= 0)
      cost.shared[kind.tensors[tensor].shared] += held;
    if (kind.tensors[tensor].shared >= 0)
      cost.sharedSlots[kind.tensors[tensor].shared] += t.stored / ranks;
    if (narrowed.count(tensor)) {
      cost.narrowed += held;
      cost.narrowedTables += multiplied.count(tensor) == 0 && t.shared < 0 ? held : 0;
      cost.elsewhere += held - t.stored / ranks;
      if (t.shared >= 0) {
        cost.sharedNarrowed[t.shared] += held;
        cost.sharedElsewhere[t.shared] += held - t.stored / ranks;
      }
    }
  }
  return "";
}

/// The copy of a value that serves all its consumers for the least; none where the ends cannot meet.
std::optional<ValueLayout> UnitLayouts::meet(int tensor, const std::optional<ValueLayout> &from,
                                             const std::vector<End> &ends) const {
  std::optional<ValueLayout> best;
  double least = std::numeric_limits<double>::infinity();
  bool isEnd = false; // of two that take as long, the one that somebody takes as it is
  for (const ValueLayout &meeting : valueLayouts(tensor)) {
    double seconds = from ? moved(tensor, *from, meeting, false) : 0;
    for (std::size_t e = 0; e < ends.size() && seconds >= 0 && seconds <= least; ++e) {
      double one = moved(tensor, meeting, ends[e].layout, ends[e].isSaved);
      seconds = one < 0 ? -1 : seconds + one;
    }
    const bool isTaken =
        std::any_of(ends.begin(), ends.end(), [&](const End &end) { return end.layout == meeting; });
    if (seconds >= 0 && (seconds < least || (seconds == least && isTaken && !isEnd))) {
      best = meeting;
      least = seconds;
      isEnd = isTaken;
    }
  }
  return best;
}

/// It is brought once to where several take it, and gradients are added there before they are brought back.
std::vector<UnitLayouts::End> UnitLayouts::findEnds(int tensor, const UnitLayout &layout) const {
  std::vector<End> ends;
  for (const auto &consumer : info.consumers[tensor]) {
    const ValueLayout end = taken(consumer, layout[consumer.op]);
    auto known = std::find_if(ends.begin(), ends.end(), [&](const End &each) { return each.layout == end; });
    if (known == ends.end())
      known = ends.insert(known, {end});
    known->isSaved |= isSaved(consumer);
    known->isRead |= isSaved(consumer) || (query.remade && query.remade->isAgain[consumer.op]);
  }
  return ends;
}

/// What moves a value that is made again to where it is read.
void UnitLayouts::addValueAgain(int tensor, const UnitLayout &layout, Ledger &ledger) const {
  std::optional<ValueLayout> from;
  if (int producer = info.producer[tensor]; producer >= 0)
    from = made(tensor, layout[producer]);
  const std::vector<End> ends = findEnds(tensor, layout);
  const bool isAgain = isMadeAgain(tensor, true), isWritten = isMadeAgain(tensor, false);
  // The next unit reads what is made again at the end of this one.
  const bool isHandedOn =
      isAgain && std::find(kind.outputs.begin(), kind.outputs.end(), tensor) != kind.outputs.end();
  if (!isHandedOn && std::none_of(ends.begin(), ends.end(), [](const End &end) { return end.isRead; }))
    return;
  auto move = [&](const ValueLayout &to, bool isSaved) {
    // Ranks write their parts in another order before they bring them together.
    if (isAgain || (isWritten && share(tensor, to.value) > share(tensor, from->value)))
      moved(tensor, *from, to, isSaved, &ledger);
  };
  if (info.hasSharedCopy[tensor]) {
    const std::optional<ValueLayout> shared = meet(tensor, from, ends);
    if (from && shared)
      move(*shared, false);
    from = shared;
  }
  for (const End &end : ends)
    if (from && end.isRead)
      move(end.layout, end.isSaved);
}

/// Where a value lies, and what moves it there and on. Empty, or what is wrong.
std::string UnitLayouts::addValue(int tensor, const UnitLayout &layout, Ledger &ledger,
                                  Placement &lies) const {
  int producer = info.producer[tensor];
  const auto &consumers = info.consumers[tensor];
  std::optional<ValueLayout> from;
  if (producer >= 0)
    from = made(tensor, layout[producer]);
  const std::vector<End> ends = findEnds(tensor, layout);
  if (info.hasSharedCopy[tensor]) {
    std::optional<ValueLayout> shared = meet(tensor, from, ends);
    if (!shared)
      return "tensor '" + kind.tensors[tensor].name +
             "' cannot lie as its operations and the unit's boundary ask";
    lies = shared->value;
    if (from)
      moved(tensor, *from, *shared, false, &ledger);
    for (const End &end : ends)
      moved(tensor, *shared, end.layout, end.isSaved, &ledger);
    return "";
  }
  if (from && consumers.empty())
    lies = from->gradient; // as its value does, but whole where that is a partial sum
  if (!from || consumers.empty())
    return "";
  const ValueLayout &to = ends.front().layout;
  lies = from->value;
  for (std::size_t a = 0; a < query.axes.size(); ++a)
    if (from->value[a] == kPartial)
      lies[a] = to.value[a];
  if (moved(tensor, *from, to, isSaved(consumers.front()), &ledger) < 0)
    return "operation '" + kind.operations[consumers.front().op].name + "' cannot take tensor '" +
           kind.tensors[tensor].name + "' as it lies";
  return "";
}

static double bytesMoved(const cost::CollectiveWork &work) {
  return cost::CostModel::bytesMoved(work.kind, work.bytes, work.group.size) * work.count;
}

/// Of a list that is done in each microbatch: its collectives, by their names.
void UnitLayouts::addCollectives(const cost::OpList &list, UnitCost &cost) const {
  for (const cost::CollectiveWork &work : list.collectives) {
    const std::string name = work.isStatistics ? "statistics" : cost::toString(work.kind);
    cost.bytesByCollective[name] += bytesMoved(work);
    cost.secondsByCollective[name] += pricing.seconds(work);
  }
}

/// Whether a view has its operand's elements in another order, and so writes them.
static bool transposes(const Operation &op) {
  auto order = [&](const Use &use) {
    std::vector<FactorPosition> places = use.places;
    std::sort(places.begin(), places.end(), [](const FactorPosition &a, const FactorPosition &b) {
      return a.dim != b.dim ? a.dim < b.dim : a.inner > b.inner;
    });
    std::vector<int> factors;
    for (const FactorPosition &place : places)
      if (op.factors[place.factor].size > 1 || op.factors[place.factor].perSequence)
        factors.push_back(place.factor);
    return factors;
  };
  return order(op.operands[0]) != order(op.results[0]);
}

/// Whether what a tensor is made of is made again, but for views of what is kept: ranks exchange that before
/// they show it, once for both passes; but not before they join it or, unless `isExchangedBefore`, write it
/// in another order.
bool UnitLayouts::isMadeAgain(int tensor, bool isExchangedBefore) const {
  for (int maker = info.producer[tensor]; maker >= 0; maker = info.producer[tensor]) {
    const Operation &op = kind.operations[maker];
    if (op.kind != Operation::View || op.operands.size() > 1 || (!isExchangedBefore && transposes(op)))
      return query.remade->isAgain[maker];
    tensor = op.operands[0].tensor;
  }
  const auto input = std::find(kind.inputs.begin(), kind.inputs.end(), tensor);
  return input != kind.inputs.end() && query.remade->isInputAgain[input - kind.inputs.begin()];
}

/// The operations that a compiled step does again, what they read of parameters, and what moves their
/// results: as often as in the forward pass, where the backward pass does not bring them there anyway.
void UnitLayouts::doAgain(const UnitLayout &layout, cost::OpList &again, UnitCost &cost) const {
  std::set<int> isRead; // parameters, by the backward pass
  for (const Operation &op : kind.operations)
    for (const Use &use : op.operands)
      if (use.saved)
        isRead.insert(use.tensor);
  Ledger ledger;
  std::map<int, double> held, tables; // parameters, on a rank
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    if (!query.remade->isAgain[i])
      continue;
    const Operation &op = kind.operations[i];
    append(again, passes(static_cast<int>(i), layout[i]).forward);
    for (const Use &use : op.results)
      if (kind.tensors[use.tensor].kind == Tensor::Activation)
        addValueAgain(use.tensor, layout, ledger);
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      const Tensor &tensor = kind.tensors[op.operands[o].tensor];
      if (tensor.kind != Tensor::Parameter)
        continue;
      const double elements =
          (tensor.stored + tensor.frozen) *
          share(op.operands[o].tensor, want(static_cast<int>(i), static_cast<int>(o), layout[i]));
      const bool isTable = o == 0 && isLookup(kind, op); // which no gradient reads
      (isTable ? tables : held)[op.operands[o].tensor] = elements;
      if (isRead.insert(op.operands[o].tensor).second) {
        cost.readAgain += elements;
        const bool isNarrow = op.kind == Operation::Contraction || tensor.frozen > 0 || isTable;
        cost.narrowedAgain += isNarrow ? elements : 0;
        if (tensor.shared >= 0 && !isTable)
          cost.sharedReadAgain[tensor.shared] += elements;
        if (tensor.shared >= 0 && !isTable && isNarrow)
          cost.sharedNarrowedAgain[tensor.shared] += elements;
      }
    }
  }
  for (std::size_t i = 0; i < kind.inputs.size(); ++i)
    if (query.remade->isInputAgain[i])
      addValueAgain(kind.inputs[i], layout, ledger);
  for (auto [tensor, elements] : held)
    cost.againParameters += elements;
  for (auto [tensor, elements] : tables)
    cost.againTables += elements;
  append(again, ledger.once);
}

/// Of what a step does once to sum up gradients.
cost::GradientReduction UnitLayouts::reduction(const cost::OpList &list) const {
  cost::GradientReduction sum;
  sum.seconds = pricing.seconds(list).collective;
  for (const cost::CollectiveWork &work : list.collectives) {
    sum.bytes += bytesMoved(work);
    const bool isContext = std::any_of(query.axes.begin(), query.axes.end(), [&](const TensorAxis &axis) {
      return axis.isContext && axis.group.size == work.group.size && axis.group.stride == work.group.stride;
    });
    if (isContext)
      sum.contextBytes += bytesMoved(work);
    else
      sum.elsewhere += work.bytes * work.count * (1 - 1.0 / work.group.size);
  }
  return sum;
}

/// Seconds and bytes of what the ledger holds, but for what is made again.
void UnitLayouts::sum(const Ledger &ledger, Base &base) const {
  base.forward = pricing.seconds(ledger.forward);
  base.inputs = pricing.seconds(ledger.backward);
  base.gradients = pricing.seconds(ledger.weights);
  UnitCost &cost = base.cost;
  cost.forward = base.forward.total();
  cost.collective = base.forward.collective + base.inputs.collective;
  cost.forwardCollective = base.forward.collective;
  cost.reduction = reduction(ledger.step);
  cost.reduction.spread = ledger.spread;
  for (const auto &[number, list] : ledger.sharedStep)
    cost.sharedReduction[number] = reduction(list);
  for (const auto &[number, spread] : ledger.sharedSpread)
    if (spread > 0)
      cost.sharedReduction[number].spread = spread;
  for (const auto &[number, sum] : cost.sharedReduction)
    cost.reduction.add(1, sum);
  for (const auto *list : {&ledger.forward, &ledger.backward})
    addCollectives(*list, cost);
}

UnitLayouts::Base UnitLayouts::priceBase(const UnitLayout &layout) const {
  Base base;
  Ledger ledger;
  base.error = addOperations(layout, ledger, base.cost);
  base.lies.resize(kind.tensors.size());
  for (std::size_t t = 0; t < kind.tensors.size() && base.error.empty(); ++t)
    if (kind.tensors[t].kind == Tensor::Activation)
      base.error = addValue(static_cast<int>(t), layout, ledger, base.lies[t]);
  if (!base.error.empty())
    return base;
  sum(ledger, base);
  double ranks = 1;
  for (const TensorAxis &axis : query.axes)
    ranks *= axis.size;
  // Programs hand on what a rank holds; else ranks that hold the same hand on a part each.
  for (int tensor : kind.outputs)
    base.cost.outputBytes +=
        bytes(tensor) * (query.scoresInMemory ? share(tensor, base.lies[tensor]) : 1 / ranks);
  return base;
}

UnitCost UnitLayouts::price(const UnitLayout &layout, const Base &base, std::string &error) const {
  UnitCost cost = base.cost;
  if (!base.error.empty()) {
    error = base.error;
    return cost;
  }
  cost::OpList recompute;
  keep(layout, base.lies, cost, recompute);
  cost.narrowsAgain = query.remade != nullptr;
  if (query.remade)
    doAgain(layout, recompute, cost);
  else if (query.recompute == Recompute::Full) // its collectives are in the base already
    for (std::size_t i = 0; i < kind.operations.size(); ++i)
      append(recompute, passes(static_cast<int>(i), layout[i]).forward);
  // The host launches the whole backward pass in one go.
  const cost::ListTime again = pricing.seconds(recompute), &inputs = base.inputs, &gradients = base.gradients;
  double compute = inputs.compute + again.compute + gradients.compute;
  double launch = inputs.launch + again.launch + gradients.launch;
  double stretch = compute > 0 ? std::max(1.0, launch / compute) : 1;
  cost.backward = (inputs.compute + again.compute) * stretch + inputs.collective;
  cost.weightGradient = gradients.compute * stretch;
  if (query.remade) {
    cost.backward += again.collective;
    cost.collective += again.collective;
    addCollectives(recompute, cost);
  }
  return cost;
}

} // namespace colossal::planner
