//===- PaddedStorage.cpp - tensors with a border ----------------------------===//
//
// What a padding reads is computed straight into the padded tensor, so that nothing is copied.
//
//===----------------------------------------------------------------------===//
#include "FunctionState.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

LogicalResult LoweringContext::allocatePadded(PadOp op) {
  RankedTensorType type = tensorOf(op.getResult());
  View view{newStorage(byteSize(type)), 0, stridesInOrder(op.getResult())};
  views[op.getResult()] = view;
  // The border: per dimension the slabs before and after the input, within the input in the dimensions above.
  SmallVector<int64_t> shape(type.getShape()), input(shapeOf(op.getInput()));
  View part = view;
  for (unsigned d = 0; d < shape.size(); ++d) {
    int64_t low = op.getLow()[d], high = type.getDimSize(d) - low - input[d];
    for (auto [first, size] : {std::pair<int64_t, int64_t>{0, low}, {low + input[d], high}}) {
      SmallVector<int64_t> slab(shape);
      slab[d] = size;
      View at = part;
      at.offset += first * view.strides[d];
      if (size && failed(fillZero(at, type.clone(slab), op.getLoc())))
        return failure();
    }
    part.offset += low * view.strides[d];
    shape[d] = input[d];
  }
  return success();
}

/// The padded tensor that `value` may be computed into: its borders are filled when it is allocated.
static PadOp paddingOf(Value value) {
  for (Operation *user : value.getUsers())
    if (isPadding(user))
      return cast<PadOp>(user);
  return nullptr;
}

std::optional<View> LoweringContext::allocateInside(Value value) {
  if (auto found = state.insides.find(value); found != state.insides.end())
    return found->second;
  PadOp padding = paddingOf(value);
  if (!padding || loads || views.count(padding.getResult()))
    return std::nullopt;
  if (failed(allocatePadded(padding)))
    return std::nullopt;
  View view = views[padding.getResult()];
  for (auto [stride, low] : llvm::zip(view.strides, padding.getLow()))
    view.offset += stride * low;
  state.insides[value] = view;
  return view;
}

LogicalResult LoweringContext::lowerPadding(PadOp op) {
  if (views.count(op.getResult()))
    return success();
  auto source = viewOf(op.getInput());
  if (failed(source) || failed(allocatePadded(op)))
    return failure();
  View inside = views[op.getResult()];
  for (auto [stride, low] : llvm::zip(inside.strides, op.getLow()))
    inside.offset += stride * low;
  return copy(*source, tensorOf(op.getInput()), inside, op.getLoc());
}
