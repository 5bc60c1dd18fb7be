//===- Repeats.h - the blocks that a model repeats --------------------------===//
//
// Cuts a function's stream of operations (those that inputs and parameters both reach) into units, equal ones
// marked.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_REPEATS_H
#define COLOSSAL_LIB_LAYOUT_REPEATS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace colossal::layout {

/// Operations [begin, end) of the stream; units of the same kind have equal operations, attributes and types,
/// and are connected alike.
struct Unit {
  int begin = 0, end = 0, kind = 0;
};

struct UnitCut {
  std::vector<mlir::Operation *> stream;
  std::vector<Unit> units; ///< they cover the stream in order
  int kinds = 0;
};

/// What a value depends on.
struct Origin {
  bool argument = false, parameter = false;
  bool isStream() const { return argument && parameter; }
};
llvm::DenseMap<mlir::Value, Origin> findOrigins(mlir::func::FuncOp function);

/// Values made by stream[0, at) that stream[at, end) uses, in the order in which they are made.
std::vector<mlir::Value> findLiveStream(const std::vector<mlir::Operation *> &stream, int at);

/// Finds the period that covers the most operations, among those whose units hold a contraction and hand on
/// at most `kMaxBoundary` values, and cuts what stands before and after it in the same way. O(n^2)
/// comparisons of a number.
UnitCut findUnits(mlir::func::FuncOp function);
inline constexpr int kMaxBoundary = 2;

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_REPEATS_H
