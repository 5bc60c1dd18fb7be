//===- TileLowering.cpp - ops that emit whole tiles to kernels --------------===//
//
// What is scattered into is updated where it lies if nobody reads it afterwards, and copied first if somebody
// does.
//
//===----------------------------------------------------------------------===//
#include "Shared.h"

#include "colossal/Codegen/Kernel/TileKernel.h"
#include "colossal/Schedule/LoweringContext.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

LogicalResult schedule::lowerTiles(LoweringContext &context, FusionGroup &group) {
  Operation *op = group.routine;
  const bool updates = cast<TileEmissionOpInterface>(op).updatesFirstOperand();
  SmallVector<View> inputs;
  SmallVector<RankedTensorType> types;
  for (Value operand : op->getOperands()) {
    auto view = context.viewOf(operand);
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
    if (!shared && context.mayTake(data, inputs[0], result, op)) {
      outputs.push_back(inputs[0]);
      context.setView(result, inputs[0]);
    } else {
      outputs.push_back(context.allocate(result, /*inside=*/true));
      if (failed(context.copy(inputs[0], types[0], outputs[0], op->getLoc())))
        return failure();
    }
    inputs.erase(inputs.begin());
    types.erase(types.begin());
    if (types[1].getNumElements() == 0)
      return success();
  } else {
    for (Value result : op->getResults())
      outputs.push_back(context.allocate(result));
    if (tensorOf(op->getResult(0)).getNumElements() == 0)
      return success();
  }
  KernelKey key(KernelKey::Kind::Tiles);
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
  const CachedKernel *kernel = context.getKernel(key, op->getName().stripDialect(), problem, [&] {
    return kernel::generateTiles(*context.mlirContext(), context.target().team(), op, strides);
  });
  if (!kernel)
    return op->emitOpError("cannot be generated for this target") << (problem.empty() ? "" : ": ") << problem;
  SmallVector<Access> accesses;
  for (auto [view, type] : llvm::zip(inputs, types))
    accesses.push_back(context.accessOf(view, type, false));
  for (auto [view, result] : llvm::zip(outputs, op->getResults()))
    accesses.push_back(context.accessOf(view, tensorOf(result), true));
  context.launch(*kernel, accesses, outputs.size(), {}, op->getLoc());
  return success();
}
