//===- MaskPadding.h - element code for dist.mask_padding -------------------===//
//
// The dist dialect knows no element code; the one of its ops that is computed element by element gets it from
// here.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_MASKPADDING_H
#define COLOSSAL_DIALECTS_COLOSSAL_MASKPADDING_H

#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/MLIRContext.h"

namespace colossal {

/// `fill` as an element of `type`: beyond an integer's range its least or greatest value, for i1 true unless
/// 0.
Element makeFill(ElementEmitter &emitter, mlir::Type type, double fill);

/// Attaches ElementEmissionOpInterface to dist.mask_padding; the dist dialect is loaded.
void attachMaskPaddingEmission(mlir::MLIRContext &context);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_MASKPADDING_H
