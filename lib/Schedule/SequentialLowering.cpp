//===- SequentialLowering.cpp - sums, sorts and scatters to kernels ---------===//
//
// Ops that walk lines get kernels of their own (SequentialKernel.h). What is scattered into is updated where
// it lies if nobody reads it afterwards, and copied first if somebody does.
//
//===----------------------------------------------------------------------===//
#include "FunctionLowering.h"

#include "colossal/Codegen/CPU/SequentialKernel.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

LogicalResult FunctionLowering::lowerSequential(Group &group, Place &place) {
  Operation *op = group.routine;
  const bool updates = cpu::updatesOutput(op);
  SmallVector<View> inputs;
  SmallVector<RankedTensorType> types;
  for (Value operand : op->getOperands()) {
    auto view = viewOf(operand, place);
    if (failed(view))
      return failure();
    inputs.push_back(*view);
    types.push_back(tensorOf(operand));
  }
  SmallVector<View> outputs;
  if (updates) {
    Value data = op->getOperand(0), result = op->getResult(0);
    bool shared = llvm::any_of(ArrayRef<View>(inputs).drop_front(),
                               [&](const View &other) { return other.storage == inputs[0].storage; });
    if (!shared && mayTake(data, inputs[0], result, op, place)) {
      outputs.push_back(place.views[result] = inputs[0]);
    } else {
      outputs.push_back(allocate(result, place, /*inside=*/true));
      if (failed(copy(inputs[0], types[0], outputs[0], place, op->getLoc())))
        return failure();
    }
    inputs.erase(inputs.begin());
    types.erase(types.begin());
    if (types[1].getNumElements() == 0)
      return success();
  } else {
    for (Value result : op->getResults())
      outputs.push_back(allocate(result, place));
    if (tensorOf(op->getResult(0)).getNumElements() == 0)
      return success();
  }
  KernelKey key(KernelKey::Kind::Sequential);
  key.add(op);
  SmallVector<SmallVector<int64_t>> strides;
  for (const View &view : inputs)
    strides.push_back(view.strides);
  for (const View &view : outputs)
    strides.push_back(view.strides);
  for (Value operand : op->getOperands())
    key.add(operand.getType());
  for (ArrayRef<int64_t> list : strides)
    key.add(list);
  std::string problem;
  const CachedKernel *kernel = getKernel(key, op->getName().stripDialect(), problem, [&] {
    return cpu::generateSequential(*context, shared.target, op, strides);
  });
  if (!kernel)
    return op->emitOpError("cannot be generated for this target") << (problem.empty() ? "" : ": ") << problem;
  SmallVector<Access> accesses;
  for (auto [view, type] : llvm::zip(inputs, types))
    accesses.push_back(accessOf(view, type, false));
  for (auto [view, result] : llvm::zip(outputs, op->getResults()))
    accesses.push_back(accessOf(view, tensorOf(result), true));
  launch(*kernel, accesses, outputs.size(), {}, op->getLoc(), place);
  return success();
}
