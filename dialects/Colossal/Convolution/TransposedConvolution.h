//===- TransposedConvolution.h - transposed convolutions as others ----------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_CONVOLUTION_TRANSPOSEDCONVOLUTION_H
#define COLOSSAL_DIALECTS_COLOSSAL_CONVOLUTION_TRANSPOSEDCONVOLUTION_H

#include "dialects/Colossal/OpComposer.h"

namespace colossal {

/// What `op` computes without its bias, as a product where its windows do not overlap, else as convolutions:
/// one for each remainder of the result's places by the strides, which see taps of their own, so that nothing
/// is multiplied with zero. Null where those would be more than 64.
///
/// Example: stride 2 and a window of 4 along one dimension: even and odd places of the result are each a
/// convolution of the input with every second tap.
mlir::Value composeTransposedConvolution(OpComposer &ops, ConvTransposeOp op);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_CONVOLUTION_TRANSPOSEDCONVOLUTION_H
