//===- OwnLoss.h - cross-entropies that a model computes itself ---------------===//
#ifndef COLOSSAL_TRAINING_OWNLOSS_H
#define COLOSSAL_TRAINING_OWNLOSS_H

#include "mlir/IR/Value.h"

#include <cstdint>
#include <optional>

namespace colossal::training {

/// What a cross-entropy is computed of.
struct OwnCrossEntropy {
  mlir::Value logits;  ///< floats, the classes in the last dimension
  mlir::Value labels;  ///< integers, as many as `logits` has rows, in any shape
  int64_t ignored = 0; ///< the class of places that do not count
};

/// Of `loss`, an output of an imported model: where that is the mean of ONNX's SoftmaxCrossEntropyLoss,
/// without weights of classes and with `ignore_index` (which PyTorch's exporters always write), of logits
/// that a product gives. None of all else. A step then computes that loss, and a plan foresees it, as one
/// that was asked for by `--loss cross-entropy`: with the vocabulary split, and in f32.
std::optional<OwnCrossEntropy> matchCrossEntropy(mlir::Value loss);

} // namespace colossal::training

#endif // COLOSSAL_TRAINING_OWNLOSS_H
