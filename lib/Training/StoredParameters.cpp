//===- StoredParameters.cpp - parameters and gradients that ranks share -----===//
#include "StoredParameters.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/State.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace colossal;

/// Does `op` read of `values`, and nothing else but what the file has?
static bool isMadeOf(Operation *op, const llvm::SetVector<Value> &values) {
  auto isOne = [&](Value operand) { return values.contains(operand); };
  auto isFixed = [](Value operand) {
    return operand.getDefiningOp() && isa<ParameterOp, ConstantOp>(operand.getDefiningOp());
  };
  return isPure(op) && llvm::any_of(op->getOperands(), isOne) &&
         llvm::all_of(op->getOperands(), [&](Value value) { return isOne(value) || isFixed(value); });
}

namespace {
class PassReads {
public:
  PassReads(Operation *lastForward, ArrayRef<int64_t> axes)
      : block(*lastForward->getBlock()), axes(DenseI64ArrayAttr::get(lastForward->getContext(), axes)) {
    bool isForward = true;
    for (Operation &op : block.without_terminator()) {
      (isForward ? forward : backward).push_back(&op);
      if (isForward)
        ofForward.insert(&op);
      isForward &= &op != lastForward;
    }
  }
  void run(ValueRange parameters);

private:
  /// Lets those of `readers` that read `value` do so through an op of their own.
  Value read(Value value, bool isForward);
  /// Finds what `ops` make of `derived` alone, and has it stored as the parameters are.
  void derive(ArrayRef<Operation *> ops);

  Block &block;
  DenseI64ArrayAttr axes;
  SmallVector<Operation *> forward, backward;
  llvm::DenseSet<Operation *> ofForward;
  llvm::SetVector<Value> derived;
};
} // namespace

Value PassReads::read(Value value, bool isForward) {
  SmallVector<OpOperand *> uses;
  Operation *first = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user == block.getTerminator() || ofForward.contains(user) != isForward)
      continue;
    uses.push_back(&use);
    if (!first || user->isBeforeInBlock(first))
      first = user;
  }
  if (!first)
    return {};
  OpBuilder builder(first);
  Operation *own = ReshapeOp::create(builder, value.getLoc(), value.getType(), value);
  own->setAttr(dist::kEachTurnAttrName, builder.getUnitAttr());
  own->setAttr(dist::kStoredOverAttrName, axes);
  for (OpOperand *use : uses)
    use->set(own->getResult(0));
  return own->getResult(0);
}

void PassReads::derive(ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (isMadeOf(op, derived)) {
      op->setAttr(dist::kStoredOverAttrName, axes);
      derived.insert(op->result_begin(), op->result_end());
    }
}

void PassReads::run(ValueRange parameters) {
  SmallVector<Value> stored;
  for (Value parameter : parameters)
    if (cast<RankedTensorType>(parameter.getType()).getRank() > 0)
      stored.push_back(parameter);
  for (Value parameter : stored)
    if (Value own = read(parameter, /*isForward=*/true))
      derived.insert(own);
  derive(forward);
  for (Value value : SmallVector<Value>(derived.getArrayRef()))
    if (Value own = read(value, /*isForward=*/false))
      derived.insert(own);
  // What is computed again.
  for (Value parameter : stored)
    if (Value own = read(parameter, /*isForward=*/false))
      derived.insert(own);
  derive(backward);
}

void training::readInEachPass(ValueRange parameters, Operation *lastForward, ArrayRef<int64_t> axes) {
  PassReads(lastForward, axes).run(parameters);
}

/// Marks the ops behind `lastForward` that only move the elements of `gradient` about or convert them: what
/// they are made of is a sum over the batch as well. Where sums meet, they are reduced behind that.
static void keepMakers(Value gradient, Operation *lastForward, DenseI64ArrayAttr axes) {
  for (Operation *op = gradient.getDefiningOp(); op; op = op->getOperand(0).getDefiningOp()) {
    const bool isMoved = isa<ReshapeOp, TransposeOp, SliceOp, PadOp>(op) ||
                         (isa<ElementwiseOp>(op) && op->getNumOperands() == 1);
    if (!isMoved || !lastForward->isBeforeInBlock(op))
      return;
    op->setAttr(dist::kStoredOverAttrName, axes);
  }
}

void training::keepOverAxes(ValueRange values, ValueRange gradients, Operation *lastForward,
                            Operation *lastGradient, ArrayRef<int64_t> axes) {
  auto attribute = DenseI64ArrayAttr::get(lastGradient->getContext(), axes);
  auto hasDims = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() > 0;
  };
  llvm::DenseSet<Value> reached;
  for (ValueRange range : {values, gradients})
    for (Value value : range)
      if (hasDims(value))
        reached.insert(value);
  for (Value gradient : gradients)
    if (hasDims(gradient))
      keepMakers(gradient, lastForward, attribute);
  Operation *terminator = lastGradient->getBlock()->getTerminator();
  for (Operation *op = lastGradient->getNextNode(); op != terminator; op = op->getNextNode()) {
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return reached.contains(operand); }))
      continue;
    op->setAttr(dist::kStoredOverAttrName, attribute);
    for (Value result : op->getResults())
      if (hasDims(result))
        reached.insert(result);
  }
}

void training::makeOnEachRank(ValueRange parameters, Operation *lastGradient, ArrayRef<int64_t> axes) {
  auto attribute = DenseI64ArrayAttr::get(lastGradient->getContext(), axes);
  llvm::SetVector<Value> made(parameters.begin(), parameters.end());
  for (Operation *op = &lastGradient->getBlock()->front(); op != lastGradient->getNextNode();
       op = op->getNextNode())
    if (isMadeOf(op, made)) {
      op->setAttr(dist::kReplicatedOverAttrName, attribute);
      made.insert(op->result_begin(), op->result_end());
    }
}
