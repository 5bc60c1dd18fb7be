// Attention by the vendor's library for it, where a plan is compiled for it.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYATTENTION_H
#define COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYATTENTION_H

#include "colossal/Schedule/LoweringContext.h"

namespace colossal::nvidia {

/// Makes a library call of a colossal.attention that the library takes: of f16 or bf16 with heads of a
/// multiple of 8 elements, at most 256, causal or not, with a mask of floats or none. Of others a note says
/// why, and it is false with nothing done. Tensors whose heads' elements have gaps, or that are not aligned
/// to 16 bytes, are copied.
mlir::FailureOr<bool> callAttention(schedule::LoweringContext &context, AttentionOp op);

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYATTENTION_H
