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

/// Does `op` give its operand's elements in other places?
static bool isMove(Operation *op) {
  return isa<ReshapeOp, TransposeOp, SliceOp>(op);
}

/// Is `value` one of `parameters`, or made of them and constants alone?
static bool isMadeOfAll(Value value, const llvm::SetVector<Value> &parameters) {
  Operation *maker = value.getDefiningOp();
  if (parameters.contains(value) || !maker || isa<ConstantOp>(maker))
    return maker || parameters.contains(value);
  return isPure(maker) && maker->getNumOperands() > 0 && maker->getNumResults() == 1 &&
         llvm::all_of(maker->getOperands(), [&](Value operand) { return isMadeOfAll(operand, parameters); });
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
  void run(ValueRange parameters, bool hasLoss);

private:
  /// Lets those of `readers` that read `value` do so through an op of their own.
  Value read(Value value, bool isForward);
  /// Finds what `ops` make of `derived` alone, and has it stored as the parameters are.
  void derive(ArrayRef<Operation *> ops);
  /// Has each rank make for itself what `ops` make of `derived` by moving elements about.
  void move(ArrayRef<Operation *> ops);
  /// The product that the loss, a cross-entropy, is of, through what is done to each element of it; or null.
  ContractOp findLossProduct() const;
  /// Lets `product`, and the products that its gradient enters, read `parameters` through ops of their own.
  void readForLoss(ContractOp product, const llvm::SetVector<Value> &parameters);
  /// `value`, made of `parameters` alone, made once more for `user`.
  Value makeFor(Operation *user, Value value, const llvm::SetVector<Value> &parameters);
  Value mark(Value value, Operation *first);

  Block &block;
  DenseI64ArrayAttr axes;
  SmallVector<Operation *> forward, backward;
  llvm::DenseSet<Operation *> ofForward, ofLoss;
  llvm::SetVector<Value> derived;
};
} // namespace

Value PassReads::read(Value value, bool isForward) {
  SmallVector<OpOperand *> uses;
  Operation *first = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user == block.getTerminator() || ofLoss.contains(user) || ofForward.contains(user) != isForward)
      continue;
    uses.push_back(&use);
    if (!first || user->isBeforeInBlock(first))
      first = user;
  }
  if (!first)
    return {};
  Value own = mark(value, first);
  for (OpOperand *use : uses)
    use->set(own);
  return own;
}

/// Reads `value` anew before `first`.
Value PassReads::mark(Value value, Operation *first) {
  OpBuilder builder(first);
  Operation *own = ReshapeOp::create(builder, value.getLoc(), value.getType(), value);
  own->setAttr(dist::kEachTurnAttrName, builder.getUnitAttr());
  own->setAttr(dist::kStoredOverAttrName, axes);
  return own->getResult(0);
}

ContractOp PassReads::findLossProduct() const {
  auto isLoss = [](Operation *op) {
    auto softmax = dyn_cast<SoftmaxOp>(op);
    return softmax && softmax.getLog();
  };
  auto loss = llvm::find_if(llvm::reverse(forward), isLoss);
  if (loss == forward.rend())
    return {};
  auto isFixed = [](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return !maker || isa<ParameterOp, ConstantOp>(maker);
  };
  for (Operation *op = (*loss)->getOperand(0).getDefiningOp(); op;) {
    if (auto product = dyn_cast<ContractOp>(op))
      return product;
    Value next;
    for (Value operand : op->getOperands())
      if (!isFixed(operand)) {
        if (next || !isa<ReshapeOp, ElementwiseOp>(op))
          return {};
        next = operand;
      }
    op = next ? next.getDefiningOp() : nullptr;
  }
  return {};
}

Value PassReads::makeFor(Operation *user, Value value, const llvm::SetVector<Value> &parameters) {
  if (parameters.contains(value)) {
    Value own = mark(value, user);
    ofLoss.insert(own.getDefiningOp());
    return own;
  }
  Operation *maker = value.getDefiningOp();
  if (isa<ConstantOp>(maker))
    return value;
  SmallVector<Value> operands =
      llvm::map_to_vector(maker->getOperands(), [&](Value each) { return makeFor(user, each, parameters); });
  Operation *own = OpBuilder(user).clone(*maker);
  own->setOperands(operands);
  own->setAttr(dist::kStoredOverAttrName, axes);
  ofLoss.insert(own);
  return own->getResult(0);
}

void PassReads::readForLoss(ContractOp product, const llvm::SetVector<Value> &parameters) {
  for (OpOperand &operand : product->getOpOperands()) {
    Value read = operand.get();
    if (!isMadeOfAll(read, parameters))
      continue;
    Value own = makeFor(product, read, parameters);
    operand.set(own);
    for (OpOperand &use : llvm::make_early_inc_range(read.getUses()))
      if (auto other = dyn_cast<ContractOp>(use.getOwner()); other && !ofForward.contains(other))
        if (Value gradient = other->getOperand(1 - use.getOperandNumber());
            gradient.getType() == product.getType())
          use.set(own);
  }
}

void PassReads::derive(ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (isMadeOf(op, derived) && !op->hasAttr(dist::kReplicatedOverAttrName)) {
      op->setAttr(dist::kStoredOverAttrName, axes);
      derived.insert(op->result_begin(), op->result_end());
    }
}

void PassReads::move(ArrayRef<Operation *> ops) {
  llvm::SetVector<Value> whole;
  for (Operation *op : ops) {
    const bool isMoved = isMadeOf(op, derived) && isMove(op) && !op->hasAttr(dist::kEachTurnAttrName);
    if (!isMoved && !isMadeOf(op, whole))
      continue;
    op->setAttr(dist::kReplicatedOverAttrName, axes);
    op->setAttr(dist::kEachTurnAttrName, UnitAttr::get(op->getContext()));
    whole.insert(op->result_begin(), op->result_end());
  }
}

void PassReads::run(ValueRange parameters, bool hasLoss) {
  SmallVector<Value> stored;
  for (Value parameter : parameters)
    if (cast<RankedTensorType>(parameter.getType()).getRank() > 0)
      stored.push_back(parameter);
  if (ContractOp product = hasLoss ? findLossProduct() : ContractOp())
    readForLoss(product, llvm::SetVector<Value>(stored.begin(), stored.end()));
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
  move(backward);
  derive(backward);
}

void training::readInEachPass(ValueRange parameters, Operation *lastForward, ArrayRef<int64_t> axes,
                              bool hasLoss) {
  PassReads(lastForward, axes).run(parameters, hasLoss);
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
