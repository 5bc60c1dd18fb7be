//===- TileLowering.cpp - ops that emit whole tiles to kernels --------------===//
//
// What is scattered into, or what sums are added to, is updated where it lies if nobody reads it afterwards,
// and copied first if somebody does.
//
//===----------------------------------------------------------------------===//
#include "Shared.h"

#include "colossal/Codegen/Kernel/TileKernel.h"
#include "colossal/Schedule/LoweringContext.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// Brings `data` into the place of `result`, which a kernel then changes there. `others`: what the kernel
/// reads.
static FailureOr<View> takePlace(LoweringContext &context, Value data, Value result, FusionGroup &group,
                                 ArrayRef<View> others) {
  auto from = context.viewOf(data);
  if (failed(from))
    return failure();
  const bool isShared =
      llvm::any_of(others, [&](const View &other) { return other.storage == from->storage; });
  ExtractedGroup alone; // as far as it matters here
  alone.inputs.push_back(*from);
  if (!isShared &&
      (context.mayTake(data, *from, result, group.ops) || context.findReplacedInput(group, alone, {}))) {
    context.setView(result, *from);
    return *from;
  }
  View place = context.allocate(result, /*inside=*/true);
  if (failed(context.copy(*from, tensorOf(data), place, group.routine->getLoc())))
    return failure();
  return place;
}

LogicalResult schedule::lowerTiles(LoweringContext &context, FusionGroup &group) {
  Operation *op = group.routine;
  const bool updates = cast<TileEmissionOpInterface>(op).updatesFirstOperand();
  Operation *addition = nullptr; // of the op's sums to something else
  for (Operation *other : group.ops)
    addition = other == op ? addition : other;
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
    inputs.erase(inputs.begin());
    types.erase(types.begin());
    auto place = takePlace(context, op->getOperand(0), op->getResult(0), group, inputs);
    if (failed(place))
      return failure();
    outputs.push_back(*place);
    if (types[1].getNumElements() == 0)
      return success();
  } else if (addition) {
    const unsigned other = addition->getOperand(0) == op->getResult(0) ? 1 : 0;
    auto place = takePlace(context, addition->getOperand(other), addition->getResult(0), group, inputs);
    if (failed(place))
      return failure();
    outputs.push_back(*place);
    if (llvm::any_of(types, [](RankedTensorType type) { return type.getNumElements() == 0; }))
      return success();
  } else {
    for (Value result : op->getResults())
      outputs.push_back(context.allocate(result));
    if (tensorOf(op->getResult(0)).getNumElements() == 0)
      return success();
  }
  KernelKey key(KernelKey::Kind::Tiles);
  key.add(op);
  if (addition)
    key.add(addition);
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
    return kernel::generateTiles(*context.mlirContext(), context.target().team(), op, strides,
                                 /*addsToResult=*/addition != nullptr);
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
