//===- TileEmitter.h - code for ops whose elements depend on one another ----===//
//
// Running sums, sorting and scattering would do the same work again for each element that is pulled by
// itself. Such ops cut their result into tiles that depend on no other tile, and emit the code of one:
// scalar, with operands and results in memory.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_TILEEMITTER_H
#define COLOSSAL_DIALECTS_COLOSSAL_TILEEMITTER_H

#include "dialects/Colossal/ElementEmitter.h"
#include "llvm/ADT/SmallVector.h"

namespace colossal {

/// How an op is cut: one tile per index of `shape`.
struct TilePlan {
  llvm::SmallVector<int64_t> shape;
  int64_t scratchWords = 0; ///< of i64, for each tile that is under way
};

class TileEmitter {
public:
  virtual ~TileEmitter() = default;
  /// Emits scalar code: one lane.
  virtual ElementEmitter &elements() = 0;
  /// An element of an operand or a result of the op, of its element type. Reads are not cached: one that
  /// stands after a write sees it.
  virtual mlir::Value read(mlir::Value tensor, llvm::ArrayRef<Lane> index) = 0;
  virtual void write(mlir::Value value, mlir::Value result, llvm::ArrayRef<Lane> index) = 0;
  /// Whether the op's sums are added to what lies in the result (TileEmissionOpInterface::canAddToResult).
  virtual bool addsToResult() const { return false; }
  /// Words of the tile's scratch, i64.
  virtual mlir::Value readScratch(Lane at) = 0;
  virtual void writeScratch(mlir::Value word, Lane at) = 0;

  /// An i64 constant.
  Element number(int64_t value);
  /// An i64 value with its operators.
  Element word(mlir::Value value);
  /// Runs `body` where `condition` (i1) holds.
  void when(mlir::Value condition, llvm::function_ref<void()> body);
  /// Runs `body` for every index of `shape`, row-major; the index stands behind what `index` holds.
  void forEach(llvm::ArrayRef<int64_t> shape, llvm::SmallVector<Lane> &index,
               llvm::function_ref<void()> body);
};

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_TILEEMITTER_H
