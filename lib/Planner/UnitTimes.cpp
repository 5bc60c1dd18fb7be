// What a rank computes for one operation of a unit, and how long that takes.
#include "UnitLayouts.h"

#include <algorithm>
#include <cmath>

namespace colossal::planner {

namespace {
/// Of a unit's parameters: smaller ones lie as is fastest, whatever a search pays for memory.
constexpr double kSmallPart = 0.01;
} // namespace

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
  if (info.isMask[tensor] && query.scoresInMemory)
    element = std::max(element, t.bytes);
  return t.elements * element * (t.perSequence ? query.microbatch : 1);
}

static bool isIn(const Use &use, int factor) {
  for (const FactorPosition &place : use.places)
    if (place.factor == factor)
      return true;
  return false;
}

UnitLayouts::Passes UnitLayouts::passes(int op, const Choice &choice) const {
  if (kind.operations[op].idle)
    return {};
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
  if (query.scoresInMemory && isLoss(kind, operation))
    exchangeStatistics(op, choice, result);
  return result;
}

/// What ranks that have parts of the classes exchange of each row, in f32: its maximum and its sum, and
/// behind them what the one with the label has there.
void UnitLayouts::exchangeStatistics(int op, const Choice &choice, Passes &passes) const {
  const Placement parts = have(op, 0, choice), whole = gradientWant(op, 0, choice);
  const Tensor &rows = kind.tensors[kind.operations[op].results[0].tensor];
  const double one = rows.elements * (rows.perSequence ? query.microbatch : 1) * kWide;
  auto exchange = [&](double bytes, bool isStatistics, cost::OpList &list) {
    const Move *move = parts == whole ? nullptr : resharder.find(bytes, parts, whole);
    for (std::size_t i = 0; move && i < move->collectives.size(); ++i) {
      list.collectives.push_back(move->collectives[i]);
      list.collectives.back().isStatistics = isStatistics;
    }
  };
  exchange(2 * one, true, passes.forward);
  exchange(one, false, passes.backward);
}

/// Of a gradient that tensor ranks have alike: bytes whose updates others do, where to bring together what
/// each has updated takes less time than to update all.
double UnitLayouts::spreadBytes(double elements, const Placement &have, const Placement &want) const {
  double alike = 1, parts = 1;
  cost::OpList brought;
  for (std::size_t a = 0; query.scoresInMemory && a < query.axes.size(); ++a) {
    const TensorAxis &axis = query.axes[a];
    parts *= have[a] == kPartial && !axis.isContext ? axis.size : 1;
    if (axis.isContext || have[a] != kWhole || want[a] != kWhole)
      continue;
    alike *= axis.size;
    brought.collectives.push_back(
        {cost::Collective::AllGather, elements * resharder.share(want) * types.gathered, axis.group});
  }
  if (alike == 1)
    return 0;
  const double elsewhere = elements * resharder.share(want) / parts * (1 - 1 / alike);
  const double updated = 2 * types.parameter + types.gradient + 2 * types.optimizer; // bytes of an element
  return pricing.seconds(brought).collective < pricing.kernelSeconds(cost::streaming(elsewhere * updated, 0))
             ? elsewhere * types.reduced
             : 0;
}

/// Once a step: sums of gradients of parameters over the axes that split the operation but not the parameter.
double UnitLayouts::gradientReduction(int op, const Choice &choice, Ledger *ledger) const {
  double seconds = 0;
  const Operation &operation = kind.operations[op];
  for (std::size_t o = 0; o < operation.operands.size(); ++o) {
    const Use &use = operation.operands[o];
    const Tensor &tensor = kind.tensors[use.tensor];
    if (tensor.kind != Tensor::Parameter || tensor.stored <= 0 || use.gradientFlops <= 0)
      continue;
    Placement from = gradientHave(op, static_cast<int>(o), choice),
              to = want(op, static_cast<int>(o), choice);
    double elements = tensor.stored;
    for (std::size_t a = 0; a < query.axes.size(); ++a)
      if (choice[a] >= 0 && query.axes[a].isContext)
        if (const Code code = info.operandCode(op, static_cast<int>(o), choice[a]); code != kWhole) {
          from[a] = code; // each rank has the gradient of its rows, and those that are not read have none
          elements = tensor.elements;
        }
    // A program sums over the tensor axes first; over those of the context each rank sums its part of that.
    Placement first = from, second = to;
    double parts = 1;
    for (std::size_t a = 0; query.scoresInMemory && a < query.axes.size(); ++a)
      if (from[a] == kPartial && query.axes[a].isContext) {
        first[a] = to[a];
        second[a] = kPartial;
      } else if (from[a] == kPartial) {
        parts *= query.axes[a].size;
      }
    const Move *moves[] = {resharder.find(elements * types.reduced, first, to),
                           resharder.find(elements / parts * types.reduced, second, to)};
    // Two uses of one parameter are added up before ranks are.
    const bool isCounted = (moves[0] || moves[1]) && ledger && ledger->reduced.insert(use.tensor).second;
    if (isCounted)
      (tensor.shared < 0 ? ledger->spread : ledger->sharedSpread[tensor.shared]) +=
          spreadBytes(elements, from, to);
    for (const Move *move : moves) {
      if (!move)
        continue;
      seconds += move->seconds;
      if (!isCounted)
        continue;
      std::vector<cost::CollectiveWork> &list =
          tensor.shared < 0 ? ledger->step.collectives : ledger->sharedStep[tensor.shared].collectives;
      list.insert(list.end(), move->collectives.begin(), move->collectives.end());
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

} // namespace colossal::planner
