// What a unit keeps for its backward pass under each kind of recompute, and what it makes again.
// UnitBackward.cpp has what that pass has beside it, UnitPrice.cpp prices all else.
#include "BackwardWalk.h"
#include "UnitLayouts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace colossal::planner {

/// What an operation brings in of values that lie otherwise than it takes them, while the backward pass runs
/// it: what was gathered is gathered again, and is whole while the operation reads it.
double UnitLayouts::broughtIn(std::size_t i, const UnitLayout &layout,
                              const std::vector<Placement> &lies) const {
  const Operation &op = kind.operations[i];
  std::set<std::pair<int, Placement>> copies;
  double held = 0;
  for (std::size_t o = 0; o < op.operands.size(); ++o) {
    const Use &use = op.operands[o];
    if (kind.tensors[use.tensor].kind != Tensor::Activation ||
        !(use.saved || query.recompute == Recompute::Full))
      continue;
    if (query.scoresInMemory && use.saved && !query.remade) // a compiled step has kept it
      continue;
    const Placement taken = want(static_cast<int>(i), static_cast<int>(o), layout[i]);
    const double part = share(use.tensor, taken);
    // What is cut out of what lies there is read where it lies.
    if (taken != lies[use.tensor] && part >= share(use.tensor, lies[use.tensor]) &&
        copies.insert({use.tensor, taken}).second)
      held += bytes(use.tensor) * part;
  }
  return held;
}

/// A rank's part of a table that an operation reads.
double UnitLayouts::tablePart(const factors::TableUse &use, const UnitLayout &layout) const {
  const Operation &op = kind.operations[use.operation];
  double part = 1;
  for (const FactorPosition &place : op.operands[use.operand].places)
    if (std::find(use.dims.begin(), use.dims.end(), place.dim) != use.dims.end()) {
      const double size = op.factors[place.factor].size, ranks = ranksOf(place.factor, layout[use.operation]);
      part *= std::ceil(size / ranks) / size;
    }
  return part;
}

/// Masks of attention that are computed from the model's inputs. (Those of parameters are `keepComputed`'s.)
double UnitLayouts::maskBytes(const UnitLayout &layout) const {
  // They are made of what no precision narrows.
  auto element = [&](int tensor) {
    return kind.tensors[tensor].isFloat && query.scoresInMemory ? std::max(1.0, 4 / types.activation) : 1;
  };
  std::map<int, double> masks;
  for (std::size_t i = 0; i < kind.operations.size(); ++i)
    for (std::size_t o = 3;
         kind.operations[i].kind == Operation::Attention && o < kind.operations[i].operands.size(); ++o) {
      const int tensor = kind.operations[i].operands[o].tensor;
      if (kind.tensors[tensor].kind != Tensor::Activation && kind.tensors[tensor].perSequence &&
          !kind.tensors[tensor].isFixed && kind.tensors[tensor].computed <= 0)
        masks[tensor] = bytes(tensor) * element(tensor) *
                        share(tensor, want(static_cast<int>(i), static_cast<int>(o), layout[i]));
    }
  double sum = 0;
  for (auto [tensor, held] : masks)
    sum += held;
  return sum;
}

/// What is computed of parameters alone, and kept for the backward pass, or computed for that: in one
/// microbatch that makes its operations again, with their segment. `walk`: the backward pass without it.
void UnitLayouts::keepComputed(const UnitLayout &layout, const BackwardWalk &walk, UnitCost &cost) const {
  std::map<int, double> parts, summed; // by tensor
  std::map<int, std::size_t> readers;
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    for (std::size_t o = 0; info.isTrained[i] && o < op.operands.size(); ++o) {
      const Use &use = op.operands[o];
      const Tensor &tensor = kind.tensors[use.tensor];
      const double part = share(use.tensor, want(static_cast<int>(i), static_cast<int>(o), layout[i]));
      if (tensor.computed > 0 && use.gradientFlops > 0 && !tensor.perSequence)
        summed[use.tensor] = std::max(summed[use.tensor], part);
      if (use.saved && tensor.computed > 0) {
        parts[use.tensor] = std::max(parts[use.tensor], part);
        readers.try_emplace(use.tensor, i);
      } else if (o == 1 && tensor.stored > 0 && takesWeightsApart(op)) {
        cost.takenApart += bytes(use.tensor) * part;
      }
    }
  }
  auto of = [&](const Tensor &tensor) -> cost::ComputedBytes & {
    return tensor.shared < 0 ? cost.computed : cost.sharedComputed[tensor.shared];
  };
  for (auto [number, part] : summed)
    of(kind.tensors[number]).sums += kind.tensors[number].elements * types.gradient * part;
  BackwardWalk again = walk;
  for (auto [number, part] : parts) {
    const Tensor &tensor = kind.tensors[number];
    cost::ComputedBytes &computed = of(tensor);
    const double wide = std::max(1.0, tensor.bytes / types.activation); // no precision narrows it
    const double held = bytes(number) * wide * part;
    (tensor.perSequence ? computed.perMicrobatch : computed.once) += held;
    const std::size_t reader = readers.at(number);
    const bool isKept = !query.remade || query.remade->segments[reader] == query.remade->last;
    computed.again += isKept ? 0 : held;
    if (!isKept || tensor.shared < 0) // units before read what is shared as well
      again.values.push_back({reader, held, isKept ? -1 : query.remade->segments[reader]});
  }
  if (again.values.size() > walk.values.size()) {
    const BackwardWalk::Peak with = again.find(), without = walk.find();
    cost.againComputed = with.once - without.once;
    cost.againComputedInTurns = with.turn - without.turn;
  }
}

/// The most that a forward pass by itself has at once, but for what the model gives back: what lies in memory
/// between the operation that makes it and the last that reads it.
double UnitLayouts::forwardBytes(const std::vector<Placement> &lies) const {
  std::vector<bool> isInMemory(kind.tensors.size(), false);
  for (int input : kind.inputs)
    isInMemory[info.root[input]] = true;
  for (const Operation &op : kind.operations)
    for (const auto *uses : {&op.operands, &op.results})
      for (const Use &use : *uses)
        if (use.moved)
          isInMemory[info.root[use.tensor]] = true;
  // A kernel that goes on with what it makes has the place of the one for the other, as no backward pass
  // reads it.
  std::vector<bool> isReplaced(kind.tensors.size(), false);
  for (const Operation &op : kind.operations)
    for (const Use &use : op.operands)
      if (op.light && !use.moved)
        isReplaced[info.root[use.tensor]] = true;
  // What is given back is f32, beside what is narrow; but what has padding, which its readers mask, they read
  // as it is given.
  for (int result : kind.results) {
    const double part = share(result, lies[result]);
    const bool isPadded = part * std::round(1 / part) > 1 + 1e-9;
    isInMemory[info.root[result]] = true;
    if (types.activation < kWide && !isPadded)
      continue;
    // It is given where the kernel that goes on to it has begun it.
    for (int made = info.root[result]; made >= 0;) {
      isInMemory[made] = false;
      const int producer = info.producer[made];
      made = -1;
      for (const Use &use : producer >= 0 && kind.operations[producer].light
                                ? kind.operations[producer].operands
                                : std::vector<Use>())
        if (!use.moved && kind.tensors[use.tensor].kind == Tensor::Activation)
          made = info.root[use.tensor];
    }
  }
  double most = 0;
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    double alive = 0;
    for (std::size_t t = 0; t < kind.tensors.size(); ++t) {
      const Tensor &tensor = kind.tensors[t];
      if (isInMemory[t] && info.root[t] == static_cast<int>(t) && tensor.kind == Tensor::Activation &&
          tensor.begin <= static_cast<int>(i) && static_cast<int>(i) < tensor.end &&
          (!isReplaced[t] || info.producer[t] == static_cast<int>(i)))
        alive += bytes(static_cast<int>(t)) * share(static_cast<int>(t), lies[t]);
    }
    most = std::max(most, alive);
  }
  return most;
}

/// Whether a kernel that streams multiplies what was saved by trained parameters.
bool UnitLayouts::scales(const Operation &op) const {
  bool hasParameter = false, isSaved = false;
  for (const Use &use : op.operands) {
    const Tensor &tensor = kind.tensors[use.tensor];
    hasParameter |= tensor.kind == Tensor::Parameter && tensor.stored > 0;
    isSaved |= tensor.kind == Tensor::Activation && use.saved;
  }
  return op.kind == Operation::Streaming && hasParameter && isSaved;
}

/// Whether an operation adds a trained parameter to what no product makes: that of a product has the
/// product's own gradient.
bool UnitLayouts::isShift(const Operation &op) const {
  bool shifts = false;
  for (const Use &use : op.operands) {
    const Tensor &tensor = kind.tensors[use.tensor];
    shifts |= tensor.kind == Tensor::Parameter && use.gradientFlops > 0;
    if (tensor.kind != Tensor::Activation)
      continue;
    const int maker = info.producer[info.root[use.tensor]];
    if (maker < 0 || kind.operations[maker].kind != Operation::Streaming || use.saved)
      return false;
  }
  return shifts && op.kind == Operation::Streaming;
}

/// The segment of the unit in which the memory of a tensor is made again; -1 where it is kept.
int UnitLayouts::againIn(int root) const {
  if (!query.remade)
    return -1;
  int segment = -1;
  for (std::size_t t = 0; t < kind.tensors.size(); ++t) {
    if (info.root[t] != root)
      continue;
    if (query.remade->fates[t] == RemadeUnit::Kept)
      return -1;
    if (query.remade->fates[t] == RemadeUnit::Again)
      segment = info.producer[root] < 0 ? 0 : query.remade->segments[info.producer[root]];
  }
  return segment;
}

/// Whether something that is made again reads the memory of a tensor as it lies, and not only shows it.
bool UnitLayouts::isReadAgain(int root, const UnitLayout &layout, const std::vector<Placement> &lies) const {
  for (std::size_t i = 0; query.remade && i < kind.operations.size(); ++i)
    for (std::size_t o = 0; query.remade->isAgain[i] && kind.operations[i].kind != Operation::View &&
                            o < kind.operations[i].operands.size();
         ++o)
      if (info.root[kind.operations[i].operands[o].tensor] == root && exchangedBytes(i, o, layout, lies) <= 0)
        return true;
  return false;
}

/// Of the tensors that a step under recompute keeps, by root: the largest part that a rank has.
std::map<int, double> UnitLayouts::keptParts(const std::vector<Placement> &lies) const {
  std::map<int, double> kept;
  for (std::size_t t = 0; t < kind.tensors.size(); ++t)
    if (kind.tensors[t].kind == Tensor::Activation && query.remade->fates[t] == RemadeUnit::Kept) {
      double &part = kept[info.root[t]];
      part = std::max(part, share(static_cast<int>(t), lies[t]));
    }
  return kept;
}

/// Roots of the tensors that are made again of which the unit's outputs are made again: they come with those
/// where units behind do it, and the others not before something of this unit reads them. Where products are
/// made again, all come.
std::set<int> UnitLayouts::findAgainForNext() const {
  const RemadeUnit &remade = *query.remade;
  std::set<int> found;
  for (int output : kind.outputs)
    found.insert(info.root[output]);
  for (std::size_t i = kind.operations.size(); i-- > 0;) {
    const Operation &op = kind.operations[i];
    const bool isReached =
        makesProducts() || std::any_of(op.results.begin(), op.results.end(), [&](const Use &use) {
          return found.count(info.root[use.tensor]) > 0;
        });
    if (!remade.isAgain[i] || !isReached)
      continue;
    for (const auto *uses : {&op.operands, &op.results})
      for (const Use &use : *uses)
        found.insert(info.root[use.tensor]);
  }
  return found;
}

/// What a compiled step under recompute keeps of the unit, as `needed`, and what it makes again of its last
/// segment and of what it takes in.
void UnitLayouts::keepSegments(const std::vector<Placement> &lies, std::map<int, double> &needed,
                               UnitCost &cost) const {
  const RemadeUnit &remade = *query.remade;
  std::map<int, double> kept = keptParts(lies);
  for (auto [tensor, part] : needed) // some as ranks have exchanged it
    if (const auto known = kept.find(tensor); known != kept.end())
      known->second = part;
  const std::set<int> forNext = findAgainForNext();
  for (auto [tensor, part] : needed)
    if (const int segment = againIn(tensor); segment >= 0) {
      const bool isInput = std::find(kind.inputs.begin(), kind.inputs.end(), tensor) != kind.inputs.end();
      cost.againBytes +=
          segment == remade.segments.back() && forNext.count(tensor) > 0 ? bytes(tensor) * part : 0;
      cost.againInputBytes += isInput ? bytes(tensor) * part : 0;
    }
  cost.continuesSegment = remade.continues;
  cost.isInOneSegment = remade.segments.back() == 0;
  // What the next unit takes in is counted there.
  for (int output : kind.outputs)
    if (std::find(kind.inputs.begin(), kind.inputs.end(), output) == kind.inputs.end() &&
        needed.count(info.root[output]) == 0)
      kept.erase(info.root[output]);
  needed = std::move(kept);
}

/// Bytes of an operand that ranks have exchanged for operation `i`, or for a view that it takes, where it is
/// kept so: in a compiled step always, else where that is no more than it was where it lay. 0: it is not.
double UnitLayouts::exchangedBytes(std::size_t i, std::size_t o, const UnitLayout &layout,
                                   const std::vector<Placement> &lies) const {
  const int read = kind.operations[i].operands[o].tensor;
  if (kind.tensors[read].kind != Tensor::Activation)
    return 0;
  Placement taken = want(static_cast<int>(i), static_cast<int>(o), layout[i]);
  const double held = bytes(read) * share(read, taken);
  for (int tensor = read;;) {
    if (taken != lies[tensor])
      return query.scoresInMemory || share(tensor, taken) <= share(tensor, lies[tensor]) ? held : 0;
    const int maker = info.producer[tensor];
    if (maker < 0 || kind.operations[maker].kind != Operation::View)
      return 0;
    taken = want(maker, 0, layout[maker]);
    tensor = kind.operations[maker].operands[0].tensor;
  }
}

/// Bytes of an operand of operation `i` that the model is given in f32, where the gradient of the parameter
/// that it meets reads a narrow copy; else 0.
double UnitLayouts::narrowedBytes(std::size_t i, std::size_t o, const UnitLayout &layout) const {
  const Operation &op = kind.operations[i];
  const Tensor &given = kind.tensors[op.operands[o].tensor];
  if (op.kind != Operation::Contraction || o > 1 || given.kind != Tensor::Given || !given.isFloat ||
      !given.perSequence || given.isFixed || types.activation >= given.bytes)
    return 0;
  const Use &other = op.operands[1 - o];
  if (kind.tensors[other.tensor].kind != Tensor::Parameter || other.gradientFlops <= 0)
    return 0;
  return bytes(op.operands[o].tensor) *
         share(op.operands[o].tensor, want(static_cast<int>(i), static_cast<int>(o), layout[i]));
}

/// By how much what a convolution takes is larger with the zeros around it, with which a compiled step has it
/// made, so that it lies there once.
double UnitLayouts::paddedPart(const Operation &op) const {
  double part = 1;
  // Groups of few channels are read as they lie.
  for (const Factor &factor : op.factors)
    if (factor.role == "group" && factor.size > 1)
      return 1;
  for (const Factor &factor : op.factors)
    if (query.scoresInMemory && op.kind == Operation::Contraction && factor.window)
      part *= std::max(1.0, ((factor.size - 1) * factor.window->stride + factor.window->size) /
                                factor.window->operandSize);
  return part;
}

/// What the backward pass reads of the forward pass, and what is made again for it.
void UnitLayouts::keep(const UnitLayout &layout, const std::vector<Placement> &lies, UnitCost &cost,
                       cost::OpList &recompute) const {
  std::map<int, double> needed, forWeights, gradients; // per root tensor: part of it
  auto need = [&](std::map<int, double> &in, int tensor, double part) {
    if (kind.tensors[tensor].kind != Tensor::Activation)
      return;
    double &held = in[info.root[tensor]];
    held = std::max(held, part);
  };
  auto isTrained = [&](const Use &use) {
    return kind.tensors[use.tensor].kind == Tensor::Parameter && use.gradientFlops > 0;
  };
  std::map<int, std::size_t> first; // that needs it
  // What ranks have exchanged for an operation.
  std::vector<Exchanged> exchanged;
  std::set<std::pair<int, Placement>> copied;
  double scores = 0, copies = 0;
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    bool hasGradient = false;
    for (const Use &use : op.operands)
      hasGradient |= use.gradientFlops > 0;
    if (!hasGradient || !info.isTrained[i])
      continue;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      const Use &use = op.operands[o];
      copies += query.remade ? 0 : narrowedBytes(i, o, layout);
      const double padded = o == 0 ? paddedPart(op) : 1;
      if (!use.saved)
        continue;
      const int segment = againIn(info.root[use.tensor]);
      if (const double held = exchangedBytes(i, o, layout, lies);
          held > 0 && (segment < 0 || makesProducts())) {
        // One copy for all that take it alike, which the backward pass comes to last at the first of them.
        const Placement taken = want(static_cast<int>(i), static_cast<int>(o), layout[i]);
        if (copied.insert({use.tensor, taken}).second)
          exchanged.push_back({use.tensor, i, held, segment});
      } else {
        need(needed, use.tensor, padded * share(use.tensor, lies[use.tensor]));
        first.try_emplace(info.root[use.tensor], i);
      }
      // The products that the parameters' gradients are sums of take its place, and are f32.
      if (scales(op) && kind.tensors[use.tensor].kind == Tensor::Activation)
        need(forWeights, use.tensor,
             share(use.tensor, lies[use.tensor]) *
                 (storesProducts(op) ? std::max(1.0, kWide / types.activation) : 1));
      if (op.kind == Operation::Contraction && isTrained(op.operands[1 - std::min<std::size_t>(o, 1)]))
        need(forWeights, use.tensor, padded * share(use.tensor, lies[use.tensor]));
    }
    // Of a contraction with a parameter, which is one operand, the other is what the parameter's gradient is
    // made of, and so is the result's gradient; and of that is the gradient of what is added behind a scale,
    // whose own is made of the products.
    const auto weights = std::count_if(op.operands.begin(), op.operands.end(), isTrained);
    if (op.kind == Operation::Contraction ? weights > 0 : (scales(op) ? weights > 1 : isShift(op)))
      need(gradients, op.results[0].tensor,
           (takesWeightsApart(op) ? 1 : paddedPart(op)) *
               share(op.results[0].tensor, have(static_cast<int>(i), 0, layout[i])));
    for (std::size_t r = 0; r < op.results.size(); ++r)
      if (op.results[r].saved) {
        need(needed, op.results[r].tensor,
             share(op.results[r].tensor, have(static_cast<int>(i), static_cast<int>(r), layout[i])));
        first.try_emplace(info.root[op.results[r].tensor], i);
      }
    if (op.kind == Operation::Attention && !query.fusedAttention)
      scores += countScores(i, layout).first * types.activation;
  }
  for (std::size_t e = 0; e < exchanged.size();) {
    const auto [tensor, reader, held, segment] = exchanged[e];
    if (needed.count(info.root[tensor]) > 0 ||
        (segment < 0 && isReadAgain(info.root[tensor], layout, lies))) { // beside what others read
      copies += segment < 0 ? held : 0;
      ++e;
    } else { // in its place
      need(needed, tensor, held / bytes(tensor));
      first.try_emplace(info.root[tensor], reader);
      exchanged.erase(exchanged.begin() + static_cast<std::ptrdiff_t>(e));
    }
  }
  // Logits are kept as what their gradient is written over.
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    if (!isLoss(kind, op))
      continue;
    const int logits = info.root[op.operands[0].tensor];
    if (gradients.erase(logits) > 0)
      need(forWeights, logits, share(logits, lies[logits]));
    if (auto held = needed.find(logits); held != needed.end())
      cost.partedBytes += bytes(logits) * held->second * (1 - 1 / lossParts(i, layout));
  }
  auto sum = [&](const std::map<int, double> &tensors) {
    double result = 0;
    for (auto [tensor, part] : tensors)
      result += bytes(tensor) * part;
    return result;
  };
  BackwardWalk walk = describeBackward(layout, lies, needed, first, exchanged, cost.sourceBytes);
  const BackwardWalk::Peak peak = walk.find();
  const double besideWeights = withoutWeights(walk, forWeights, gradients).find().beside;
  keepComputed(layout, walk, cost);
  // Where microbatches have copies of what they keep, nothing lies over it, and it is there to the end.
  walk.values.erase(std::remove_if(walk.values.begin(), walk.values.end(),
                                   [](const WalkedValue &value) { return value.segment < 0; }),
                    walk.values.end());
  const double fixedPeak = walk.find().beside;
  cost.fixedWeightTransientBytes = withoutWeights(walk, forWeights, gradients).find().beside;
  if (query.remade && std::isfinite(peak.continued)) {
    cost.continuedLess = peak.beside - peak.continued;
    cost.continuedMore = std::max(0.0, peak.beside - std::max(0.0, peak.before));
  }
  if (query.remade) {
    keepSegments(lies, needed, cost);
    cost.transientBytes = scores;
    scores = 0;
  } else if (query.recompute == Recompute::Selective) {
    // Results of memory-bound operations are replaced by what they are made of.
    std::map<int, double> kept;
    std::vector<bool> isAgain(kind.operations.size(), false);
    std::function<void(int, double)> replace = [&](int tensor, double part) {
      tensor = info.root[tensor];
      int op = info.producer[tensor];
      bool isInput = std::find(kind.inputs.begin(), kind.inputs.end(), tensor) != kind.inputs.end();
      if (isInput || op < 0 || kind.operations[op].kind != Operation::Streaming) {
        need(kept, tensor, part);
        return;
      }
      if (isAgain[op])
        return;
      isAgain[op] = true;
      for (const Use &use : kind.operations[op].operands)
        if (kind.tensors[use.tensor].kind == Tensor::Activation)
          replace(use.tensor, share(use.tensor, lies[use.tensor]));
    };
    double before = sum(needed);
    for (auto [tensor, part] : needed)
      replace(tensor, part);
    if (sum(kept) < before || scores > 0) {
      for (std::size_t i = 0; i < kind.operations.size(); ++i) {
        bool isScores = kind.operations[i].kind == Operation::Attention && !query.fusedAttention;
        if (isAgain[i] || isScores) {
          Passes work = passes(static_cast<int>(i), layout[i]);
          recompute.ops.insert(recompute.ops.end(), work.forward.ops.begin(), work.forward.ops.end());
        }
      }
      cost.transientBytes = std::max(0.0, before - sum(kept)) + scores;
      needed = kept;
    } else {
      cost.transientBytes = scores;
    }
    scores = 0;
  }
  cost.savedBytes = sum(needed) + scores + copies;
  for (auto [tensor, part] : needed) {
    auto isIn = [&, tensor = tensor](const std::vector<int> &tensors) {
      return std::any_of(tensors.begin(), tensors.end(), [&](int each) { return info.root[each] == tensor; });
    };
    cost.inputSavedBytes += isIn(kind.inputs) ? bytes(tensor) * part : 0;
    cost.outputSavedBytes += isIn(kind.outputs) ? bytes(tensor) * part : 0;
  }
  std::map<int, double> keptForWeights;
  for (auto [tensor, part] : forWeights)
    if (!query.remade || needed.count(tensor) > 0)
      keptForWeights[tensor] = part;
  cost.weightSavedBytes = std::min(cost.savedBytes, sum(keptForWeights));
  cost.weightKeptBytes = sum(forWeights) + sum(gradients);
  if (query.recompute == Recompute::Full && !query.remade && !kind.inputs.empty()) {
    double input = 0;
    for (int tensor : kind.inputs)
      input += bytes(tensor) * share(tensor, lies[tensor]);
    cost.transientBytes = std::max(0.0, cost.savedBytes - cost.partedBytes - input);
    cost.savedBytes = cost.inputSavedBytes = input;
    cost.outputSavedBytes = 0;
    cost.partedBytes = 0;
    cost.weightSavedBytes = input;
  }
  double made = cost.transientBytes, brought = 0;
  for (std::size_t i = 0; !query.remade && i < kind.operations.size(); ++i)
    brought = std::max(brought, broughtIn(i, layout, lies));
  made += brought;
  cost.maskBytes = maskBytes(layout);
  cost.forwardBytes = forwardBytes(lies);
  cost.transientBytes = made + peak.beside;
  cost.turnTransientBytes = made + peak.turn;
  auto onTop = [&](auto moments) {
    for (cost::HeldBytes &held : moments)
      held = {made + held.most, made + held.turn, made + held.once};
    return moments;
  };
  cost.held = onTop(peak.held);
  cost.heldNarrow = onTop(peak.heldNarrow);
  cost.leftBytes = peak.left;
  cost.heldScatteredBytes = made + peak.scatteredHeld;
  cost.exchangedTransientBytes = made + peak.exchanged;
  cost.exchangedHalfTransientBytes = made + peak.exchangedHalf;
  cost.scatteredTransientBytes = made + peak.scattered;
  cost.onceScatteredTransientBytes =
      made + (std::isfinite(peak.scatteredOnce) ? peak.scatteredOnce : peak.scattered);
  cost.lateTransientBytes = made + peak.late;
  cost.lateElements = peak.lateGradients / types.gradient;
  cost.headTransientBytes = made + peak.head;
  cost.headElements = peak.headGradients / types.gradient;
  cost.onceTransientBytes = made + peak.once;
  cost.weightTransientBytes = made + besideWeights;
  cost.fixedTransientBytes = made + fixedPeak;
  cost.fixedWeightTransientBytes += made;
  for (const factors::TableUse &use : kind.tables)
    cost.tableParts.push_back(tablePart(use, layout));
  // What is widened for a loss lies as that takes it.
  auto given = [&](int tensor) {
    for (const auto &consumer : info.consumers[tensor])
      if (types.activation < kWide && isLoss(kind, kind.operations[consumer.op]))
        return share(tensor, want(consumer.op, consumer.operand, layout[consumer.op]));
    return share(tensor, lies[tensor]);
  };
  if (!kind.results.empty())
    cost.resultShare = given(kind.results.front());
  for (int tensor : kind.results)
    cost.resultBytes += bytes(tensor) / types.activation * kind.tensors[tensor].bytes * given(tensor);
}

} // namespace colossal::planner
