//===- Origins.cpp - what values depend on ----------------------------------===//
#include "colossal/Outline/Origins.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/State.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::outline;

llvm::DenseMap<Value, Origin> outline::findOrigins(func::FuncOp function) {
  llvm::DenseMap<Value, Origin> origins;
  for (BlockArgument argument : function.getArguments()) {
    const bool isState = function.getArgAttr(argument.getArgNumber(), dist::kStateAttrName) != nullptr;
    origins[argument] = {!isState, isState};
  }
  for (Operation &op : function.front().without_terminator()) {
    Origin origin;
    origin.parameter = isa<ParameterOp>(op);
    for (Value operand : op.getOperands()) {
      Origin from = origins.lookup(operand);
      origin.argument |= from.argument;
      origin.parameter |= from.parameter;
    }
    for (Value result : op.getResults())
      origins[result] = origin;
  }
  return origins;
}
