//===- LocalOps.h - element code for ops of local tensors -------------------===//
//
// The dist and shard dialects know no element code; those of their ops that are computed element by element
// on each rank, dist.mask_padding and shard.all_slice, get it from here.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_LOCALOPS_H
#define COLOSSAL_DIALECTS_COLOSSAL_LOCALOPS_H

#include "mlir/IR/MLIRContext.h"

namespace colossal {

/// Attaches ElementEmissionOpInterface to dist.mask_padding and shard.all_slice; both dialects are loaded.
/// What emits an all_slice gives its first element's index along the dimension as the scalar operand of its
/// result, since the op itself has none.
void attachLocalEmission(mlir::MLIRContext &context);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_LOCALOPS_H
