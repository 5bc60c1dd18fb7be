// Convolutions by the vendor's library for them, where a plan is compiled for it: which ones, and with what
// behind them.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYCONVOLUTION_H
#define COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYCONVOLUTION_H

#include "colossal/Schedule/LoweringContext.h"

namespace colossal::nvidia {

/// Marks a convolution that the library takes: of f32, f64, f16 or bf16 over one to three dimensions, in any
/// number of groups, whose input is not cropped. Of others a note says why, and it is false.
bool leaveToLibrary(ConvOp op);
/// Whether the convolution was left to the library; it keeps its padding and its bias.
bool isOfLibrary(ConvOp op);

/// Whether the library can do `ops`, in this order, on the result: ReLU alone, behind a bias.
bool fitsLibrary(ConvOp op, llvm::ArrayRef<mlir::Operation *> ops);

/// Makes a library call of the group, a colossal.conv that was left to the library with what follows it.
/// Tensors that do not lie row-major without gaps are copied.
mlir::LogicalResult callConvolution(schedule::LoweringContext &context, schedule::FusionGroup &group);

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_LIBRARYCONVOLUTION_H
