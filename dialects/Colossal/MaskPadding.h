//===- MaskPadding.h - element code for dist.mask_padding -------------------===//
//
// The dist dialect knows no element code; the one of its ops that is computed element by element gets it from
// here.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_MASKPADDING_H
#define COLOSSAL_DIALECTS_COLOSSAL_MASKPADDING_H

#include "mlir/IR/MLIRContext.h"

namespace colossal {

/// Attaches ElementEmissionOpInterface to dist.mask_padding; the dist dialect is loaded.
void attachMaskPaddingEmission(mlir::MLIRContext &context);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_MASKPADDING_H
