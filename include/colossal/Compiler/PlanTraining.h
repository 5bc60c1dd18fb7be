//===- PlanTraining.h - from an ONNX file to a training plan ----------------===//
//
// Imports a model (its weights need not be there), hands its units to the joint search, or prices a plan that
// is given. Beside the road of Compiler.h: nothing is partitioned or generated.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_COMPILER_PLANTRAINING_H
#define COLOSSAL_COMPILER_PLANTRAINING_H

#include "colossal/Codegen/Target.h"
#include "colossal/Import/ONNX.h"
#include "colossal/Planner/FixedParts.h"
#include "colossal/Training/Training.h"

#include <functional>
#include <optional>
#include <string>

namespace colossal {

struct PlanTrainingOptions {
  ImportOptions import; ///< dims without the batch
  std::string
      batchDimension; ///< name of the batch; empty: the first dimension of each input, where it is left open
  planner::TrainingTask task;
  std::shared_ptr<const codegen::Target> target; ///< of a step that is compiled
  std::optional<training::Loss>
      loss; ///< of a step that is compiled, whose inputs and tensors take memory, too
  training::ParameterRules parameters; ///< which of them are one
  planner::SearchSpace space;
  planner::FixedParts fixed; ///< that narrowed `space`
  /// Of a model whose batch normalizations take statistics of a microbatch, the search takes more than one
  /// only where the step does not fit otherwise.
  bool keepsStatistics = false;
  cost::Machine machine;
  std::string machineName;    ///< as it is written in the plan: a file or a name
  std::string pricePath;      ///< a plan to price; empty: search
  std::string otherPricePath; ///< another one to compare it with; may be empty
  /// What was asked for beside a plan to price, which states it as well: they must agree. 0 and empty:
  /// nothing.
  struct Asked {
    int devices = 0;
    double globalBatch = 0;
    std::string machine, optimizer, precision, attention;
  } asked;
  std::function<void(const std::string &)> progress;
};

struct PlanTrainingResult {
  std::string report; ///< for people
  /// The plan; the same of one that was priced, or {"plans": [...]} of two; where nothing fits, what the
  /// search found out.
  std::string json;
  bool found = false;       ///< a plan that fits
  bool contradicts = false; ///< no plan of this model, or on this machine, is what the options ask for
};

/// Fails, with diagnostics, where the model, the task or the given plan make no sense. That nothing fits is
/// no failure: the report says by how much.
mlir::LogicalResult planTraining(mlir::MLIRContext *context, const PlanTrainingOptions &options,
                                 PlanTrainingResult &result);

} // namespace colossal

#endif // COLOSSAL_COMPILER_PLANTRAINING_H
