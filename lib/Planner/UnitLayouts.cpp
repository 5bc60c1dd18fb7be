// How the operations and values of a unit may lie, and what each then has and wants.
#include "UnitLayouts.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace colossal::planner {

namespace {
/// An uneven split may compute at most this share of padding.
constexpr double kPadding = 0.34;
} // namespace

KindInfo::KindInfo(const UnitKind &kind) : kind(kind) {
  std::size_t count = kind.tensors.size();
  places.resize(count);
  producer.assign(count, -1);
  consumers.resize(count);
  root.resize(count);
  isBoundary.assign(count, false);
  hasSharedCopy.assign(count, false);
  besideStream.assign(count, kWhole);
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
      if (!op.idle)
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
  findMasks();
}

void KindInfo::findMasks() {
  isMask.assign(kind.tensors.size(), false);
  for (std::size_t i = kind.operations.size(); i-- > 0;) {
    const Operation &op = kind.operations[i];
    const bool isFor =
        std::any_of(op.results.begin(), op.results.end(), [&](const Use &use) { return isMask[use.tensor]; });
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      const Tensor &tensor = kind.tensors[op.operands[o].tensor];
      if ((isFor || (op.kind == Operation::Attention && o >= 3)) && tensor.kind == Tensor::Activation &&
          tensor.isConstant)
        isMask[op.operands[o].tensor] = true;
    }
  }
}

static bool sumsOverVocabulary(const Operation &op) {
  return std::any_of(op.factors.begin(), op.factors.end(), [](const Factor &factor) {
    return factor.role == "vocabulary" && factor.kind == Factor::Reduction;
  });
}

bool isLoss(const UnitKind &kind, const Operation &op) {
  // What is looked up in an activation has indices as well.
  return op.operands.size() == 1 && sumsOverVocabulary(op) &&
         kind.tensors[op.operands[0].tensor].kind == Tensor::Activation;
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
  if (key.size <= 0) {
    at = known.end();
    for (auto place = known.begin(); place != known.end(); ++place)
      if (place->dim == key.dim && (at == known.end() || place->size * place->inner > at->size * at->inner))
        at = place;
  }
  return at == known.end() ? kWhole : static_cast<Code>(at - known.begin() + 1);
}

bool KindInfo::canSplit(int tensor, Code code) const {
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    for (std::size_t u = 0; u < op.operands.size() + op.results.size(); ++u) {
      const Use &use = u < op.operands.size() ? op.operands[u] : op.results[u - op.operands.size()];
      for (std::size_t f = 0; use.tensor == tensor && f < op.factors.size(); ++f)
        if (codes[firstUse[i] + u][f] == code && !isFixed(op.factors[f]))
          return true;
    }
  }
  return false;
}

std::vector<PositionKey> findBoundaryPlaces(const std::vector<std::unique_ptr<KindInfo>> &kinds) {
  std::vector<PositionKey> found;
  std::vector<std::pair<const KindInfo *, int>> ends; // the first tensors of boundaries
  for (const auto &info : kinds)
    for (const auto *boundary : {&info->kind.inputs, &info->kind.outputs})
      if (!boundary->empty())
        ends.emplace_back(info.get(), boundary->front());
  if (ends.empty())
    return found;
  auto isEverywhere = [&](const PositionKey &key) {
    return std::all_of(ends.begin(), ends.end(), [&](const auto &end) {
      const Code code = end.first->find(end.second, key);
      return code != kWhole && (key.size > 0 || end.first->canSplit(end.second, code));
    });
  };
  const std::vector<PositionKey> &first = ends.front().first->places[ends.front().second]; // in its order
  std::copy_if(first.begin(), first.end(), std::back_inserter(found),
               [&](const PositionKey &key) { return key.dim > 0 && isEverywhere(key); });
  for (const PositionKey &key : first) {
    const PositionKey any{key.dim, 0, 0};
    const bool isKnown = std::any_of(found.begin(), found.end(),
                                     [&](const PositionKey &other) { return other.dim == key.dim; });
    if (key.dim > 0 && !isKnown && isEverywhere(any))
      found.push_back(any);
  }
  return found;
}

std::optional<PositionKey> findPlaceBesideStream(const std::vector<std::unique_ptr<KindInfo>> &kinds) {
  std::vector<std::pair<KindInfo *, int>> beside; // tensors
  for (const auto &info : kinds)
    for (const auto *boundary : {&info->kind.inputs, &info->kind.outputs})
      for (std::size_t i = 1; i < boundary->size(); ++i)
        beside.emplace_back(info.get(), (*boundary)[i]);
  std::optional<PositionKey> heads;
  for (auto [info, tensor] : beside)
    for (const KindInfo::Consumer &consumer : info->consumers[tensor]) {
      const Operation &op = info->kind.operations[consumer.op];
      for (int f = 0; op.kind == Operation::Attention && f < static_cast<int>(op.factors.size()); ++f) {
        const Factor &factor = op.factors[f];
        const Code code = info->operandCode(consumer.op, consumer.operand, f);
        if (!heads && code && factor.size > 1 && (factor.role == "heads" || factor.role == "group"))
          heads = info->places[tensor][code - 1];
      }
    }
  const bool isEverywhere = heads && std::all_of(beside.begin(), beside.end(), [&](const auto &each) {
                              return each.first->find(each.second, *heads) != kWhole;
                            });
  if (!isEverywhere)
    return std::nullopt;
  for (auto [info, tensor] : beside)
    info->besideStream[tensor] = info->find(tensor, *heads);
  return heads;
}

std::optional<PositionKey> findPlaceBesideStream(const FactorGraph &graph) {
  std::vector<std::unique_ptr<KindInfo>> kinds;
  for (const UnitKind &kind : graph.kinds)
    kinds.push_back(std::make_unique<KindInfo>(kind));
  return findPlaceBesideStream(kinds);
}

//===- Choices
//-------------------------------------------------------------------------------------------===//

/// Why a choice is not allowed, as far as it takes no text to say.
struct UnitLayouts::Refusal {
  enum Why { None, NoFactor, Whole, Batch, Context, Uneven } why = None;
  int factor = 0;
  double ranks = 1;
};

/// Whether an operation that streams reads of a parameter what belongs to its rows of the result, as of
/// positions that are added to tokens: each rank has all of it, and so may read its part.
bool UnitLayouts::readsRows(int op, int factor) const {
  const Operation &operation = kind.operations[op];
  if (operation.kind != Operation::Streaming || operation.results.size() != 1 || isLookup(kind, operation))
    return false;
  int last = 0, dim = -1;
  for (const FactorPosition &place : operation.results[0].places) {
    last = std::max(last, place.dim);
    if (place.factor == factor)
      dim = place.dim;
  }
  return dim >= 0 && dim < last;
}

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
    if (query.axes[a].isContext && !readsRows(op, f))
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
  // Each rank looks up its positions, so that it sums up gradients of all parameters over the axis alike.
  if (isLookup(kind, kind.operations[op]) &&
      kind.tensors[kind.operations[op].operands[0].tensor].stored > 0 &&
      std::any_of(kind.operations[op].factors.begin(), kind.operations[op].factors.end(),
                  [](const Factor &factor) { return factor.perSequence; }))
    for (std::size_t a = 0; a < query.axes.size(); ++a) {
      auto isSplit = [&](const Choice &choice) { return choice[a] >= 0; };
      if (query.axes[a].isContext && std::any_of(found.begin(), found.end(), isSplit))
        found.erase(std::remove_if(found.begin(), found.end(),
                                   [&](const Choice &choice) { return !isSplit(choice); }),
                    found.end());
    }
  return found;
}

/// What all axes split of what goes on beside the stream, if there is enough for them.
Code UnitLayouts::besideStream(int tensor) const {
  const Code code = info.besideStream[tensor];
  double ranks = 1;
  for (const TensorAxis &axis : query.axes)
    ranks *= axis.size;
  return code != kWhole && info.places[tensor][code - 1].size >= ranks ? code : kWhole;
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
        else
          for (std::size_t a = 0; a < query.axes.size(); ++a)
            fixed[a] = besideStream(tensor);
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
  // A rank has all of a parameter along a context axis.
  const bool isParameter =
      kind.tensors[kind.operations[op].operands[operand].tensor].kind == Tensor::Parameter;
  for (std::size_t a = 0; a < query.axes.size(); ++a)
    if (choice[a] >= 0 && !(isParameter && query.axes[a].isContext))
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

} // namespace colossal::planner
