//===- Window.h - loops over the windows of convolutions and pools ----------===//
//
// Element code of ops that gather each element of the result from a window of their input, on the loops of
// ElementEmitter.h.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_WINDOW_H
#define COLOSSAL_DIALECTS_COLOSSAL_WINDOW_H

#include "dialects/Colossal/Colossal.h"

namespace colossal {

/// Nested loops of `extents`, the last one innermost, that carry values from `init` on. `visit` is given the
/// counters (one a loop) and what is carried, and returns as many values of the same types; the result is
/// what the last visit returned.
llvm::SmallVector<mlir::Value> overWindow(
    ElementEmitter &emitter, llvm::ArrayRef<int64_t> extents, mlir::ValueRange init,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<mlir::Value>, mlir::ValueRange)> visit);

/// `value` as overWindow can carry it for the element at `index`: a vector where some lane varies, as what is
/// added to it is.
mlir::Value carriedLike(ElementEmitter &emitter, mlir::Value value, llvm::ArrayRef<Lane> index);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_WINDOW_H
