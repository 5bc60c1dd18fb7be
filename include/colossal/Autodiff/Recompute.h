//===- Recompute.h - which values a backward pass makes again ---------------===//
//
// A backward pass reads values of the forward pass. Each is kept until then, or made again shortly before.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_AUTODIFF_RECOMPUTE_H
#define COLOSSAL_AUTODIFF_RECOMPUTE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <string>

namespace colossal {

enum class Recompute {
  None,      ///< all are kept
  Selective, ///< results of heavy ops (contractions, convolutions, attention) are kept, within segments the
             ///< others are made again
  Full,      ///< what goes from one segment to the next is kept, all else is made again
  ByValue    ///< results of chosen ops are kept, within segments the others are made again
};
/// "none", "selective", "full"; none for other texts: no option says what is chosen by value.
std::optional<Recompute> parseRecompute(llvm::StringRef text);
/// These, and "by-value".
llvm::StringRef describe(Recompute recompute);

/// What the ops of a model's function are called by those who choose some of them: the name and kind of each,
/// and its number among those that are alike in both. What a precision adds has kinds of its own.
llvm::DenseMap<mlir::Operation *, std::string> nameOps(mlir::func::FuncOp function);
/// Chooses the ops of these names: the mark is on them until recomputeForBackward has read it.
void markKept(mlir::func::FuncOp function, llvm::ArrayRef<std::string> names);
/// Chooses the ops of these names to begin the segments that recomputeForBackward goes by, beside the first;
/// "": what is put behind all that the function has now.
void markSegments(mlir::func::FuncOp function, llvm::ArrayRef<std::string> names);
void removeMarks(mlir::func::FuncOp function);

/// Lets what stands behind `lastForward` in its block, a backward pass, read copies of values of the ops up
/// to there instead of these: copies of the ops that make them, each put before the first that needs it, so
/// that what they compute is what was computed before. Copies are called as their ops, with ".again" behind.
///
/// The ops up to `lastForward` are cut into segments where little goes on from one to the next, such that the
/// bytes kept between segments and the most that a segment needs while it is gone through backwards are least
/// together (after T. Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016, whose segments are of
/// equal size), unless markSegments has said where they begin. The last segment, whose backward pass comes at
/// once, keeps all. O(cuts^2 + ops).
void recomputeForBackward(mlir::Operation *lastForward, Recompute what);

} // namespace colossal

#endif // COLOSSAL_AUTODIFF_RECOMPUTE_H
