//===- BatchNormalization.h - statistics of the batch, and running ones -------===//
#ifndef COLOSSAL_LIB_TRAINING_BATCHNORMALIZATION_H
#define COLOSSAL_LIB_TRAINING_BATCHNORMALIZATION_H

#include "dialects/Colossal/OpComposer.h"

namespace colossal::training {

/// The parts of a batch that have statistics of their own: `turns` microbatches, in each of which `ranks` of
/// the mesh have a part.
struct BatchParts {
  int64_t turns = 1, ranks = 1;
  int64_t count() const { return turns * ranks; }
};

/// What a batch normalization is made of.
struct BatchNormalized {
  mlir::Value result;
  /// Mean and variance of each part and channel, [parts, 1, channels, 1, ...] ([1, channels, 1, ...] where
  /// there is one part), in the type of the running ones.
  mlir::Value mean, variance;
  int64_t elements = 1; ///< that one statistic is of
};

/// Puts before `op` what normalizes by the running statistics, and gives its result.
mlir::Value buildByRunning(BatchNormalizeOp op);

/// Puts before `op` what normalizes each of `parts` equal parts of the first dimension by its own statistics.
/// A part is a range of samples, so that it lies on one rank where the batch is split so, and is the same
/// wherever it lies. Fails with a diagnostic where the parts are not equal, or have one element a channel.
mlir::FailureOr<BatchNormalized> buildByBatch(BatchNormalizeOp op, int64_t parts);

/// One use of running statistics in the forward pass.
struct StatisticUse {
  mlir::Value statistic; ///< as BatchNormalized has it
  double momentum = 0.9;
  double scale = 1; ///< that the statistic enters with
};

/// What becomes of a running statistic in a step, that `uses` change in their order, in one microbatch after
/// the other: r <- momentum r + (1 - momentum) scale s. Of the parts in one microbatch the first counts, as
/// it does under PyTorch's DistributedDataParallel, which keeps the buffers of rank 0. What the turns add is
/// linear in their statistics, and so a sum with known weights.
mlir::Value updateStatistic(OpComposer &ops, mlir::Value running, llvm::ArrayRef<StatisticUse> uses,
                            BatchParts parts);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_BATCHNORMALIZATION_H
