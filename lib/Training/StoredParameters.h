//===- StoredParameters.h - parameters and gradients that ranks share -------===//
//
// What stages 2 and 3 of ZeRO ask of a step beside how its states are stored: where whole parameters and
// whole gradients exist, and for how long.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_STOREDPARAMETERS_H
#define COLOSSAL_LIB_TRAINING_STOREDPARAMETERS_H

#include "mlir/IR/Operation.h"

namespace colossal::training {

/// Lets each pass read `parameters`, which are stored over mesh axes `axes`, for itself: through a reshape to
/// the same shape, which computes nothing and lies as the parameter does. So what the forward pass (the ops
/// up to `lastForward`) has brought together for one of its ops need not be kept until the backward pass (the
/// ops behind) reads it again, and in several microbatches each brings it together when it comes to it
/// (dist.each_turn). What is made of parameters alone, as their narrower copies, is made of the stored parts
/// and shared by both passes, which read that in the same way; but what the backward pass only turns (the
/// weights of a convolution's gradient) each rank turns once it has all of it, mostly as the kernel behind
/// reads it.
///
///   %y = contract %x, %w                      %w1 = reshape %w {dist.each_turn}
///   ...                                  ->   %y = contract %x, %w1
///   %dx = contract %dy, %w                    ...
///                                             %w2 = reshape %w {dist.each_turn}
///                                             %dx = contract %dy, %w2
///
/// `hasLoss`: a cross-entropy is behind the forward pass. The product that it is of reads once for both
/// passes, since its own backward pass follows it at once; and not with a lookup at the model's other end,
/// where that reads the same table.
///
/// O(ops + uses).
void readInEachPass(mlir::ValueRange parameters, mlir::Operation *lastForward, llvm::ArrayRef<int64_t> axes,
                    bool hasLoss);

/// Keeps what the ops behind `lastGradient` make of `gradients` and of `values` (parameters, slots) over
/// `axes`, as far as these fit, and what of the backward pass, between `lastForward` and there, moves or adds
/// up whole gradients: so nothing asks for one.
void keepOverAxes(mlir::ValueRange values, mlir::ValueRange gradients, mlir::Operation *lastForward,
                  mlir::Operation *lastGradient, llvm::ArrayRef<int64_t> axes);

/// Has each rank along `axes` make for itself what the ops up to `lastGradient` make of `parameters` alone
/// (the turned weights of a convolution's gradient, narrower copies): they are all there, mostly read as they
/// lie by the kernel behind, and parts that ranks exchange would be kept beside them.
void makeOnEachRank(mlir::ValueRange parameters, mlir::Operation *lastGradient, llvm::ArrayRef<int64_t> axes);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_STOREDPARAMETERS_H
