//===- StepBuilder.h - a model's step and its evaluation, while they are made ---===//
//
// BuildStep.cpp makes the two functions and their states, StepUpdates.cpp what a step does behind its forward
// pass.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_STEPBUILDER_H
#define COLOSSAL_LIB_TRAINING_STEPBUILDER_H

#include "LossOps.h"
#include "Optimizers.h"
#include "Parameters.h"
#include "Statistics.h"
#include "SumsAhead.h"

#include "colossal/Import/ONNX.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"

#include <memory>
#include <vector>

namespace colossal::training {

/// The step value that gradients of f16 are multiplied by.
inline constexpr llvm::StringLiteral kLossScale = "loss_scale";
/// The one that bounds their norm.
inline constexpr llvm::StringLiteral kClip = "clip";

/// A result of a function, with its attributes.
struct StepResult {
  mlir::Value value;
  mlir::DictionaryAttr attributes;
};

class StepBuilder {
public:
  StepBuilder(mlir::ModuleOp module, const TrainingOptions &options)
      : module(module), options(options), builder(module.getContext()) {}
  mlir::LogicalResult run();

private:
  mlir::LogicalResult checkBatch();
  mlir::LogicalResult findAxes();
  mlir::LogicalResult checkStatistics();
  BatchParts getBatchParts() const;
  /// `copies`: what is trained, in `step`.
  void sumAheadOfTurns(mlir::ArrayRef<mlir::Value> copies);
  void buildEvaluation();
  void addStates();
  void drawRandomNumbers();
  mlir::Value getLossFactor(OpComposer &ops);
  mlir::LogicalResult buildUpdates();
  void giveResults();
  mlir::LogicalResult buildGradients(mlir::SmallVector<mlir::Value> &gradients,
                                     mlir::Operation *&lastForward);
  void gatherForPasses(mlir::Operation *lastForward);
  /// What each gradient is multiplied by, and whether all are finite; null: that is not asked.
  struct Scaling {
    mlir::Value scale, isFinite;
  };
  Scaling scaleGradients(mlir::ArrayRef<mlir::Value> gradients);
  void updateStates(mlir::ArrayRef<mlir::Value> gradients, Scaling scaling);
  /// Where the step will be cut into stages: numbers the ops of the forward pass, up to `last`.
  void numberForward(mlir::Operation *last);
  /// The same: marks what stands behind `op` and belongs to no pass.
  void markUpdate(mlir::Operation *op);
  /// Does ZeRO stage 0 ask for the whole update on each rank along the axes of the data?
  bool updatesWhole() const { return options.zero == 0 && !dataAxes.empty() && !options.hasRecipe; }
  /// Does the step keep pieces of gradients, and of parameters, only? A stage of a pipeline has several
  /// microbatches in flight, and scatters and gathers for all of them at once; a recipe says itself what is
  /// gathered when.
  bool keepsPieces(int stage) const {
    return options.zero >= stage && !dataAxes.empty() && !options.hasRecipe && !hasStages;
  }
  bool scattersInTurns() const {
    auto mesh = module->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName);
    return keepsPieces(2) && mesh && mesh.getNumTurns() > 1;
  }
  void finishStep();
  void describe();

  mlir::DictionaryAttr named(mlir::StringRef name) {
    return builder.getDictionaryAttr(builder.getNamedAttr(kOnnxNameAttr, builder.getStringAttr(name)));
  }
  mlir::DictionaryAttr stateNamed(mlir::StringRef name) {
    return builder.getDictionaryAttr(builder.getNamedAttr(dist::kStateAttrName, builder.getStringAttr(name)));
  }
  mlir::DictionaryAttr describeParameter(ParameterOp op, mlir::StringRef kind,
                                         mlir::ArrayRef<std::string> tied);
  mlir::DictionaryAttr describeSlot(const Classified &trained, mlir::StringRef slot);
  /// Adds an argument that is a state to the body of `function`, which settleStates gives it.
  mlir::BlockArgument addState(mlir::func::FuncOp function, mlir::StringRef name, mlir::RankedTensorType type,
                               mlir::DictionaryAttr info, mlir::ArrayRef<int64_t> storedOver,
                               mlir::ArrayRef<int64_t> replicatedOver);
  void settleStates(mlir::func::FuncOp function);
  static void setResults(mlir::func::FuncOp function, mlir::ArrayRef<StepResult> results);
  mlir::Location nameLoc(const llvm::Twine &name) { return mlir::NameLoc::get(builder.getStringAttr(name)); }
  /// The mean of `loss`.
  mlir::Value getMean(OpComposer &ops, const LossSum &loss) {
    return loss.count ? ops.div(loss.sum, ops.cast(loss.count, elementTypeOf(loss.sum))) : loss.sum;
  }

  mlir::ModuleOp module;
  const TrainingOptions &options;
  mlir::OpBuilder builder;
  std::unique_ptr<Optimizer> optimizer;
  mlir::SmallVector<mlir::StringRef> stepValues;
  mlir::SmallVector<int64_t> dataAxes; ///< of the mesh, that ZeRO goes over
  bool hasStages = false;
  bool hasTensorAxes = false; ///< the mesh has axes for something else than samples, tokens and stages
  /// Ops say which pass they belong to: who cuts the step in stages, or lays it out by a recipe, reads that.
  bool isNumbered() const { return hasStages || options.hasRecipe; }

  mlir::func::FuncOp stepFunction, evaluate;
  std::vector<Classified> trained;       ///< with the parameter ops of `evaluate`
  mlir::SmallVector<ParameterOp> frozen; ///< of `evaluate`, behind them those of `step`
  LossSum loss;                          ///< of `step`
  LossSum evaluated;
  /// Gradients go through f16: those of the loss times the step value `loss_scale`, and a step in which one
  /// of them overflows changes no state.
  bool scalesLoss = false;
  llvm::DenseMap<mlir::func::FuncOp, mlir::SmallVector<mlir::DictionaryAttr>>
      added; ///< attributes of arguments, by function
  mlir::BlockArgument stepValuesArgument;
  mlir::SmallVector<mlir::Value> parameters;                 ///< of `step`
  std::vector<mlir::SmallVector<mlir::BlockArgument>> slots; ///< by parameter
  SecondArguments seconds;                                   ///< of `step`
  std::vector<Running> statistics;
  std::vector<StepResult> results; ///< of `step`
  size_t firstStatistic = 0;       ///< of `results`
};

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_STEPBUILDER_H
