//===- SeparatePasses.cpp - what both passes of a step read -----------------===//
#include "colossal/Autodiff/SeparatePasses.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/FactorRule.h"
#include "dialects/Dist/Pipeline.h"

using namespace mlir;
using namespace colossal;

/// Lets gradients behind `lastForward` read `value`, which `reader` reads, through a reshape.
static void separate(Value value, Operation *reader, Operation *lastForward) {
  SmallVector<OpOperand *> uses;
  Operation *first = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (!user->hasAttr(dist::kGradientOfAttrName) || !lastForward->isBeforeInBlock(user))
      continue;
    uses.push_back(&use);
    if (!first || user->isBeforeInBlock(first))
      first = user;
  }
  if (uses.empty())
    return;
  OpBuilder builder(first);
  Operation *kept = ReshapeOp::create(builder, first->getLoc(), value.getType(), value);
  kept->setAttr(dist::kGradientOfAttrName, reader->getAttr(dist::kUnitAttrName));
  for (OpOperand *use : uses)
    use->set(kept->getResult(0));
}

void colossal::separatePasses(Operation *lastForward) {
  llvm::DenseSet<Value> seen;
  for (Operation &op : *lastForward->getBlock()) {
    auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op);
    if (ruled && ruled.isHeavy() && op.hasAttr(dist::kUnitAttrName))
      for (Value operand : op.getOperands())
        if (isa<RankedTensorType>(operand.getType()) && seen.insert(operand).second)
          separate(operand, &op, lastForward);
    if (&op == lastForward)
      return;
  }
}
