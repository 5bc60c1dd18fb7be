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

bool schedule::isMovement(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getKernelKind() == KernelKind::Movement;
}

/// Strides of `to` over the memory of `from`, run by run of dimensions with equal products.
static std::optional<SmallVector<int64_t>> reshapeStrides(ArrayRef<int64_t> from, ArrayRef<int64_t> strides,
                                                          ArrayRef<int64_t> to) {
  if (llvm::is_contained(from, 0))
    return denseStrides(to);
  // Dimensions of size 1 say nothing about memory; neighbours that follow each other are one.
  SmallVector<std::pair<int64_t, int64_t>> runs; // size, stride of the innermost element
  for (auto [size, stride] : llvm::zip(from, strides)) {
    if (size == 1)
      continue;
    if (!runs.empty() && runs.back().second == size * stride)
      runs.back() = {runs.back().first * size, stride};
    else
      runs.push_back({size, stride});
  }
  SmallVector<int64_t> result(to.size(), 1);
  int run = (int)runs.size() - 1;
  int64_t taken = 1;
  for (int d = (int)to.size() - 1; d >= 0; --d) {
    if (to[d] == 1)
      continue;
    if (run < 0)
      return std::nullopt;
    result[d] = runs[run].second * taken;
    taken *= to[d];
    if (runs[run].first % taken != 0)
      return std::nullopt;
    if (taken == runs[run].first) {
      --run;
      taken = 1;
    }
  }
  return result;
}

std::optional<View> schedule::viewThrough(Operation *op, const View &input) {
  View view = input;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    for (auto [d, source] : llvm::enumerate(transpose.getPermutation()))
      view.strides[d] = input.strides[source];
    return view;
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(broadcast.getInput());
    view.strides.assign(shape.size(), 0);
    for (unsigned d = 0; d < from.size(); ++d)
      if (from[d] != 1 || shape[d + shape.size() - from.size()] == 1)
        view.strides[d + shape.size() - from.size()] = input.strides[d];
    return view;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (unsigned d = 0; d < shape.size(); ++d) {
      if (shape[d] == 0)
        continue;
      view.offset += input.strides[d] * slice.getStarts()[d];
      view.strides[d] = input.strides[d] * slice.getSteps()[d];
    }
    return view;
  }
  auto reshape = cast<ReshapeOp>(op);
  auto strides = reshapeStrides(shapeOf(reshape.getInput()), input.strides, shape);
  if (!strides)
    return std::nullopt;
  view.strides = *strides;
  return view;
}
