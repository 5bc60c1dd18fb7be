//===- Verification.h - checks that verifiers of several families share -----===//
//
// Each returns success, or failure after an error on the op that names what was expected, what was found,
// and, in parentheses, the constraint of the op's description that is broken (`label`: "C1", "C2", ...).
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_VERIFICATION_H
#define COLOSSAL_DIALECTS_COLOSSAL_VERIFICATION_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"

namespace colossal {

/// What an op does with elements: those of narrow types and strings (NarrowTypes.h) are moved only.
enum class ElementUse { Computes, Moves };
/// All tensors are static and of an element type of the dialect that the op can use (C0 of every op).
mlir::LogicalResult verifyTensors(mlir::Operation *op, ElementUse use = ElementUse::Computes);
/// 0 <= axis < rank of `tensor`.
mlir::LogicalResult verifyAxis(mlir::Operation *op, int64_t axis, mlir::Value tensor, llvm::StringRef label);
/// `tensor` (called `name`) has exactly that shape.
mlir::LogicalResult verifyShape(mlir::Operation *op, mlir::Value tensor, llvm::ArrayRef<int64_t> shape,
                                llvm::StringRef name, llvm::StringRef label);
mlir::LogicalResult verifyRank(mlir::Operation *op, mlir::Value tensor, size_t rank, llvm::StringRef name,
                               llvm::StringRef label);
/// `tensor` broadcasts, right-aligned, to `shape`.
mlir::LogicalResult verifyBroadcasts(mlir::Operation *op, mlir::Value tensor, llvm::ArrayRef<int64_t> shape,
                                     const llvm::Twine &name, llvm::StringRef label);
/// `a` and `b` have one element type.
mlir::LogicalResult verifySameElements(mlir::Operation *op, mlir::Value a, mlir::Value b,
                                       llvm::StringRef label);
mlir::LogicalResult verifyFloats(mlir::Operation *op, mlir::Value tensor, llvm::StringRef label);
/// Signed or unsigned integers, not booleans.
mlir::LogicalResult verifyIndices(mlir::Operation *op, mlir::Value tensor, llvm::StringRef label);
/// An attribute called `name` has `expected` entries.
mlir::LogicalResult verifyCount(mlir::Operation *op, size_t found, size_t expected, llvm::StringRef name,
                                llvm::StringRef label);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_VERIFICATION_H
