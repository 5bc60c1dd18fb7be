//===- PaddedStorage.cpp - tensors with a border ----------------------------===//
//
// What a padding reads is computed straight into the padded tensor, so that nothing is copied.
//
//===----------------------------------------------------------------------===//
#include "FunctionState.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// The place of the operand in its padded tensor.
static View insideOf(Operation *padding, View view) {
  for (auto [stride, low] : llvm::zip(view.strides, cast<KernelOpInterface>(padding).getLowBorder()))
    view.offset += stride * low;
  return view;
}

LogicalResult LoweringContext::allocatePadded(Operation *op) {
  Value result = op->getResult(0);
  RankedTensorType type = tensorOf(result);
  View view{newStorage(byteSize(type)), 0, stridesInOrder(result)};
  views[result] = view;
  // The border: per dimension the slabs before and after the input, within the input in the dimensions above.
  SmallVector<int64_t> shape(type.getShape()), input(shapeOf(op->getOperand(0)));
  SmallVector<int64_t> lows = cast<KernelOpInterface>(op).getLowBorder();
  View part = view;
  for (unsigned d = 0; d < shape.size(); ++d) {
    int64_t low = lows[d], high = type.getDimSize(d) - low - input[d];
    for (auto [first, size] : {std::pair<int64_t, int64_t>{0, low}, {low + input[d], high}}) {
      SmallVector<int64_t> slab(shape);
      slab[d] = size;
      View at = part;
      at.offset += first * view.strides[d];
      if (size && failed(fillZero(at, type.clone(slab), op->getLoc())))
        return failure();
    }
    part.offset += low * view.strides[d];
    shape[d] = input[d];
  }
  return success();
}

/// The padded tensor that `value` may be computed into: its borders are filled when it is allocated.
static Operation *paddingOf(Value value) {
  for (Operation *user : value.getUsers())
    if (isPadding(user))
      return user;
  return nullptr;
}

std::optional<View> LoweringContext::allocateInside(Value value) {
  if (auto found = state.insides.find(value); found != state.insides.end())
    return found->second;
  Operation *padding = paddingOf(value);
  if (!padding || loads || views.count(padding->getResult(0)))
    return std::nullopt;
  if (failed(allocatePadded(padding)))
    return std::nullopt;
  return state.insides[value] = insideOf(padding, views[padding->getResult(0)]);
}

LogicalResult LoweringContext::lowerPadding(Operation *op) {
  Value input = op->getOperand(0), result = op->getResult(0);
  if (views.count(result))
    return success();
  auto source = viewOf(input);
  if (failed(source) || failed(allocatePadded(op)))
    return failure();
  return copy(*source, tensorOf(input), insideOf(op, views[result]), op->getLoc());
}
