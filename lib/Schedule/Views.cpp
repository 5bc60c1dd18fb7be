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

std::optional<SmallVector<unsigned>> schedule::denseOrder(const View &view, ArrayRef<int64_t> shape) {
  if (isDense(view, shape))
    return llvm::to_vector(llvm::seq<unsigned>(0, shape.size()));
  SmallVector<unsigned> order;
  for (unsigned d = 0; d < shape.size(); ++d)
    if (shape[d] != 1)
      order.push_back(d);
  llvm::stable_sort(order, [&](unsigned a, unsigned b) { return view.strides[a] > view.strides[b]; });
  for (unsigned d = 0; d < shape.size(); ++d)
    if (shape[d] == 1)
      order.push_back(d);
  const SmallVector<int64_t> strides = stridesInOrder(shape, order);
  for (auto [size, has, asked] : llvm::zip(shape, view.strides, strides))
    if (size != 1 && has != asked)
      return std::nullopt;
  return order;
}

SmallVector<int64_t> schedule::stridesInOrder(ArrayRef<int64_t> shape, ArrayRef<unsigned> order) {
  SmallVector<int64_t> strides(shape.size(), 1);
  int64_t stride = 1;
  for (unsigned d : llvm::reverse(order)) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
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
