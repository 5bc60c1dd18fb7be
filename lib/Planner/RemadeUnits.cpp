// The forward passes of all units one behind the other, as the compiler cuts them.
#include "RemadeUnits.h"

#include "UnitLayouts.h"

#include "colossal/FactorGraph/RecomputeSegments.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace colossal::planner {

namespace {

/// Values of all units. What a unit hands on is one value with what the next takes in.
class ForwardPass {
public:
  ForwardPass(const FactorGraph &graph, Recompute recompute, const KeptOperations *kept, double element);
  RemadeUnit describe(std::size_t unit) const;
  /// The operations that begin segments, by their ids.
  std::vector<int> findSegments() const;

private:
  struct Value {
    int op = -1;       ///< that makes it, of all units; -1: none
    unsigned last = 0; ///< op that uses it
    double bytes = 0;
    bool isActivation = false, isRead = false, isKeptByKind = false;
    bool isKept = false, isNeeded = false;
  };
  const UnitKind &kindOf(std::size_t unit) const { return graph.kinds[graph.units[unit]]; }
  void findRanks();
  void addUnit(std::size_t unit);
  std::vector<factors::ForwardValue> findOthers() const;
  void need(int value);
  bool isKeptByKind(std::size_t unit, std::size_t operation) const;

  const FactorGraph &graph;
  Recompute recompute;
  const KeptOperations *kept;
  double element;
  std::vector<Value> values;
  std::vector<std::vector<int>> numbers; ///< by unit and tensor: its value
  std::vector<int> firstOps;             ///< by unit
  std::vector<const Operation *> ops;
  std::vector<unsigned> ranks;     ///< by op: which of them it is in the program
  std::vector<std::size_t> unitOf; ///< by op
  std::vector<unsigned> cuts;
  std::vector<int> segments; ///< by op; what units have before ops of earlier segments is in those
};

} // namespace

bool ForwardPass::isKeptByKind(std::size_t unit, std::size_t operation) const {
  switch (recompute) {
  case Recompute::None: return true;
  case Recompute::Selective: return kindOf(unit).operations[operation].heavy;
  case Recompute::Full: return false;
  case Recompute::ByValue: return (*kept)[graph.units[unit]][operation];
  }
  return true;
}

/// Units may have a mask before what a program computes first. What was added comes last.
void ForwardPass::findRanks() {
  std::vector<int> places; // by op
  for (std::size_t unit = 0; unit < graph.units.size(); ++unit)
    for (std::size_t i = 0; i < kindOf(unit).operations.size(); ++i) {
      const int id = graph.ids.empty() ? static_cast<int>(places.size()) : graph.ids[unit][i];
      places.push_back(id < 0 ? std::numeric_limits<int>::max() : id);
    }
  std::vector<unsigned> order(places.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return places[a] < places[b]; });
  ranks.resize(places.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank)
    ranks[order[rank]] = static_cast<unsigned>(rank);
}

void ForwardPass::addUnit(std::size_t unit) {
  const UnitKind &kind = kindOf(unit);
  std::vector<int> &own = numbers.emplace_back(kind.tensors.size(), -1);
  if (unit > 0) {
    const UnitKind &before = kindOf(unit - 1);
    for (std::size_t i = 0; i < kind.inputs.size() && i < before.outputs.size(); ++i)
      own[kind.inputs[i]] = numbers[unit - 1][before.outputs[i]];
  }
  for (std::size_t t = 0; t < own.size(); ++t)
    if (own[t] < 0) {
      const Tensor &tensor = kind.tensors[t];
      own[t] = static_cast<int>(values.size());
      Value value;
      value.bytes = tensor.elements * (tensor.isFloat ? element : tensor.bytes);
      value.isActivation = tensor.kind == Tensor::Activation;
      values.push_back(value);
    }
  firstOps.push_back(static_cast<int>(ops.size()));
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    const auto number = static_cast<unsigned>(ops.size());
    ops.push_back(&op);
    unitOf.push_back(unit);
    const bool hasGradient = std::any_of(op.operands.begin(), op.operands.end(),
                                         [](const Use &use) { return use.gradientFlops > 0; });
    for (const Use &use : op.operands) {
      Value &value = values[own[use.tensor]];
      value.last = std::max(value.last, ranks[number]);
      value.isRead |= hasGradient && use.saved;
    }
    for (const Use &use : op.results) {
      Value &value = values[own[use.tensor]];
      value.op = static_cast<int>(number);
      value.last = std::max(value.last, ranks[number]);
      value.isRead |= hasGradient && use.saved;
      value.isKeptByKind = isKeptByKind(unit, i);
    }
  }
}

/// What a program has beside the values of units: masks of attention, which it computes from its inputs
/// first, and of a loss which class each label is, or how far what the model gives back is from its target.
std::vector<factors::ForwardValue> ForwardPass::findOthers() const {
  std::map<std::pair<std::string, double>, factors::ForwardValue> masks;
  std::vector<factors::ForwardValue> others;
  bool hasClasses = false;
  for (std::size_t o = 0; o < ops.size(); ++o) {
    const Operation &op = *ops[o];
    const UnitKind &kind = kindOf(unitOf[o]);
    for (std::size_t i = 3; op.kind == Operation::Attention && i < op.operands.size(); ++i) {
      const Tensor &mask = kind.tensors[op.operands[i].tensor];
      if (mask.kind == Tensor::Given && mask.perSequence && !mask.isFixed)
        masks[{mask.name, mask.elements}] = {0, ranks[o],
                                             mask.elements * (mask.isFloat ? element : mask.bytes), true};
    }
    constexpr double kBool = 1;
    const Tensor &first = kind.tensors[op.operands[0].tensor];
    if (isLoss(kind, op)) {
      others.push_back({ranks[o], ranks[o], first.elements * kBool, true});
      hasClasses = true;
    }
  }
  const auto last = static_cast<unsigned>(ops.size() - 1);
  for (std::size_t unit = graph.units.size(); !hasClasses && unit-- > 0;)
    if (const UnitKind &kind = kindOf(unit); !kind.results.empty()) {
      others.push_back({last, last, kind.tensors[kind.results.front()].elements * element, true});
      break;
    }
  for (const auto &[name, mask] : masks)
    others.push_back(mask);
  return others;
}

/// The backward pass reads a value, or what it makes again does.
void ForwardPass::need(int number) {
  std::vector<int> open{number};
  while (!open.empty()) {
    Value &value = values[open.back()];
    open.pop_back();
    if (value.isNeeded || !value.isActivation)
      continue;
    value.isNeeded = true;
    if (value.isKept)
      continue;
    const std::size_t unit = unitOf[value.op];
    for (const Use &use : ops[value.op]->operands)
      open.push_back(numbers[unit][use.tensor]);
  }
}

ForwardPass::ForwardPass(const FactorGraph &graph, Recompute recompute, const KeptOperations *kept,
                         double element)
    : graph(graph), recompute(recompute), kept(kept), element(element) {
  findRanks();
  for (std::size_t unit = 0; unit < graph.units.size(); ++unit)
    addUnit(unit);
  std::vector<factors::ForwardValue> cuttable = findOthers();
  for (const Value &value : values)
    if (value.isActivation && value.op >= 0 && !value.isKeptByKind)
      cuttable.push_back({ranks[value.op], value.last, value.bytes, value.isRead});
  cuts = factors::RecomputeSegments(static_cast<unsigned>(ops.size()), cuttable).choose();
  for (Value &value : values)
    value.isKept = value.op < 0 || value.isKeptByKind ||
                   factors::RecomputeSegments::isKept(cuts, ranks[value.op], value.last);
  for (std::size_t v = 0; v < values.size(); ++v)
    if (values[v].isRead)
      need(static_cast<int>(v));
  segments.resize(ops.size());
  for (std::size_t o = ops.size(); o-- > 0;) {
    segments[o] = static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), ranks[o]) - cuts.begin());
    if (o + 1 < ops.size())
      segments[o] = std::min(segments[o], segments[o + 1]);
  }
}

RemadeUnit ForwardPass::describe(std::size_t unit) const {
  RemadeUnit remade;
  for (int number : numbers[unit]) {
    const Value &value = values[number];
    remade.fates.push_back(!value.isNeeded ? RemadeUnit::Gone
                           : value.isKept  ? RemadeUnit::Kept
                           : value.isRead  ? RemadeUnit::Again
                                           : RemadeUnit::Gone);
  }
  auto segmentOf = [&](int op) { return segments[op]; };
  const int first = firstOps[unit];
  const UnitKind &kind = kindOf(unit);
  auto isMadeAgain = [&](int tensor) {
    const Value &value = values[numbers[unit][tensor]];
    return value.isNeeded && !value.isKept;
  };
  for (const Operation &op : kind.operations)
    remade.isAgain.push_back(std::any_of(op.results.begin(), op.results.end(),
                                         [&](const Use &use) { return isMadeAgain(use.tensor); }));
  for (int input : kind.inputs)
    remade.isInputAgain.push_back(isMadeAgain(input));
  for (std::size_t i = 0; i < kind.operations.size(); ++i)
    remade.segments.push_back(segmentOf(first + static_cast<int>(i)) - segmentOf(first));
  remade.continues = first > 0 && segmentOf(first) == segmentOf(first - 1);
  if (const int ends = remade.segments.back(); segmentOf(first) + ends == segments.back())
    remade.last = ends;
  return remade;
}

std::vector<int> ForwardPass::findSegments() const {
  std::vector<int> begins(cuts.size(), -1);
  for (std::size_t o = 0; o < ops.size(); ++o)
    if (auto cut = std::lower_bound(cuts.begin(), cuts.end(), ranks[o]);
        cut != cuts.end() && *cut == ranks[o]) {
      const int inUnit = static_cast<int>(o) - firstOps[unitOf[o]];
      begins[cut - cuts.begin()] = graph.ids.empty() ? static_cast<int>(o) : graph.ids[unitOf[o]][inUnit];
    }
  return begins;
}

RemadeUnits findRemadeUnits(const FactorGraph &graph, Recompute recompute, const KeptOperations *kept,
                            double element) {
  const ForwardPass pass(graph, recompute, kept, element);
  RemadeUnits found;
  found.segments = pass.findSegments();
  found.kinds.resize(graph.kinds.size());
  for (std::size_t k = 0; k < graph.kinds.size(); ++k)
    found.graphKinds.push_back(static_cast<int>(k));
  std::vector<bool> isSeen(graph.kinds.size(), false);
  for (std::size_t unit = 0; unit < graph.units.size(); ++unit) {
    const int kind = graph.units[unit];
    RemadeUnit remade = pass.describe(unit);
    if (!isSeen[kind]) {
      isSeen[kind] = true;
      found.kinds[kind] = remade;
    }
    std::size_t at = 0;
    while (at < found.kinds.size() && !(found.graphKinds[at] == kind && found.kinds[at] == remade))
      ++at;
    if (at == found.kinds.size()) {
      found.kinds.push_back(std::move(remade));
      found.graphKinds.push_back(kind);
    }
    found.units.push_back(static_cast<int>(at));
  }
  return found;
}

} // namespace colossal::planner
