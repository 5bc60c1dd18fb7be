//===- UnitCut.h - a function's stream as units -----------------------------===//
//
// The operations that inputs and parameters both reach, cut where blocks repeat
// (colossal/Outline/RepeatedBlocks.h).
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_FACTORGRAPH_UNITCUT_H
#define COLOSSAL_LIB_FACTORGRAPH_UNITCUT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace colossal::factors {

/// Operations [begin, end) of the stream. Units of one kind have equal operations, attributes and types, and
/// hand on and take over the same values at the same places.
struct Unit {
  int begin = 0, end = 0, kind = 0;
};

struct UnitCut {
  std::vector<mlir::Operation *> stream;
  /// Where each of `stream` stands among the stream's operations in program order: what several blocks share
  /// comes before them, wherever the program has it.
  std::vector<int> places;
  std::vector<Unit> units; ///< they cover the stream in order
  int kinds = 0;
};

/// Blocks are units where they hold at least `kMinProducts` products (contractions, convolutions, attention)
/// and hand on at most `kMaxBoundary` values. What stands before, between and after them are units of their
/// own, each cut where it hands on one value, a small one, and both parts hold as many products.
UnitCut cutUnits(mlir::func::FuncOp function);
inline constexpr int kMinProducts = 2;
inline constexpr int kMaxBoundary = 2;

/// The stream's operations in program order.
std::vector<mlir::Operation *> findStream(mlir::func::FuncOp function);

/// Values made by stream[0, at) that stream[at, end) uses, in the order in which they are made.
std::vector<mlir::Value> findLiveStream(const std::vector<mlir::Operation *> &stream, int at);

} // namespace colossal::factors

#endif // COLOSSAL_LIB_FACTORGRAPH_UNITCUT_H
