// Sizes of a contraction's tiles and of the packed panel, shared by the contraction kernel and the packing
// kernel, and the emission of one packed panel. The panel's layout depends on N and the types only, never on
// M: one packed weight serves kernels of every batch size.
#ifndef COLOSSAL_CODEGEN_CPU_CONTRACTIONBLOCKING_H
#define COLOSSAL_CODEGEN_CPU_CONTRACTIONBLOCKING_H

#include "colossal/Codegen/CPU/ContractionKernel.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"

namespace colossal::cpu {

inline int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}
inline int64_t roundUp(int64_t value, int64_t multiple) {
  return divideUp(value, multiple) * multiple;
}

/// The third-level cache is taken to hold at least so many times more than the second.
inline constexpr int64_t kThirdLevel = 8;

/// A panel is `vectors` vectors of `lanes` lanes wide; `rows` x `vectors` accumulators fill the register
/// file.
struct PanelShape {
  int64_t lanes, vectors, rows;
  int64_t width() const { return lanes * vectors; }
  int64_t count(int64_t n) const { return divideUp(n, width()); }
};

PanelShape panelShape(const Processor &processor, mlir::Type accumulate, int64_t n);

inline int64_t product(llvm::ArrayRef<ContractionDim> dims) {
  int64_t result = 1;
  for (const ContractionDim &dim : dims)
    result *= dim.size;
  return result;
}

/// Merges neighbouring dimensions whose strides in the chosen operands run on, and drops dimensions of
/// size 1. At least one dimension remains.
llvm::SmallVector<ContractionDim> collapse(llvm::ArrayRef<ContractionDim> dims, bool a, bool b, bool c);

llvm::SmallVector<int64_t> sizesOf(llvm::ArrayRef<ContractionDim> dims);
llvm::SmallVector<int64_t> stridesOf(llvm::ArrayRef<ContractionDim> dims, int64_t ContractionDim::*operand);

/// How a contraction is cut; all sizes are static. A tile of the launch is one panel of n, or a group of
/// panels, times a block of rows of m, and walks k in blocks. Consecutive tiles walk the blocks of one
/// super-block of rows, then the next panel or group.
struct ContractionBlocking {
  ContractionBlocking(const Processor &processor, const ContractionSpec &spec);

  int64_t M, N, K, batchCount;
  PanelShape panel;
  int64_t rows, blockRows = 0;     ///< of a register tile, and of a block
  int64_t panels, tailVectors = 0; ///< of n, and the vectors of the last one
  /// Panels of a tile: several where rows are copied for one block of k after the other.
  int64_t groupPanels = 1;
  int64_t supers, blocksPerSuper;
  /// Dimensions as A's rows, and as k, are walked. k is outerK times innerK, the last of `kDims`.
  llvm::SmallVector<ContractionDim> aDims, kDims;
  int64_t innerK, outerK;
  int64_t innerStep, outerStep, innerBlocks, kBlocks, blockDepth; ///< of a block of k
  bool packA, packB;                                              ///< copied into the scratch first
  bool aByDepth; ///< A is copied as [k / 2][rows][2], since its rows lie side by side; else as [row][k]
  /// A is copied as [register tile][k][row]: the rows of a super-block by each thread, or all rows before
  /// (ContractionSpec::copied); with several blocks of k those of a tile, block by block.
  bool aByTile = false;
  bool widenB; ///< B is packed in a narrower type
  bool pairs;  ///< two k's at a time: A as it is or copied, B packed in pairs
  /// Places in a thread's scratch: sums, then packed rows of A, then a packed panel of B.
  int64_t aScratchOffset = 0, bScratchOffset = 0, scratchBytes = 0;
  /// Elements from a packed row of A to the next; by depth, from a k to the next; by tile, what a tile takes
  /// for each of its rows.
  int64_t aScratchRow = 0;

  /// Elements of a copy of all rows.
  int64_t copiedElements() const { return roundUp(M, rows) * aScratchRow; }

private:
  int64_t evenRows() const;
  int64_t rowElements(const ContractionSpec &spec) const;
  bool copiesTiles(const ContractionSpec &spec) const;
  bool rowsAreSideBySide(const ContractionSpec &spec) const;
  void cutDepth(const Processor &processor, const ContractionSpec &spec);
  void cutGroups();
  void cutRows(const Processor &processor, const ContractionSpec &spec);
};

/// The part of k that one pass covers: outer indices [outerBegin, outerEnd) (row-major over all collapsed k
/// dimensions but the last) times inner indices [innerBegin, innerEnd).
struct KRange {
  mlir::Value outerBegin, outerEnd, innerBegin, innerEnd;
};

/// Rows ahead of a copy of rows that lie apart, each some lines of a page of its own, which processors do not
/// follow by themselves: enough for the latency of memory, and few enough for one set of the first-level
/// cache where the pitch is a multiple of a page.
inline constexpr int64_t rowsAhead = 16;
/// Fetches `width` elements of a row from `offset` on; where there are none, nothing happens.
void prefetchRow(VectorMemory &memory, mlir::Type element, mlir::Value source, mlir::Value offset,
                 int64_t width);

/// Emits the packing of B's columns [n0, n0 + width) for a range of k into [k][width] at `destination`,
/// converted to `destinationType`. Columns beyond N repeat the last one: what they give is never stored.
/// `source` is the matrix's address, `innerExtent` the k's that one outer index takes in the destination.
/// `pairs`: into [k / 2][width][2] instead, padded with zeros; a range begins at an even k, and of bf16 only.
void emitPackPanel(mlir::OpBuilder &b, mlir::Location loc, const Processor &processor,
                   const PanelShape &panel, llvm::ArrayRef<ContractionDim> n,
                   llvm::ArrayRef<ContractionDim> k, mlir::Value source, mlir::Type sourceType,
                   mlir::Value destination, mlir::Type destinationType, mlir::Value n0, const KRange &range,
                   bool pairs = false);

} // namespace colossal::cpu

#endif // COLOSSAL_CODEGEN_CPU_CONTRACTIONBLOCKING_H
