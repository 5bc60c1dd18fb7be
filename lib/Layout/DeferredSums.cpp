//===- DeferredSums.cpp - where partial sums may go on ----------------------===//
#include "DeferredSums.h"

#include "dialects/Dist/LayoutMarks.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

/// Can the user of an operand take it as a partial sum?
static bool isCarried(OpOperand &use, const RefinementAnalysis &refinement) {
  if (!isa<ShardingRuleOpInterface>(use.getOwner()))
    return false;
  return llvm::any_of(refinement.get(use.getOwner()).rule.factors, [&](const Factor &factor) {
    return llvm::is_contained(factor.carriers, use.getOperandNumber());
  });
}

llvm::DenseSet<Operation *> layout::findDeferringOps(func::FuncOp function,
                                                     const RefinementAnalysis &refinement) {
  llvm::DenseSet<Value> deferrable; // may be partial sums, and every user can take them so
  llvm::DenseSet<Operation *> carrying, deferring;
  auto ops = function.front().without_terminator();
  auto countDeferrable = [&](Operation &op, const Factor &factor) {
    SmallVector<Value, 2> found;
    for (unsigned carrier : factor.carriers)
      if (Value operand = op.getOperand(carrier);
          deferrable.contains(operand) && !llvm::is_contained(found, operand))
        found.push_back(operand);
    return found.size();
  };
  for (Operation &op : ops) {
    bool isSum = false;
    for (const Factor &factor : refinement.get(&op).rule.factors) {
      isSum |=
          factor.kind == FactorKind::Reduction && factor.reduction == ReductionKind::Sum && factor.size > 1;
      size_t count = countDeferrable(op, factor);
      if (count > 0)
        carrying.insert(&op);
      if (count > 1 || (count > 0 && op.hasAttr(kWidensSumsAttrName)))
        deferring.insert(&op);
    }
    if (!isSum && !carrying.contains(&op))
      continue;
    const FactorRule &rule = refinement.get(&op).rule;
    auto isPartial = [&](OpResult result) { // where its sums are split
      return carrying.contains(&op) ||
             llvm::any_of(llvm::seq<unsigned>(0, rule.factors.size()), [&](unsigned f) {
               return rule.factors[f].kind == FactorKind::Reduction &&
                      !holds(rule.results[result.getResultNumber()], f);
             });
    };
    for (OpResult result : op.getResults())
      if (!result.use_empty() && isPartial(result) &&
          llvm::all_of(result.getUses(), [&](OpOperand &use) { return isCarried(use, refinement); }))
        deferrable.insert(result);
  }
  auto getElements = [](Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); };
  for (Operation &op : llvm::reverse(ops)) {
    if (!carrying.contains(&op) || op.getNumResults() != 1)
      continue;
    Value result = op.getResult(0);
    bool shrinks = llvm::any_of(op.getOperands(), [&](Value operand) {
      return deferrable.contains(operand) && getElements(result) <= getElements(operand) / 2;
    });
    bool leadsOn = deferrable.contains(result) &&
                   llvm::any_of(result.getUsers(), [&](Operation *user) { return deferring.contains(user); });
    if (shrinks || leadsOn)
      deferring.insert(&op);
  }
  return deferring;
}
