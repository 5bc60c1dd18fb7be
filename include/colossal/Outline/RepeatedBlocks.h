//===- RepeatedBlocks.h - what a function does again and again --------------===//
//
// Finds the layers of a model by structure: no names are read.
//
// Ops are compared in program order, sources (parameters and constants) left out, and first of all what
// several blocks may share (masks, tables of angles), wherever it stands. Two ops are alike if name,
// attributes and the types of operands and results are the same. Two runs of equally many ops are *instances
// of one block* if their ops are alike, one by one, and operand by operand
//  1. both come from inside, from the same op of the run and the same result, or
//  2. both are constants of the same value, or
//  3. both come from outside, and operands that are one value in one run are one value in the other.
// Constants of different values are no instances of one block, parameters of different names are.
//
// Example: x1 = add(x0, f(norm(x0), w0)); x2 = add(x1, f(norm(x1), w1)); y = norm(x2) has two instances of
// (norm, f, add) with the outside operands (x, w). That the next norm is alike too does not make the block
// begin elsewhere: among the rotations the one is taken that the fewest bytes cross.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_OUTLINE_REPEATEDBLOCKS_H
#define COLOSSAL_OUTLINE_REPEATEDBLOCKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace colossal::outline {

struct RepeatedBlock {
  /// instances[i][j]: op j of repetition i, in program order. At least two, each after the other; all of the
  /// same size.
  std::vector<llvm::SmallVector<mlir::Operation *>> instances;

  size_t size() const { return instances.front().size(); }
};

/// The blocks of `function` (of one block), in program order and without overlap. A block is worth finding if
/// it saves two ops that compute more than they move (contractions, convolutions, attention). Between the ops
/// of an instance stand only sources and what several blocks share, so that a call can stand where its last
/// op does: what is before the first instance is the block's prologue, what is after the last its epilogue.
///
/// Of overlapping repetitions that one is taken that leaves the fewest ops, then the one with the shortest
/// period. At most O(ops * min(ops, 4096)) comparisons of words.
std::vector<RepeatedBlock> findRepeatedBlocks(mlir::func::FuncOp function);

/// The op is a parameter, a constant, or makes random values of constants: it belongs to no block, and may
/// stand anywhere before its uses.
bool isSource(mlir::Operation *op);

/// Operands of an instance's ops that come from outside, each once, in order of first use; constants are not
/// among them.
llvm::SmallVector<mlir::Value> getOutsideOperands(llvm::ArrayRef<mlir::Operation *> instance);

} // namespace colossal::outline

#endif // COLOSSAL_OUTLINE_REPEATEDBLOCKS_H
