//===- SeparatePasses.h - what both passes of a step read -------------------===//
//
// Between the forward and the backward pass a value lies as it is stored, not as an op of the forward pass
// has it brought in.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_AUTODIFF_SEPARATEPASSES_H
#define COLOSSAL_AUTODIFF_SEPARATEPASSES_H

#include "mlir/IR/Operation.h"

namespace colossal {

/// Lets the ops behind `lastForward` whose gradients are numbered (dist.gradient_of) read what heavy ops up
/// to there read, too (contractions, convolutions, attention), through an op of its own: a reshape to the
/// same shape, which computes nothing and has a layout. So a copy that an op of the forward pass has gathered
/// need not be kept until the backward pass, and those that the backward pass gathers are its own. The
/// reshape is numbered as a gradient of the first op that reads the value. O(ops + uses).
void separatePasses(mlir::Operation *lastForward);

} // namespace colossal

#endif // COLOSSAL_AUTODIFF_SEPARATEPASSES_H
