//===- Gradients.h - gradients as a step's update takes them -------------------===//
//
// What the reverse pass gives is summed up in a type that holds sums, and has one norm.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_GRADIENTS_H
#define COLOSSAL_LIB_TRAINING_GRADIENTS_H

#include "dialects/Colossal/OpComposer.h"

namespace colossal::training {

/// The gradient of a trained parameter that the model reads in 16 bits: products that sum it, lookups, and
/// what moves them, give f32, so that parts of it, of ranks and microbatches, are added up in f32.
mlir::Value widenSums(mlir::Value gradient);

/// The Euclidean norm of all elements of `gradients`, a scalar: f64 where one of them is, else f32.
mlir::Value buildNorm(OpComposer &ops, mlir::ArrayRef<mlir::Value> gradients);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_GRADIENTS_H
