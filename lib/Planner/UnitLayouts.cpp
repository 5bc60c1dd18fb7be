// Price of a unit under a layout.
#include "UnitLayouts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace colossal::planner {

namespace {
/// An uneven split may compute at most this share of padding.
constexpr double kPadding = 0.34;
/// Of a unit's parameters: smaller ones lie as is fastest, whatever a search pays for memory.
constexpr double kSmallPart = 0.01;
} // namespace

KindInfo::KindInfo(const UnitKind &kind) : kind(kind) {
  std::size_t count = kind.tensors.size();
  places.resize(count);
  producer.assign(count, -1);
  consumers.resize(count);
  root.resize(count);
  isBoundary.assign(count, false);
  hasSharedCopy.assign(count, false);
  for (std::size_t t = 0; t < count; ++t)
    root[t] = static_cast<int>(t);
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    firstUse.push_back(codes.size());
    classFactors.emplace_back();
    for (std::size_t f = 0; f < op.factors.size(); ++f)
      if (op.factors[f].kind == Factor::Reduction && op.factors[f].role == "vocabulary")
        classFactors.back().push_back(static_cast<int>(f));
    auto intern = [&](const Use &use) {
      codes.emplace_back(op.factors.size(), kWhole);
      for (const FactorPosition &place : use.places) {
        PositionKey key{place.dim, op.factors[place.factor].size, place.inner};
        auto &known = places[use.tensor];
        auto at = std::find(known.begin(), known.end(), key);
        codes.back()[place.factor] = static_cast<Code>(at - known.begin() + 1);
        if (at == known.end())
          known.push_back(key);
      }
    };
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      intern(op.operands[o]);
      consumers[op.operands[o].tensor].push_back({static_cast<int>(i), static_cast<int>(o)});
    }
    for (const Use &result : op.results) {
      intern(result);
      producer[result.tensor] = static_cast<int>(i);
      if (op.kind == Operation::View && !op.operands.empty())
        root[result.tensor] = root[op.operands.front().tensor];
    }
  }
  for (std::size_t t = 0; t < count; ++t)
    hasSharedCopy[t] = kind.tensors[t].kind == Tensor::Activation && consumers[t].size() > 1;
  products.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    for (std::size_t c = 0; c < consumers[t].size() && kind.tensors[t].kind == Tensor::Activation; ++c)
      if (kind.operations[consumers[t][c].op].kind == Operation::Contraction)
        products[t].push_back(static_cast<int>(c));
    if (products[t].size() < 2 || products[t].size() == consumers[t].size())
      products[t].clear();
  }
  for (const auto *boundary : {&kind.inputs, &kind.outputs})
    for (int tensor : *boundary)
      hasSharedCopy[tensor] = isBoundary[tensor] = true;
  parameters = kind.parameters() + kind.frozen();
  findTrained();
}

static bool sumsOverVocabulary(const Operation &op) {
  return std::any_of(op.factors.begin(), op.factors.end(), [](const Factor &factor) {
    return factor.role == "vocabulary" && factor.kind == Factor::Reduction;
  });
}

bool isLoss(const UnitKind &kind, const Operation &op) {
  return sumsOverVocabulary(op) && kind.tensors[op.operands[0].tensor].kind == Tensor::Activation;
}

bool isLookup(const UnitKind &kind, const Operation &op) {
  return sumsOverVocabulary(op) && kind.tensors[op.operands[0].tensor].kind == Tensor::Parameter;
}

void KindInfo::findTrained() {
  std::vector<bool> hasGradient(kind.tensors.size(), false);
  bool ends = kind.outputs.empty(), isKnown = !ends;
  for (int output : kind.outputs)
    hasGradient[output] = !kind.tensors[output].isConstant;
  for (std::size_t i = 0; i < kind.operations.size() && ends; ++i)
    if (const Operation &op = kind.operations[i]; isLoss(kind, op)) {
      hasGradient[op.results[0].tensor] = isKnown = true;
      ends = false;
    }
  if (ends && !kind.results.empty())
    hasGradient[kind.results.front()] = isKnown = true;
  isTrained.assign(kind.operations.size(), !isKnown);
  for (std::size_t i = kind.operations.size(); i-- > 0 && isKnown;) {
    const Operation &op = kind.operations[i];
    isTrained[i] = std::any_of(op.results.begin(), op.results.end(),
                               [&](const Use &use) { return hasGradient[use.tensor]; });
    for (const Use &use : op.operands)
      if (isTrained[i] && use.gradientFlops > 0)
        hasGradient[use.tensor] = true;
  }
}

Code KindInfo::find(int tensor, const PositionKey &key) const {
  const auto &known = places[tensor];
  auto at = std::find(known.begin(), known.end(), key);
  return at == known.end() ? kWhole : static_cast<Code>(at - known.begin() + 1);
}

//===- Choices
//-------------------------------------------------------------------------------------------===//

/// Why a choice is not allowed, as far as it takes no text to say.
struct UnitLayouts::Refusal {
  enum Why { None, NoFactor, Whole, Batch, Context, Uneven } why = None;
  int factor = 0;
  double ranks = 1;
};

UnitLayouts::Refusal UnitLayouts::refuse(int op, const Choice &choice) const {
  const Operation &operation = kind.operations[op];
  const std::size_t count = query.axes.size();
  for (std::size_t a = 0; a < count; ++a) {
    int f = choice[a];
    if (f < 0)
      continue;
    if (f >= static_cast<int>(operation.factors.size()))
      return {Refusal::NoFactor, f};
    if (isFixed(operation.factors[f]))
      return {Refusal::Whole, f};
    // A stage's microbatch is split over data ranks, not over the axes inside a stage.
    if (operation.factors[f].perSequence)
      return {Refusal::Batch, f};
    if (query.axes[a].isContext)
      for (std::size_t o = 0; o < operation.operands.size(); ++o)
        if (kind.tensors[operation.operands[o].tensor].kind == Tensor::Parameter &&
            info.operandCode(op, static_cast<int>(o), f) != kWhole)
          return {Refusal::Context, f};
  }
  int uneven = -1;
  double ranks = 1;
  for (std::size_t a = 0; a < count; ++a) {
    int f = choice[a];
    if (f < 0 || (uneven >= 0 && f > uneven)) // the first factor is told of
      continue;
    double size = operation.factors[f].size, split = ranksOf(f, choice);
    if (split > 1 && (size < split || std::ceil(size / split) * split > size * (1 + kPadding))) {
      uneven = f;
      ranks = split;
    }
  }
  return uneven < 0 ? Refusal() : Refusal{Refusal::Uneven, uneven, ranks};
}

std::string UnitLayouts::check(int op, const Choice &choice) const {
  Refusal refusal = refuse(op, choice);
  auto factor = [&] { return "factor '" + kind.operations[op].factors[refusal.factor].role + "'"; };
  switch (refusal.why) {
  case Refusal::None: break;
  case Refusal::NoFactor: return "has no such factor";
  case Refusal::Whole: return "cannot split " + factor();
  case Refusal::Batch: return "cannot split the batch over a tensor axis";
  case Refusal::Context: return "cannot split parameters over the context axis";
  case Refusal::Uneven:
    return "cannot split " + factor() + " of " +
           std::to_string(static_cast<long long>(kind.operations[op].factors[refusal.factor].size)) +
           " over " + std::to_string(static_cast<long long>(refusal.ranks)) + " ranks";
  }
  return "";
}

std::vector<Choice> UnitLayouts::choices(int op) const {
  Choice none;
  none.fill(-1);
  std::vector<Choice> found{none};
  int factors = static_cast<int>(kind.operations[op].factors.size());
  for (std::size_t a = 0; a < query.axes.size(); ++a) {
    std::size_t before = found.size();
    for (std::size_t i = 0; i < before; ++i)
      for (int f = 0; f < factors; ++f) {
        Choice next = found[i];
        next[a] = static_cast<std::int8_t>(f);
        if (refuse(op, next).why == Refusal::None)
          found.push_back(next);
      }
  }
  return found;
}

std::vector<ValueLayout> UnitLayouts::valueLayouts(int tensor) const {
  std::vector<ValueLayout> found{ValueLayout()};
  bool isBoundary = false;
  std::vector<std::optional<Code>> fixed(query.axes.size());
  auto fix = [&](const std::vector<int> &boundary) {
    for (std::size_t i = 0; i < boundary.size(); ++i)
      if (boundary[i] == tensor) {
        isBoundary = true;
        if (i == 0)
          for (std::size_t a = 0; a < query.axes.size(); ++a)
            fixed[a] = query.boundary[a] ? info.find(tensor, *query.boundary[a]) : kWhole;
        else // further tensors of a boundary pass whole
          for (auto &code : fixed)
            code = kWhole;
      }
  };
  fix(kind.inputs);
  fix(kind.outputs);
  int count = static_cast<int>(info.places[tensor].size());
  for (std::size_t a = 0; a < query.axes.size(); ++a) {
    std::vector<ValueLayout> next;
    for (const ValueLayout &meeting : found)
      for (int code = 0; code <= count; ++code) {
        if (fixed[a] ? code != *fixed[a]
                     : code > 0 && info.places[tensor][code - 1].size < query.axes[a].size)
          continue;
        ValueLayout one = meeting;
        one.value[a] = one.gradient[a] = static_cast<Code>(code);
        next.push_back(one);
        if (code == kWhole && !isBoundary) {
          one.gradient[a] = kPartial;
          next.push_back(one);
        }
      }
    found = std::move(next);
  }
  return found;
}

Placement UnitLayouts::have(int op, int result, const Choice &choice) const {
  Placement placement{};
  for (std::size_t a = 0; a < query.axes.size(); ++a)
    if (choice[a] >= 0) {
      Code code = info.resultCode(op, result, choice[a]);
      placement[a] = code ? code : kPartial;
    }
  return placement;
}

Placement UnitLayouts::want(int op, int operand, const Choice &choice) const {
  Placement placement{};
  for (std::size_t a = 0; a < query.axes.size(); ++a)
    if (choice[a] >= 0)
      placement[a] = info.operandCode(op, operand, choice[a]);
  return placement;
}

Placement UnitLayouts::gradientHave(int op, int operand, const Choice &choice) const {
  Placement placement = want(op, operand, choice);
  for (std::size_t a = 0; a < query.axes.size(); ++a)
    if (choice[a] >= 0 && placement[a] == kWhole)
      placement[a] = kPartial;
  return placement;
}

Placement UnitLayouts::gradientWant(int op, int result, const Choice &choice) const {
  Placement placement = have(op, result, choice);
  for (Code &code : placement)
    if (code == kPartial)
      code = kWhole;
  return placement;
}

//===- Operations
//----------------------------------------------------------------------------------------===//

double UnitLayouts::ranksOf(int factor, const Choice &choice) const {
  double split = 1;
  for (std::size_t a = 0; a < query.axes.size(); ++a)
    if (choice[a] == factor)
      split *= query.axes[a].size;
  return split;
}

double UnitLayouts::local(int op, int factor, const Choice &choice) const {
  const Factor &f = kind.operations[op].factors[factor];
  double split = ranksOf(factor, choice);
  double size = split > 1 ? std::ceil(f.size / split) : f.size;
  return f.perSequence ? size * query.microbatch : size;
}

double UnitLayouts::share(int tensor, const Placement &placement) const {
  double part = 1;
  for (std::size_t a = 0; a < query.axes.size(); ++a) {
    const Code code = placement[a];
    double split = 1;
    for (std::size_t b = 0; b < query.axes.size() && code > 0; ++b)
      if (placement[b] == code)
        split *= b < a ? 0 : query.axes[b].size; // once, at the first of its axes
    if (split > 1) {
      const double size = info.places[tensor][code - 1].size;
      part *= std::ceil(size / split) / size;
    }
  }
  return part;
}

double UnitLayouts::bytes(int tensor) const {
  const Tensor &t = kind.tensors[tensor];
  double element = t.isFloat ? types.activation : t.bytes; // products read narrow copies of parameters
  return t.elements * element * (t.perSequence ? query.microbatch : 1);
}

static bool isIn(const Use &use, int factor) {
  for (const FactorPosition &place : use.places)
    if (place.factor == factor)
      return true;
  return false;
}

UnitLayouts::Passes UnitLayouts::passes(int op, const Choice &choice) const {
  switch (kind.operations[op].kind) {
  case Operation::View: return {};
  case Operation::Contraction: return contract(op, choice);
  case Operation::Attention: return attend(op, choice);
  case Operation::Streaming: return stream(op, choice);
  }
  return {};
}

UnitLayouts::Passes UnitLayouts::contract(int op, const Choice &choice) const {
  const Operation &operation = kind.operations[op];
  const Use &lhs = operation.operands[0], &rhs = operation.operands[1], &out = operation.results[0];
  double batch = 1, m = 1, n = 1, k = 1;
  for (int f = 0; f < static_cast<int>(operation.factors.size()); ++f) {
    bool inLhs = isIn(lhs, f), inRhs = isIn(rhs, f), inOut = isIn(out, f);
    (inLhs && inRhs && inOut ? batch : inLhs && inRhs ? k : inLhs ? m : n) *= local(op, f, choice);
  }
  Passes result;
  result.forward.ops.push_back(cost::contraction(batch, m, n, k, types.compute));
  for (int operand = 0; operand < 2; ++operand) {
    const Use &use = operation.operands[operand];
    if (use.gradientFlops <= 0)
      continue;
    auto work = operand == 0 ? cost::contraction(batch, m, k, n, types.compute)
                             : cost::contraction(batch, k, n, m, types.compute);
    bool isParameter = kind.tensors[use.tensor].kind == Tensor::Parameter;
    (isParameter ? result.weights : result.backward).ops.push_back(work);
  }
  return result;
}

UnitLayouts::Passes UnitLayouts::attend(int op, const Choice &choice) const {
  const Operation &operation = kind.operations[op];
  const Use &queries = operation.operands[0], &keys = operation.operands[1], &out = operation.results[0];
  double batch = 1, m = 1, n = 1, k = 1, split = 1;
  for (int f = 0; f < static_cast<int>(operation.factors.size()); ++f) {
    bool inQuery = isIn(queries, f), inKey = isIn(keys, f), inOut = isIn(out, f);
    // Batch and heads; queries; keys; the width of a head. Value's own width is taken to be key's.
    if (inQuery && inOut && (inKey || operation.factors[f].role == "group"))
      batch *= local(op, f, choice);
    else if (inQuery && inOut)
      m *= local(op, f, choice), split *= ranksOf(f, choice);
    else if (inKey && inQuery)
      k *= local(op, f, choice);
    else if (inKey)
      n *= local(op, f, choice);
  }
  Passes result;
  if (query.fusedAttention) {
    cost::OpWork work;
    work.kind = cost::OpKind::FusedAttention;
    work.type = types.compute;
    work.attention =
        cost::AttentionKernel::Native; // who compiles for a device takes the kernel written for it
    work.batch = batch;
    work.m = m;
    work.n = n;
    work.k = k;
    // A rank has neighbouring tokens. Under a causal mask the one with the last of them has the most keys,
    // and all wait for it.
    work.fraction = operation.causal ? 1 - 0.5 / split : 1;
    result.forward.ops.push_back(work);
    work.passes = 2.5;
    work.launches = 3;
    result.backward.ops.push_back(work);
    return result;
  }
  // As a training framework of separate kernels does it: scale, mask and softmax in one, dropout and its
  // mask of one byte in another (cost/Transformer.h).
  double scores = batch * m * n * types.activation;
  result.forward.ops = {cost::contraction(batch, m, n, k, types.compute), cost::streaming(2 * scores),
                        cost::streaming(2.5 * scores), cost::contraction(batch, m, k, n, types.compute)};
  for (int i = 0; i < 2; ++i) {
    result.backward.ops.push_back(cost::contraction(batch, m, n, k, types.compute));
    result.backward.ops.push_back(cost::contraction(batch, m, k, n, types.compute));
  }
  result.backward.ops.push_back(cost::streaming(3 * scores));
  result.backward.ops.push_back(cost::streaming(2.5 * scores));
  return result;
}

UnitLayouts::Passes UnitLayouts::stream(int op, const Choice &choice) const {
  const Operation &operation = kind.operations[op];
  double forward = 0, backward = 0;
  bool hasGradient = false;
  for (std::size_t o = 0; o < operation.operands.size(); ++o) {
    const Use &use = operation.operands[o];
    double size = bytes(use.tensor) * resharder.share(want(op, static_cast<int>(o), choice));
    forward += use.moved ? size : 0;
    if (use.gradientFlops > 0) {
      hasGradient = true;
      backward += use.moved ? size : 0; // written
    }
    backward += use.saved && use.gradientFlops > 0 ? size : 0; // read again
  }
  for (std::size_t r = 0; r < operation.results.size(); ++r) {
    const Use &use = operation.results[r];
    double size = bytes(use.tensor) * resharder.share(have(op, static_cast<int>(r), choice));
    forward += use.moved ? size : 0;
    backward += use.moved ? size : 0;
  }
  Passes result;
  double launches = operation.light ? 0 : 1;
  result.forward.ops.push_back(cost::streaming(forward, launches));
  if (hasGradient)
    result.backward.ops.push_back(cost::streaming(backward, launches));
  return result;
}

/// Once a step: sums of gradients of parameters over the axes that split the operation but not the parameter.
double UnitLayouts::gradientReduction(int op, const Choice &choice, cost::OpList *list) const {
  double seconds = 0;
  const Operation &operation = kind.operations[op];
  for (std::size_t o = 0; o < operation.operands.size(); ++o) {
    const Use &use = operation.operands[o];
    const Tensor &tensor = kind.tensors[use.tensor];
    if (tensor.kind != Tensor::Parameter || tensor.stored <= 0 || use.gradientFlops <= 0)
      continue;
    Placement from = gradientHave(op, static_cast<int>(o), choice),
              to = want(op, static_cast<int>(o), choice);
    if (const Move *move = resharder.find(tensor.stored * types.reduced, from, to)) {
      seconds += move->seconds;
      if (list)
        list->collectives.insert(list->collectives.end(), move->collectives.begin(), move->collectives.end());
    }
  }
  return seconds;
}

UnitLayouts::OpTime UnitLayouts::opTime(int op, const Choice &choice) const {
  Passes work = passes(op, choice);
  OpTime time;
  time.forward = pricing.seconds(work.forward).total();
  time.passes = time.forward + pricing.seconds(work.backward).total() + pricing.seconds(work.weights).total();
  time.reduction = gradientReduction(op, choice, nullptr);
  return time;
}

double UnitLayouts::opSeconds(int op, const Choice &choice, const OpTime &time) const {
  double seconds = time.passes;
  const Operation &operation = kind.operations[op];
  if (query.recompute == Recompute::Full ||
      (query.recompute == Recompute::Selective && operation.kind == Operation::Streaming))
    seconds += time.forward;
  seconds += time.reduction / std::max(1.0, query.microbatches);
  if (query.parameterPrice > 0)
    for (std::size_t o = 0; o < operation.operands.size(); ++o) {
      const Tensor &tensor = kind.tensors[operation.operands[o].tensor];
      if (tensor.kind == Tensor::Parameter && tensor.stored + tensor.frozen >= kSmallPart * info.parameters)
        seconds += query.parameterPrice *
                   (tensor.stored * (types.parameter + types.narrow + types.gradient + types.optimizer) +
                    tensor.frozen * types.frozen()) *
                   resharder.share(want(op, static_cast<int>(o), choice));
    }
  return seconds;
}

//===- Values between operations
//-------------------------------------------------------------------------===//

/// All that a unit does, where it is asked for.
struct UnitLayouts::Ledger {
  cost::OpList forward, backward, weights;
  cost::OpList once; ///< of the forward pass: what the backward pass does not move again
  cost::OpList step; ///< once a step
};

/// How often a value is brought from one placement to the other: once forward, and again where the backward
/// pass reads it and does not find it there.
int UnitLayouts::timesMoved(const Placement &from, const Placement &to, bool regather) const {
  if (query.recompute == Recompute::Full)
    return 2;
  bool wasPartial = std::find(from.begin(), from.end(), kPartial) != from.end();
  // Of a partial value the sum is kept, not its parts; and a compiled step keeps what ranks have exchanged.
  return regather && !query.scoresInMemory && from != to && !wasPartial ? 2 : 1;
}

/// What brings a value from one placement to the other, with the padding of that which has more of it.
const Move *UnitLayouts::findMove(int tensor, const Placement &from, const Placement &to) const {
  auto padding = [&](const Placement &placement) {
    return share(tensor, placement) / resharder.share(placement);
  };
  return resharder.find(bytes(tensor) * std::max(padding(from), padding(to)), from, to);
}

/// What brings a gradient back; null where nothing does.
const Move *UnitLayouts::moveBack(int tensor, const Placement &from, const Placement &to) const {
  static const Move nothing;
  const Tensor &t = kind.tensors[tensor];
  return t.kind == Tensor::Activation && t.isFloat && !t.isConstant ? findMove(tensor, from, to) : &nothing;
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

/// What the operations do, and what parameters a rank holds for them. Empty, or what is wrong.
std::string UnitLayouts::addOperations(const UnitLayout &layout, Ledger &ledger, UnitCost &cost) const {
  std::map<int, double> parameters, frozen; // per tensor: elements on a rank
  std::set<int> readAgain, narrowed;
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    int op = static_cast<int>(i);
    if (std::string wrong = check(op, layout[i]); !wrong.empty())
      return "operation '" + kind.operations[i].name + "' " + wrong;
    Passes work = passes(op, layout[i]);
    append(ledger.forward, work.forward);
    append(ledger.backward, work.backward);
    append(ledger.weights, work.weights);
    gradientReduction(op, layout[i], &ledger.step);
    for (std::size_t o = 0; o < kind.operations[i].operands.size(); ++o) {
      int tensor = kind.operations[i].operands[o].tensor;
      const Tensor &t = kind.tensors[tensor];
      if (t.kind == Tensor::Parameter && t.stored + t.frozen > 0) {
        const double part = share(tensor, want(op, static_cast<int>(o), layout[i]));
        if (t.stored > 0)
          parameters[tensor] = std::max(parameters[tensor], t.stored * part);
        if (t.frozen > 0)
          frozen[tensor] = std::max(frozen[tensor], t.frozen * part);
        if (kind.operations[i].operands[o].saved || query.recompute == Recompute::Full)
          readAgain.insert(tensor);
        const bool isTable = o == 0 && isLookup(kind, kind.operations[i]);
        if (kind.operations[i].kind == Operation::Contraction || isTable)
          narrowed.insert(tensor);
      }
    }
  }
  for (auto [tensor, held] : frozen) {
    cost.frozen += held;
    cost.readAgain += readAgain.count(tensor) ? held : 0;
    if (kind.tensors[tensor].shared >= 0)
      cost.sharedFrozen[kind.tensors[tensor].shared] += held;
  }
  double ranks = 1;
  for (const TensorAxis &axis : query.axes)
    ranks *= axis.isContext ? 1 : axis.size;
  for (auto [tensor, held] : parameters) {
    cost.parameters += held;
    cost.readAgain += readAgain.count(tensor) ? held : 0;
    cost.largest = std::max(cost.largest, held);
    const Tensor &t = kind.tensors[tensor];
    cost.slots += t.stored / ranks;
    if (t.elements < t.stored)
      cost.unread += held * (1 - t.elements / t.stored);
    if (kind.tensors[tensor].shared >= 0)
      cost.shared[kind.tensors[tensor].shared] += held;
    if (kind.tensors[tensor].shared >= 0)
      cost.sharedSlots[kind.tensors[tensor].shared] += t.stored / ranks;
    if (narrowed.count(tensor)) {
      cost.narrowed += held;
      if (t.shared >= 0)
        cost.sharedNarrowed[t.shared] += held;
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

/// Where a value lies, and what moves it there and on. Empty, or what is wrong.
std::string UnitLayouts::addValue(int tensor, const UnitLayout &layout, Ledger &ledger,
                                  Placement &lies) const {
  int producer = info.producer[tensor];
  const auto &consumers = info.consumers[tensor];
  std::optional<ValueLayout> from;
  if (producer >= 0)
    from = made(tensor, layout[producer]);
  // It is brought once to where several take it, and gradients are added there before they are brought back.
  std::vector<End> ends;
  for (const auto &consumer : consumers) {
    const ValueLayout end = taken(consumer, layout[consumer.op]);
    const auto known =
        std::find_if(ends.begin(), ends.end(), [&](const End &each) { return each.layout == end; });
    if (known == ends.end())
      ends.push_back({end, isSaved(consumer)});
    else
      known->isSaved |= isSaved(consumer);
  }
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
    const std::string name = cost::toString(work.kind);
    cost.bytesByCollective[name] += bytesMoved(work);
    cost.secondsByCollective[name] += pricing.seconds(work);
  }
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
  Placement lies;
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    if (!query.remade->isAgain[i])
      continue;
    const Operation &op = kind.operations[i];
    append(again, passes(static_cast<int>(i), layout[i]).forward);
    for (const Use &use : op.results)
      if (kind.tensors[use.tensor].kind == Tensor::Activation)
        addValue(use.tensor, layout, ledger, lies);
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      const Tensor &tensor = kind.tensors[op.operands[o].tensor];
      if (tensor.kind == Tensor::Parameter && isRead.insert(op.operands[o].tensor).second)
        cost.readAgain +=
            (tensor.stored + tensor.frozen) *
            share(op.operands[o].tensor, want(static_cast<int>(i), static_cast<int>(o), layout[i]));
    }
  }
  append(again, ledger.once);
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
  cost.stepReduction = pricing.seconds(ledger.step).collective;
  for (const cost::CollectiveWork &work : ledger.step.collectives) {
    cost.stepReductionBytes += bytesMoved(work);
    if (std::any_of(query.axes.begin(), query.axes.end(), [&](const TensorAxis &axis) {
          return axis.isContext && axis.group.size == work.group.size &&
                 axis.group.stride == work.group.stride;
        }))
      cost.contextReductionBytes += bytesMoved(work);
  }
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
  for (int tensor : kind.outputs)
    base.cost.outputBytes += bytes(tensor) / ranks;
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
