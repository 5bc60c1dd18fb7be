// What the backward pass of a unit has in memory beside what was kept for it: gradients that are under way,
// and what operations use while they run.
#include "BackwardWalk.h"
#include "UnitLayouts.h"

#include "colossal/FactorGraph/AttentionParts.h"
#include "colossal/FactorGraph/LossParts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace colossal::planner {

/// Of operation `i`, an attention: its scores on a rank, elements, and its queries.
std::pair<double, double> UnitLayouts::countScores(std::size_t i, const UnitLayout &layout) const {
  const Operation &op = kind.operations[i];
  double scores = 1, queries = 1;
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    bool isScore = false;
    for (const FactorPosition &place : op.operands[0].places)
      isScore |=
          place.factor == static_cast<int>(f) && (!isFixed(op.factors[f]) || !op.factors[f].role.empty());
    isScore |= op.factors[f].role == "keys";
    const double size = local(static_cast<int>(i), static_cast<int>(f), layout[i]);
    if (isScore)
      scores *= size;
    if (op.factors[f].role == "sequence") // which may be cut in several
      queries *= size;
  }
  return {scores, queries};
}

static bool isGrouped(const Operation &attention) {
  return std::any_of(attention.factors.begin(), attention.factors.end(),
                     [](const Factor &factor) { return factor.size > 1 && factor.role == "group"; });
}

/// What the backward pass of operation `i`, an attention, has beside the gradients of its operands and result
/// where it makes its scores again, part by part: weights and slopes, and of parts of several sizes a third
/// tensor that finds no room where they lay; and under a causal mask the sums for those keys that no further
/// part sees.
double UnitLayouts::partBytes(std::size_t i, const UnitLayout &layout) const {
  const Operation &op = kind.operations[i];
  const auto [scores, queries] = countScores(i, layout);
  const double element = std::max(types.activation, 4.0); // computed in
  const double rows = factors::attentionPartRows(queries, scores, op.causal),
               parts = std::ceil(queries / rows);
  // All at once, slopes are written over the weights, but where several heads share keys. What is narrow has
  // them as its products take them, too.
  const double narrow = element > types.activation ? types.activation : 0;
  if (parts <= 1)
    return (isGrouped(op) ? 2 : 1) * scores * (element + narrow);
  double sums = 0;
  for (std::size_t o : {1, 2})
    sums += bytes(op.operands[o].tensor) / types.activation * element *
            share(op.operands[o].tensor, want(static_cast<int>(i), static_cast<int>(o), layout[i]));
  return (op.causal ? 3 : 2) * scores * rows / queries * element + (op.causal ? parts / 2 : 1) * sums;
}

/// In how many parts a rank computes operation `i`, a loss, and what makes its logits.
double UnitLayouts::lossParts(std::size_t i, const UnitLayout &layout) const {
  const Operation &op = kind.operations[i];
  const double all =
      bytes(op.operands[0].tensor) * share(op.operands[0].tensor, want(static_cast<int>(i), 0, layout[i]));
  double rows = 1;
  std::vector<double> sizes;
  const std::vector<int> &classes = info.classFactors[i];
  for (const FactorPosition &place : op.operands[0].places) {
    if (std::find(classes.begin(), classes.end(), place.factor) != classes.end())
      continue;
    sizes.push_back(local(static_cast<int>(i), place.factor, layout[i]));
    rows *= sizes.back();
  }
  int64_t parts = 1;
  for (double size : sizes)
    parts = std::max(parts, factors::lossParts(static_cast<int64_t>(size), rows, all));
  return static_cast<double>(parts);
}

/// The memory of what `op` adds a parameter to; -1 where it does something else.
int UnitLayouts::biasedBy(const Operation &op) const {
  if (op.kind != Operation::Streaming || op.operands.size() != 2)
    return -1;
  for (std::size_t o : {0, 1}) {
    const Use &use = op.operands[o], &bias = op.operands[1 - o];
    if (!use.saved && !bias.saved && kind.tensors[use.tensor].kind == Tensor::Activation &&
        kind.tensors[bias.tensor].kind == Tensor::Parameter &&
        kind.tensors[use.tensor].elements == kind.tensors[op.results[0].tensor].elements)
      return info.root[use.tensor];
  }
  return -1;
}

/// The same pass where the gradients of weights are one of their own: what these read, and the gradients that
/// they are made of (`gradients`), by root tensor, lie where they wait for it.
BackwardWalk UnitLayouts::withoutWeights(BackwardWalk walk, const std::map<int, double> &forWeights,
                                         const std::map<int, double> &gradients) const {
  std::vector<WalkedValue> values;
  for (WalkedValue &value : walk.values) {
    if (forWeights.count(value.tensor) == 0)
      values.push_back(value);
    else if (value.segment >= 0) { // it is made again, and there as long as its segment
      while (value.reader > 0 && walk.ops[value.reader - 1].segment == value.segment)
        --value.reader;
      values.push_back(value);
    }
  }
  walk.values = std::move(values);
  std::vector<bool> waits(walk.bytes.size(), false); // the gradient of a tensor
  std::map<int, double> lasting = gradients;
  for (const Operation &op : kind.operations) // that of logits lies where these were
    if (isLoss(kind, op) && forWeights.count(info.root[op.operands[0].tensor]) > 0)
      lasting[info.root[op.operands[0].tensor]] = 1;
  for (std::size_t t = 0; t < walk.bytes.size(); ++t)
    waits[t] = lasting.count(info.root[t]) > 0;
  for (const WalkedOp &op : walk.ops) {
    // What a sum's gradient is of is one with it; and the product that makes an activation's goes on with
    // that.
    const bool isOne = op.kind == WalkedOp::View || op.kind == WalkedOp::Linear ||
                       (op.kind == WalkedOp::Pointwise && op.operands.size() == 1);
    for (int result : op.results)
      for (int operand : op.operands)
        if (isOne && waits[operand] && walk.bytes[operand] == walk.bytes[result])
          waits[result] = true;
  }
  for (std::size_t t = 0; t < walk.bytes.size(); ++t)
    if (waits[t])
      walk.bytes[t] = 0;
  for (WalkedOp &op : walk.ops) {
    op.parameterGradients = op.earlier = op.copied = op.besideWeights = 0;
    op.exchanges = 0;
    for (int result : op.results)
      op.taken = waits[result] ? 0 : op.taken;
    if (op.kind == WalkedOp::Scaling)
      op.kind = WalkedOp::Pointwise;
  }
  return walk;
}

/// Whether an operand has the factors of the result's last dimension.
static bool hasLastDimension(const Operation &op, const Use &operand) {
  int last = 0;
  for (const FactorPosition &place : op.results[0].places)
    last = std::max(last, place.dim);
  return std::any_of(
      op.results[0].places.begin(), op.results[0].places.end(), [&](const FactorPosition &place) {
        return place.dim == last && std::any_of(operand.places.begin(), operand.places.end(),
                                                [&](const auto &own) { return own.factor == place.factor; });
      });
}

/// Whether the products that the gradients of an operation's scales are sums of are stored: where they are
/// summed up over columns. What is summed up over rows, as for channels of images, one kernel multiplies and
/// adds up.
bool UnitLayouts::storesProducts(const Operation &op) const {
  return scales(op) && std::any_of(op.operands.begin(), op.operands.end(), [&](const Use &use) {
           return kind.tensors[use.tensor].kind == Tensor::Parameter && hasLastDimension(op, use);
         });
}

/// Says of `walked`, which operation `i` is, a contraction, what copy the gradient of a parameter is made
/// from: of what the operation read, or of its result's gradient, by which dimension of the parameter comes
/// last. `parts`: in which it is made one after the other.
void UnitLayouts::findCopied(std::size_t i, const UnitLayout &layout, double parts, WalkedOp &walked) const {
  const Operation &op = kind.operations[i];
  for (std::size_t o = 0; query.copiedBytes && o < std::min<std::size_t>(2, op.operands.size()); ++o) {
    const Use &weight = op.operands[o];
    if (kind.tensors[weight.tensor].kind != Tensor::Parameter || weight.gradientFlops <= 0)
      continue;
    int last = 0;
    for (const FactorPosition &place : weight.places)
      last = std::max(last, place.dim);
    double rows = 1, columns = 1, depth = 1;
    bool isOfResult = false;
    for (std::size_t f = 0; f < op.factors.size(); ++f) {
      const double size = local(static_cast<int>(i), static_cast<int>(f), layout[i]);
      auto isFactor = [&](const FactorPosition &each) { return each.factor == static_cast<int>(f); };
      const auto place = std::find_if(weight.places.begin(), weight.places.end(), isFactor);
      (place == weight.places.end() ? depth : place->dim == last ? columns : rows) *= size;
      isOfResult |= place != weight.places.end() && place->dim != last &&
                    std::any_of(op.results[0].places.begin(), op.results[0].places.end(), isFactor);
    }
    if (const double copied = query.copiedBytes(rows, columns, depth / parts); copied > walked.copied) {
      walked.copied = copied;
      walked.copiesGradient = isOfResult;
    }
  }
}

bool UnitLayouts::takesWeightsApart(const Operation &op) {
  return op.kind == Operation::Contraction && op.operands[0].gradientFlops > 0 &&
         std::any_of(op.factors.begin(), op.factors.end(), [](const Factor &factor) {
           return factor.window && factor.window->stride > 1 && factor.window->size > 1;
         });
}

/// What the gradients of operation `i` have beside what they read and make, where it is a convolution whose
/// windows are 3 x 3, or goes in steps, so that the input's gradient is put together of parts.
void UnitLayouts::findTransformed(std::size_t i, const UnitLayout &layout, WalkedOp &walked) const {
  const Operation &op = kind.operations[i];
  if (query.convolutionBytes && takesWeightsApart(op)) {
    const int input = op.operands[0].tensor;
    walked.inputParts = bytes(input) * share(input, want(static_cast<int>(i), 0, layout[i]));
    for (const Factor &factor : op.factors) // each of as many places, and some around them
      if (factor.window && factor.window->stride > 1)
        walked.inputParts *=
            (factor.window->operandSize + factor.window->stride) / factor.window->operandSize;
    return;
  }
  double batch = 1, inputChannels = 1, outputChannels = 1;
  std::vector<double> extents; // of the input
  for (std::size_t f = 0; query.convolutionBytes && f < op.factors.size(); ++f) {
    const Factor &factor = op.factors[f];
    const double size = local(static_cast<int>(i), static_cast<int>(f), layout[i]);
    if (factor.window && factor.window->size > 1) {
      if (factor.window->size != 3 || factor.window->stride != 1 || op.kind != Operation::Contraction)
        return;
      extents.push_back(factor.window->operandSize);
    } else if (factor.window || (factor.role == "group" && factor.size > 1)) {
      return;
    }
    batch *= factor.role == "batch" ? size : 1;
    inputChannels *= factor.role == "in_channels" ? size : 1;
    outputChannels *= factor.role == "channels" ? size : 1;
  }
  if (extents.size() != 2)
    return;
  const auto [ofInput, ofWeights] =
      query.convolutionBytes(batch, inputChannels, outputChannels, extents[0], extents[1]);
  walked.besideInput = ofInput;
  walked.besideWeights = ofWeights;
}

/// What a kernel makes again of the memory of tensor `kept`, element by element, for nothing else reads that:
/// it is written over it. -1: there is none.
int UnitLayouts::madeOver(int kept, const std::map<int, double> &needed) const {
  for (int tensor = kept;;) {
    const Operation *reader = nullptr;
    for (std::size_t i = 0; i < kind.operations.size(); ++i) {
      const Operation &op = kind.operations[i];
      const bool reads = query.remade->isAgain[i] && op.kind != Operation::View &&
                         std::any_of(op.operands.begin(), op.operands.end(),
                                     [&](const Use &use) { return info.root[use.tensor] == tensor; });
      if (reads && reader)
        return -1;
      reader = reads ? &op : reader;
    }
    const bool goesOn = reader && reader->kind == Operation::Streaming && reader->results.size() == 1 &&
                        bytes(reader->results[0].tensor) == bytes(kept);
    if (!goesOn)
      return -1;
    tensor = info.root[reader->results[0].tensor];
    // A kernel that goes on with statistics of rows writes over nothing.
    const bool isNormalized =
        std::any_of(kind.operations.begin(), kind.operations.end(), [&](const Operation &op) {
          return scales(op) && std::any_of(op.operands.begin(), op.operands.end(),
                                           [&](const Use &use) { return info.root[use.tensor] == tensor; });
        });
    if (isNormalized)
      return -1;
    if (needed.count(tensor) > 0)
      return againIn(tensor) >= 0 ? tensor : -1;
  }
}

/// Adds to `walk` what is kept for nothing but what is made again of it: it is read for the last time with
/// that. `from`: the operations for which values are made again, by root tensor; others are with their
/// segment; `first`: the operation that reads a value last, which is the first in the forward pass. `inPlace`
/// gets what is written over what it is made of, which then is read when that is. The bytes of what is made
/// again for a unit behind alone, which is gone when the walk comes to this one.
double UnitLayouts::addSources(const std::vector<Placement> &lies, const std::map<int, double> &needed,
                               const std::map<int, std::size_t> &first, const std::map<int, int> &from,
                               std::set<int> &inPlace, BackwardWalk &walk) const {
  const RemadeUnit &remade = *query.remade;
  std::map<int, double> kept = keptParts(lies);
  for (int output : kind.outputs) // the next unit counts it
    kept.erase(info.root[output]);
  std::vector<int> begins; // of each segment, in the backward pass
  for (std::size_t i = 0; i < kind.operations.size(); ++i)
    if (const int segment = remade.segments[i]; segment >= 0) {
      begins.resize(std::max<std::size_t>(begins.size(), segment + 1), -1);
      begins[segment] = static_cast<int>(i);
    }
  std::map<int, int> last,
      read; // by root tensor: operations, which the backward pass comes to in descending order
  std::set<int> forNext;
  for (auto [tensor, part] : needed)
    if (const int segment = againIn(tensor); segment >= 0) {
      const auto made = from.find(tensor);
      last[tensor] = made == from.end() ? begins[segment] : made->second;
    }
  for (std::size_t i = kind.operations.size(); i-- > 0;) {
    if (!remade.isAgain[i])
      continue;
    int at = std::numeric_limits<int>::max();
    for (const Use &use : kind.operations[i].results)
      if (const auto found = last.find(info.root[use.tensor]); found != last.end())
        at = std::min(at, found->second);
    for (const Use &use : kind.operations[i].operands) {
      const int tensor = info.root[use.tensor];
      if (kind.tensors[use.tensor].kind != Tensor::Activation)
        continue;
      if (at == std::numeric_limits<int>::max()) {
        if (kept.count(tensor) > 0)
          forNext.insert(tensor);
        continue;
      }
      std::map<int, int> &found = kept.count(tensor) > 0 ? read : last;
      const auto [known, isNew] = found.try_emplace(tensor, at);
      known->second = std::min(known->second, at);
    }
  }
  for (auto [tensor, at] : read)
    if (needed.count(tensor) == 0) {
      auto reader = static_cast<std::size_t>(at);
      if (const int over = madeOver(tensor, needed); over >= 0 && from.count(over) > 0) {
        inPlace.insert(over);
        reader = std::min(reader, first.at(over));
      }
      walk.values.push_back({reader, bytes(tensor) * kept[tensor]});
    }
  double ofNext = 0;
  for (int tensor : forNext)
    if (read.count(tensor) == 0 && needed.count(tensor) == 0) {
      walk.values.push_back({kind.operations.size() - 1, bytes(tensor) * kept[tensor]});
      ofNext += walk.values.back().bytes;
    }
  return ofNext;
}

/// Whether ranks exchange what has a placement on its way to the operation that made the tensor, views or
/// not.
bool UnitLayouts::isMoved(int tensor, Placement placement, const UnitLayout &layout,
                          const std::vector<Placement> &lies) const {
  while (placement == lies[tensor]) {
    const int maker = info.producer[tensor];
    if (maker < 0 || kind.operations[maker].kind != Operation::View)
      return false;
    placement = want(maker, 0, layout[maker]);
    tensor = kind.operations[maker].operands[0].tensor;
  }
  return true;
}

/// Whether contractions are done again, and with them all of a segment at once.
bool UnitLayouts::makesProducts() const {
  bool result = query.recompute == Recompute::Full;
  for (std::size_t i = 0; i < kind.operations.size() && query.remade; ++i)
    result |= query.remade->isAgain[i] && kind.operations[i].heavy;
  return result;
}

/// The backward pass of the unit where what was saved is gone once it was read, and gradients lie over it.
/// `sourceBytes`: of what was saved, for what a unit behind makes again.
BackwardWalk UnitLayouts::describeBackward(const UnitLayout &layout, const std::vector<Placement> &lies,
                                           const std::map<int, double> &needed,
                                           const std::map<int, std::size_t> &first,
                                           const std::vector<Exchanged> &exchanged,
                                           double &sourceBytes) const {
  BackwardWalk walk;
  walk.narrow = types.activation < kWide ? types.activation / types.gradient : 0;
  walk.bytes.reserve(kind.tensors.size());
  walk.ops.reserve(kind.operations.size());
  for (std::size_t t = 0; t < kind.tensors.size(); ++t)
    walk.bytes.push_back(bytes(static_cast<int>(t)) * share(static_cast<int>(t), lies[t]));
  std::vector<std::size_t> updated(kind.tensors.size(), 0); // by parameter: the last operation that uses it
  for (std::size_t i = 0; i < kind.operations.size(); ++i)
    for (const Use &use : kind.operations[i].operands)
      if (kind.tensors[use.tensor].stored > 0)
        updated[use.tensor] = i;
  int logits = -1;
  double parts = 1; // of the rows that the loss, and what its gradient goes to, takes one after the other
  for (std::size_t i = 0; i < kind.operations.size(); ++i)
    if (isLoss(kind, kind.operations[i])) {
      logits = info.root[kind.operations[i].operands[0].tensor];
      parts = lossParts(i, layout);
    }
  // Logits, and what a bias is added to before, up to the product that makes it.
  std::set<int> inParts;
  int product = -1;
  for (int tensor = logits; tensor >= 0;) {
    inParts.insert(tensor);
    product = info.producer[tensor];
    tensor = product < 0 ? -1 : biasedBy(kind.operations[product]);
  }
  const bool isContext = std::any_of(query.axes.begin(), query.axes.end(),
                                     [](const TensorAxis &axis) { return axis.isContext; });
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    WalkedOp walked;
    bool reads = false;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      const Use &use = op.operands[o];
      const Tensor &tensor = kind.tensors[use.tensor];
      if (tensor.kind == Tensor::Activation && use.gradientFlops > 0)
        walked.operands.push_back(use.tensor);
      if (tensor.kind == Tensor::Activation && use.gradientFlops > 0 && o >= 3 &&
          op.kind == Operation::Attention)
        walked.mask = use.tensor;
      reads |= tensor.kind == Tensor::Activation && use.saved;
      if (tensor.stored > 0 && updated[use.tensor] == i) {
        const double gradient =
            tensor.stored * types.gradient *
            share(op.operands[o].tensor, want(static_cast<int>(i), static_cast<int>(o), layout[i]));
        walked.parameterGradients += gradient;
        walked.exchanges += gradient > 0;
        // A table's waits for what looking up in it adds; that of a turn does not where positions are split.
        const bool waits = tensor.shared >= 0 && op.kind == Operation::Contraction;
        walked.waiting += waits ? gradient : 0;
        walked.unsent += waits && !isContext ? gradient : 0;
      }
    }
    for (const Use &use : op.results) {
      walked.results.push_back(use.tensor);
      reads |= use.saved;
    }
    if (isLoss(kind, op)) {
      walked.kind = WalkedOp::Loss;
    } else if (op.kind == Operation::View) {
      walked.kind = WalkedOp::View;
    } else if (op.kind == Operation::Contraction) {
      walked.kind = WalkedOp::Contraction;
      const double ofParts = inParts.count(info.root[op.results[0].tensor]) > 0 ? parts : 1;
      findCopied(i, layout, ofParts, walked);
      findTransformed(i, layout, walked);
      const auto number = static_cast<int>(i);
      walked.taken = bytes(op.results[0].tensor) *
                     share(op.results[0].tensor, gradientWant(number, 0, layout[i])) / ofParts;
      for (std::size_t o = 0; o < op.operands.size(); ++o)
        if (const Use &use = op.operands[o];
            kind.tensors[use.tensor].kind == Tensor::Activation && use.gradientFlops > 0) {
          const Placement made = gradientHave(number, static_cast<int>(o), layout[i]);
          walked.made.push_back(bytes(use.tensor) * share(use.tensor, made));
          walked.exchanged += isMoved(use.tensor, made, layout, lies) ? walked.made.back() : 0;
        }
      for (std::size_t o = 2; o < op.operands.size(); ++o)
        walked.sumsRows |= kind.tensors[op.operands[o].tensor].kind == Tensor::Parameter &&
                           !hasLastDimension(op, op.operands[o]);
    } else if (op.kind == Operation::Attention) {
      walked.kind = WalkedOp::Attention;
      walked.scores = query.scoresInMemory ? partBytes(i, layout) : 0;
      const auto [scores, queries] = countScores(i, layout);
      walked.isInParts = factors::attentionPartRows(queries, scores, op.causal) < queries;
      walked.isNarrow = types.activation < kWide;
    } else {
      walked.kind = storesProducts(op) ? WalkedOp::Scaling : reads ? WalkedOp::Pointwise : WalkedOp::Linear;
    }
    walked.segment = query.remade ? query.remade->segments[i] : -1;
    // Where whole segments are made again, what is brought in is as well, and stays until it is read.
    walked.brought = query.remade && !makesProducts() ? broughtIn(i, layout, lies) : 0;
    walk.ops.push_back(std::move(walked));
  }
  // Where contractions are not done again, each value is made for what reads it; else all of a segment are.
  std::map<int, int> from;
  for (std::size_t i = 0; i < kind.operations.size() && query.remade && !makesProducts(); ++i)
    for (const auto *uses : {&kind.operations[i].operands, &kind.operations[i].results})
      for (const Use &use : *uses)
        if (use.saved && info.isTrained[i])
          from[info.root[use.tensor]] = static_cast<int>(i);
  std::set<int> inPlace;
  if (query.remade)
    sourceBytes = addSources(lies, needed, first, from, inPlace, walk);
  for (auto [tensor, part] : needed) {
    if (inPlace.count(tensor) > 0)
      continue;
    const auto made = from.find(tensor);
    walk.values.push_back({first.at(tensor), bytes(tensor) * part / (tensor == logits ? parts : 1),
                           againIn(tensor), made == from.end() ? -1 : made->second, tensor});
  }
  for (const Exchanged &copy : exchanged)
    walk.values.push_back({copy.reader, copy.bytes, copy.segment, -1, info.root[copy.tensor]});
  for (std::size_t t = 0; t < kind.tensors.size(); ++t)
    if (inParts.count(info.root[t]) > 0)
      walk.bytes[t] /= parts;
  if (product >= 0 && parts > 1)
    for (WalkedOp &walked : walk.ops)
      if (walked.kind == WalkedOp::Loss)
        walked.earlier = walk.ops[product].parameterGradients;
  walk.outputs = kind.outputs;
  if (logits < 0 && !kind.results.empty()) { // the loss is of what the model gives back
    walk.outputs.push_back(kind.results.front());
    walk.loss = walk.bytes[kind.results.front()]; // the terms of its sum
  }
  return walk;
}

} // namespace colossal::planner
