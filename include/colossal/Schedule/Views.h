//===- Views.h - tensors as strided parts of storages -----------------------===//
//
// A storage is a byte range that one tensor was computed into. Reshapes, transposes, slices and broadcasts of
// it are views: an offset and one stride per dimension, in elements, no code. What no view can say is copied.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_VIEWS_H
#define COLOSSAL_SCHEDULE_VIEWS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace colossal::schedule {

struct View {
  unsigned storage = 0;
  int64_t offset = 0; ///< elements
  llvm::SmallVector<int64_t> strides;
  int64_t turn = 0; ///< elements by which it moves in each turn of the loop that reads or writes it
};

/// Row-major strides.
llvm::SmallVector<int64_t> denseStrides(llvm::ArrayRef<int64_t> shape);
/// The elements lie row-major without gaps (dimensions of size 1 may have any stride).
bool isDense(const View &view, llvm::ArrayRef<int64_t> shape);
/// The dimensions by which the elements lie without gaps, outermost first; nothing if they do not.
std::optional<llvm::SmallVector<unsigned>> denseOrder(const View &view, llvm::ArrayRef<int64_t> shape);
/// The strides of a tensor without gaps whose dimensions lie in that order.
llvm::SmallVector<int64_t> stridesInOrder(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order);
/// An op of kind Movement (a reshape, transpose, broadcast or slice), or the slice of a loop's turn: a
/// candidate for a view.
bool isMovement(mlir::Operation *op);
/// An op of kind Source: a parameter or a constant.
bool isSource(mlir::Operation *op);
/// The movement's result as a view, given its input's; nothing if strides cannot say it.
std::optional<View> viewThrough(mlir::Operation *movement, const View &input);
/// Elements from the lowest to the highest address, inclusive.
int64_t spanElements(const View &view, llvm::ArrayRef<int64_t> shape);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_VIEWS_H
