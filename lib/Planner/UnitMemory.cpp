// What a unit keeps for its backward pass under each kind of recompute, and what it makes again.
// UnitLayouts.cpp prices all else.
#include "UnitLayouts.h"

#include <algorithm>
#include <functional>
#include <set>

namespace colossal::planner {

/// The most that an operation brings in of values that lie otherwise than it takes them, while the backward
/// pass runs it: what was gathered is gathered again, and is whole while the operation reads it.
double UnitLayouts::broughtIn(const UnitLayout &layout, const std::vector<Placement> &lies) const {
  double most = 0;
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    std::set<std::pair<int, Placement>> copies;
    double held = 0;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      const Use &use = op.operands[o];
      if (kind.tensors[use.tensor].kind != Tensor::Activation ||
          !(use.saved || query.recompute == Recompute::Full))
        continue;
      const Placement taken = want(static_cast<int>(i), static_cast<int>(o), layout[i]);
      const double part = resharder.share(taken);
      // What is cut out of what lies there is read where it lies.
      if (taken != lies[use.tensor] && part >= resharder.share(lies[use.tensor]) &&
          copies.insert({use.tensor, taken}).second)
        held += bytes(use.tensor) * part;
    }
    most = std::max(most, held);
  }
  return most;
}

/// The most that gradients of activations take while the backward pass runs an operation: those of its
/// results and operands, of which a kernel that streams writes the ones over the others.
double UnitLayouts::gradientsInFlight(const UnitLayout &layout, const std::vector<Placement> &lies) const {
  double most = 0;
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    double operands = 0, results = 0;
    for (const Use &use : op.operands)
      if (kind.tensors[use.tensor].kind == Tensor::Activation && use.gradientFlops > 0)
        operands += bytes(use.tensor) * resharder.share(lies[use.tensor]);
    if (operands <= 0)
      continue;
    for (std::size_t r = 0; r < op.results.size(); ++r)
      results += bytes(op.results[r].tensor) *
                 resharder.share(have(static_cast<int>(i), static_cast<int>(r), layout[i]));
    const bool streams = op.kind == Operation::Streaming || op.kind == Operation::View;
    most = std::max(most, streams ? std::max(operands, results) : operands + results);
  }
  return most;
}

/// What the backward pass reads of the forward pass, and what is made again for it.
void UnitLayouts::keep(const UnitLayout &layout, const std::vector<Placement> &lies, UnitCost &cost,
                       cost::OpList &recompute) const {
  std::map<int, double> needed, forWeights; // per root tensor: part of it
  auto need = [&](std::map<int, double> &in, int tensor, double part) {
    if (kind.tensors[tensor].kind != Tensor::Activation)
      return;
    double &held = in[info.root[tensor]];
    held = std::max(held, part);
  };
  double scores = 0;
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    bool hasGradient = false;
    for (const Use &use : op.operands)
      hasGradient |= use.gradientFlops > 0;
    if (!hasGradient)
      continue;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      const Use &use = op.operands[o];
      if (!use.saved)
        continue;
      need(needed, use.tensor, resharder.share(lies[use.tensor]));
      if (op.kind == Operation::Contraction &&
          kind.tensors[op.operands[1 - std::min<std::size_t>(o, 1)].tensor].kind == Tensor::Parameter)
        need(forWeights, use.tensor, resharder.share(lies[use.tensor]));
    }
    for (std::size_t r = 0; r < op.results.size(); ++r)
      if (op.results[r].saved)
        need(needed, op.results[r].tensor,
             resharder.share(have(static_cast<int>(i), static_cast<int>(r), layout[i])));
    if (op.kind == Operation::Attention && !query.fusedAttention) {
      double size = types.activation;
      for (std::size_t f = 0; f < op.factors.size(); ++f) {
        bool isScore = false;
        for (const FactorPosition &place : op.operands[0].places)
          isScore |= place.factor == static_cast<int>(f) && !isFixed(op.factors[f]);
        isScore |= op.factors[f].role == "keys";
        if (isScore)
          size *= local(static_cast<int>(i), static_cast<int>(f), layout[i]);
      }
      scores += size;
    }
  }
  auto sum = [&](const std::map<int, double> &tensors) {
    double result = 0;
    for (auto [tensor, part] : tensors)
      result += bytes(tensor) * part;
    return result;
  };
  if (query.recompute == Recompute::Selective) {
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
          replace(use.tensor, resharder.share(lies[use.tensor]));
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
  cost.savedBytes = sum(needed) + scores;
  cost.weightSavedBytes = std::min(cost.savedBytes, sum(forWeights));
  if (query.recompute == Recompute::Full && !kind.inputs.empty()) {
    double input = 0;
    for (int tensor : kind.inputs)
      input += bytes(tensor) * resharder.share(lies[tensor]);
    cost.transientBytes = std::max(0.0, cost.savedBytes - input);
    cost.savedBytes = input;
    cost.weightSavedBytes = input;
  }
  cost.transientBytes += broughtIn(layout, lies) + gradientsInFlight(layout, lies);
  for (int tensor : kind.results)
    cost.resultBytes +=
        bytes(tensor) / types.activation * kind.tensors[tensor].bytes * resharder.share(lies[tensor]);
}

} // namespace colossal::planner
