//===- Statistics.h - running statistics of a step --------------------------===//
//
// What batch normalizations keep from step to step, and what they become in a step and in its evaluation.
// How one batch is normalized is in BatchNormalization.h.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_STATISTICS_H
#define COLOSSAL_LIB_TRAINING_STATISTICS_H

#include "BatchNormalization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace colossal::training {

/// A running mean or variance.
struct Running {
  /// Where a batch normalization takes it.
  struct Use {
    BatchNormalizeOp inEvaluation, inStep;
    bool isVariance = false;
    mlir::OpOperand &operand(BatchNormalizeOp op) const {
      return isVariance ? op.getVarianceMutable() : op.getMeanMutable();
    }
  };
  std::string name;
  ParameterOp op; ///< of the evaluation
  llvm::SmallVector<Use, 1> uses;
  mlir::BlockArgument before; ///< of the step
  mlir::Value after;
};

/// Finds what batch normalizations run. One tensor of the file that several of them take is a statistic for
/// each where all its elements are equal, as fresh ones are that an exporter has merged; else all change it.
/// `taken`: names that they may not have; gets theirs. `modelPath`: whose weights are looked at.
std::vector<Running> findStatistics(mlir::func::FuncOp evaluate, llvm::StringSet<> &taken,
                                    const std::string &modelPath);

/// Makes other ops of the batch normalizations whose input no sample goes into, as weights that are
/// standardized: they are no batch, of which ranks or microbatches have parts, in an evaluation they are as
/// in a step, and nothing runs. Fails with a diagnostic where a channel has one element.
mlir::LogicalResult normalizeParameters(mlir::func::FuncOp evaluate);

/// Makes other ops of the batch normalizations of both functions, and gives each of `statistics`, whose
/// values before the step are known, its value after. Fails with a diagnostic, as buildByBatch.
mlir::LogicalResult normalizeBatches(mlir::func::FuncOp evaluate, mlir::func::FuncOp step,
                                     llvm::MutableArrayRef<Running> statistics, BatchParts parts);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_STATISTICS_H
