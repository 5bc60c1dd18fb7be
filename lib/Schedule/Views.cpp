//===- Views.cpp - tensors as strided parts of storages ---------------------===//
#include "colossal/Schedule/Views.h"

#include "dialects/Colossal/Colossal.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

SmallVector<int64_t> schedule::denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int d = (int)shape.size() - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

bool schedule::isDense(const View &view, ArrayRef<int64_t> shape) {
  int64_t expected = 1;
  for (int d = (int)shape.size() - 1; d >= 0; --d) {
    if (shape[d] != 1 && view.strides[d] != expected)
      return false;
    expected *= shape[d];
  }
  return true;
}

int64_t schedule::spanElements(const View &view, ArrayRef<int64_t> shape) {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(shape, view.strides)) {
    if (size == 0)
      return 0;
    last += (size - 1) * stride;
  }
  return last + 1;
}

static bool isOfKind(Operation *op, KernelKind kind) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getKernelKind() == kind;
}

bool schedule::isMovement(Operation *op) {
  return isa<dist::LoopSliceOp>(op) || isOfKind(op, KernelKind::Movement);
}

bool schedule::isSource(Operation *op) {
  return isOfKind(op, KernelKind::Source);
}

std::optional<View> schedule::viewThrough(Operation *op, const View &input) {
  if (auto slice = dyn_cast<dist::LoopSliceOp>(op)) {
    View part = input;
    part.turn = input.strides[slice.getDim()] * shapeOf(slice.getResult())[slice.getDim()];
    return part;
  }
  auto places = cast<KernelOpInterface>(op).viewThrough({input.offset, input.strides});
  if (!places)
    return std::nullopt;
  return View{input.storage, places->offset, std::move(places->strides), input.turn};
}
