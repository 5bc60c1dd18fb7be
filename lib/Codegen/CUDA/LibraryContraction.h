// Contractions by the vendor's library: which ones, and with what behind them.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYCONTRACTION_H
#define COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYCONTRACTION_H

#include "colossal/Schedule/LoweringContext.h"

namespace colossal::nvidia {

/// Whether the library knows the types of the op's tensors (f32, f64, f16, bf16, all three the same).
bool isOfLibrary(ContractOp op);

/// Whether the library can do `ops`, in this order, on the result: the addition of a vector along the
/// dimensions that only the right side has, then ReLU or GELU by tanh; one of the two, or both. Not of f64.
bool fitsLibrary(ContractOp op, llvm::ArrayRef<mlir::Operation *> ops);

/// Makes library calls of the group, a colossal.contract with what follows it. False, with nothing done,
/// where the tensors do not lie as the library wants them: as matrices whose rows or columns have no gaps.
mlir::FailureOr<bool> callLibrary(schedule::LoweringContext &context, schedule::FusionGroup &group);

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYCONTRACTION_H
