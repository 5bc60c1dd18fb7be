//===- Parameters.h - which parameters are trained ----------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_PARAMETERS_H
#define COLOSSAL_LIB_TRAINING_PARAMETERS_H

#include "colossal/Training/Training.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal::training {

struct Classified {
  ParameterInfo info;
  ParameterOp op;
  /// One row for each sample of the batch, all equal: one that an exporter has repeated. Each gets the
  /// gradient of all.
  bool isRow = false;
  bool isFrozen = false; ///< would be trained, and is not asked to
};

/// Tells which parameters of `function` are trained, once those that an exporter has merged are apart again:
/// in the order of the function. `globalBatch`: samples of a step. `reached`: ops that the loss depends on.
/// Fails with a diagnostic where a rule is none, matches nothing, or cannot be kept.
mlir::FailureOr<std::vector<Classified>> classify(mlir::func::FuncOp function, const ParameterRules &rules,
                                                  const std::string &modelPath, int64_t globalBatch,
                                                  llvm::function_ref<bool(mlir::Operation *)> isReached);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_PARAMETERS_H
