// Convolutions on GPUs as contractions.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_CONVOLUTION_H
#define COLOSSAL_LIB_CODEGEN_CUDA_CONVOLUTION_H

#include "BlockTeam.h"

#include "colossal/Schedule/LoweringContext.h"

namespace colossal::nvidia {

/// Transposed convolutions become convolutions, or contractions where their windows do not overlap. Those
/// with at least eight out channels in a group, or one group, lose their bias, which is added behind them,
/// and their padding, which becomes an op before them; those of windows of one element and one group become
/// contractions, which the library computes. With `byLibrary` all but these are left as they are for cuDNN,
/// where it takes them (LibraryConvolution.h).
void prepareConvolutions(mlir::func::FuncOp function, bool byLibrary);

/// A group of a colossal.conv that prepareConvolutions has left without padding: the contraction's kernel
/// reads windows where they lie. Those with fewer out channels in a group have kernels of their own
/// (GroupedConvolution.h), and with three spatial dimensions are handed back to be computed by element code,
/// a thread for each element.
mlir::LogicalResult lowerConvolution(const BlockTeam &team, schedule::LoweringContext &context,
                                     schedule::FusionGroup &group);

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_CONVOLUTION_H
