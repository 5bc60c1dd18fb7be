//===- SumsAhead.cpp - what a step sums up of its inputs before it begins ------===//
#include "SumsAhead.h"

#include "colossal/Import/ONNX.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

namespace {
class SumsAhead {
public:
  SumsAhead(func::FuncOp step, const llvm::DenseSet<Value> &trained) : step(step), trained(trained) {}
  SecondArguments run(Value apart);

private:
  void followInputs();
  /// In order.
  SmallVector<ReduceOp> findSums(Value apart);
  /// The ops that make `value`, in order.
  llvm::SetVector<Operation *> findMakers(Value value);
  Value copy(ReduceOp sum);
  BlockArgument getSecond(BlockArgument argument);

  func::FuncOp step;
  const llvm::DenseSet<Value> &trained;
  llvm::DenseSet<Operation *> ofInputs; ///< ops of inputs and constants only
  llvm::DenseSet<Value> varying;        ///< what of these depends on some input
  llvm::SmallDenseMap<Value, BlockArgument> seconds;
  SecondArguments added;
  IRMapping copies;
};
} // namespace

void SumsAhead::followInputs() {
  for (Operation &op : step.front().without_terminator()) {
    const bool isMade = !isa<RandomOp, DropoutOp>(op) && isPure(&op) && op.getNumRegions() == 0 &&
                        llvm::all_of(op.getOperands(), [&](Value operand) {
                          return isa<BlockArgument>(operand) || ofInputs.contains(operand.getDefiningOp());
                        });
    if (!isMade || (isa<ParameterOp>(op) && trained.contains(op.getResult(0))))
      continue;
    ofInputs.insert(&op);
    if (llvm::any_of(op.getOperands(),
                     [&](Value operand) { return isa<BlockArgument>(operand) || varying.contains(operand); }))
      varying.insert(op.result_begin(), op.result_end());
  }
}

llvm::SetVector<Operation *> SumsAhead::findMakers(Value value) {
  llvm::DenseSet<Operation *> reached;
  SmallVector<Operation *> left;
  auto reach = [&](Value made) {
    if (Operation *op = made.getDefiningOp(); op && reached.insert(op).second)
      left.push_back(op);
  };
  reach(value);
  while (!left.empty())
    for (Value operand : left.pop_back_val()->getOperands())
      reach(operand);
  llvm::SetVector<Operation *> makers;
  for (Operation &op : step.front())
    if (reached.contains(&op))
      makers.insert(&op);
  return makers;
}

/// Sums of all elements of something, that more than inputs go on with.
SmallVector<ReduceOp> SumsAhead::findSums(Value apart) {
  const llvm::SetVector<Operation *> ofApart = apart ? findMakers(apart) : llvm::SetVector<Operation *>();
  llvm::DenseSet<Operation *> goesOn; // to what is no input's alone
  SmallVector<ReduceOp> sums;
  for (Operation &op : llvm::reverse(step.front().without_terminator())) {
    if (!ofInputs.contains(&op))
      continue;
    if (llvm::none_of(op.getUsers(), [&](Operation *user) {
          return goesOn.contains(user) ||
                 (!ofInputs.contains(user) && !user->hasTrait<OpTrait::IsTerminator>());
        }))
      continue;
    auto sum = dyn_cast<ReduceOp>(op);
    if (!sum || cast<RankedTensorType>(sum.getType()).getNumElements() != 1 || ofApart.contains(&op) ||
        !varying.contains(sum.getResult()))
      goesOn.insert(&op);
    else
      sums.push_back(sum);
  }
  std::reverse(sums.begin(), sums.end());
  return sums;
}

BlockArgument SumsAhead::getSecond(BlockArgument argument) {
  BlockArgument &second = seconds[argument];
  if (second)
    return second;
  const unsigned number = step.getNumArguments();
  Builder b(step.getContext());
  auto name = step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kOnnxNameAttr);
  const std::string own = (name ? name.getValue() : StringRef("input")).str() + "#ahead";
  (void)step.insertArgument(number, argument.getType(),
                            b.getDictionaryAttr(b.getNamedAttr(kOnnxNameAttr, b.getStringAttr(own))),
                            NameLoc::get(b.getStringAttr(own)));
  second = step.getArgument(number);
  added.push_back({second, argument});
  return second;
}

Value SumsAhead::copy(ReduceOp sum) {
  OpBuilder b(sum);
  for (Operation *op : findMakers(sum.getResult())) {
    if (isa<ParameterOp>(op) || copies.contains(op))
      continue;
    for (Value operand : op->getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand))
        copies.map(argument, getSecond(argument));
    b.clone(*op, copies);
  }
  return copies.lookup(sum.getResult());
}

SecondArguments SumsAhead::run(Value apart) {
  followInputs();
  for (ReduceOp sum : findSums(apart)) {
    Value ahead = copy(sum);
    sum.getResult().replaceAllUsesWith(ahead);
  }
  return std::move(added);
}

SecondArguments training::sumAhead(func::FuncOp step, Value apart, const llvm::DenseSet<Value> &trained) {
  return SumsAhead(step, trained).run(apart);
}
