//===- ElementFolder.h - results of ops on known operands -------------------===//
//
// Evaluates an op's element code (ElementEmitter.h) on the host: the folding of constants at import, and what
// tests compare kernels with. The code is emitted once and interpreted once per element, so folding needs
// neither LLVM code generation nor a second description of any op.
//
// Arithmetic is exact per element type: f16 and bf16 are computed in f32, every f32 result is rounded to
// nearest even; transcendental functions are libm's in double precision, rounded once. Sums run in the order
// of the element code.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_CODEGEN_ELEMENTFOLDER_H
#define COLOSSAL_CODEGEN_ELEMENTFOLDER_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace colossal {

/// What folding may cost before it gives up.
struct FoldLimits {
  int64_t elements = int64_t(1) << 20;     ///< of the result
  int64_t instructions = int64_t(1) << 28; ///< interpreted in all: about a second
};

/// The value of result `result` of `op` where its operands have the values `operands` (ElementsAttr for
/// tensors, IntegerAttr for index operands, null where unknown). Fails, without a diagnostic, where the op
/// has no element code or no static shape, a limit is reached, or an unknown operand is read (an op that
/// reads only the shape of an operand, or only some operands, folds all the same).
mlir::FailureOr<mlir::DenseElementsAttr> foldElements(mlir::Operation *op,
                                                      llvm::ArrayRef<mlir::Attribute> operands,
                                                      unsigned result = 0, const FoldLimits &limits = {});

} // namespace colossal

#endif // COLOSSAL_CODEGEN_ELEMENTFOLDER_H
