//===- LossOps.h - losses as ops ---------------------------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_LOSSOPS_H
#define COLOSSAL_LIB_TRAINING_LOSSOPS_H

#include "colossal/Training/Training.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace colossal::training {

/// A loss as a sum and what it is to be divided by, both scalars: so that parts of a batch can be summed,
/// each on its own, and divided once.
struct LossSum {
  mlir::Value sum;
  mlir::Value count;  ///< null: the sum is the loss
  int64_t places = 1; ///< the most that `count` may be
  /// Of the model's results, which this is the mean of, computed anew.
  std::optional<unsigned> result = std::nullopt;
};

/// Builds the loss at the end of `function`, an imported model; adds the argument that it takes classes or
/// targets from, where the model has none. Fails with a diagnostic.
mlir::FailureOr<LossSum> buildLoss(mlir::func::FuncOp function, const Loss &loss);

/// Number of the result that the loss is of. Fails with a diagnostic.
mlir::FailureOr<unsigned> findLossOutput(mlir::func::FuncOp function, const Loss &loss);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_LOSSOPS_H
