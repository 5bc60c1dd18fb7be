//===- Training.h - from a model to a training step --------------------------===//
//
// Right after import: what is trained, the loss, its gradients and the update become ops of a function `step`
// beside a function `evaluate`, whose parameters that are trained are states (dialects/Dist/State.h). From
// there on they are programs like any others.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TRAINING_TRAINING_H
#define COLOSSAL_TRAINING_TRAINING_H

#include "colossal/Autodiff/Recompute.h"
#include "colossal/Import/ONNX.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace colossal::training {

/// Of the module's training dictionary: samples that a statistic of a batch is of, where that is a part.
inline constexpr llvm::StringLiteral kStatisticsOverAttrName = "statistics_over";

/// What is minimized: a mean over all elements of the global batch that count.
struct Loss {
  enum Kind {
    CrossEntropy, ///< of logits and classes
    MeanSquare,   ///< of an output and a target
    MeanAbsolute,
    BinaryCrossEntropy, ///< of logits and targets in [0, 1]
    Own                 ///< an output of the model, of one element
  };
  Kind kind = CrossEntropy;
  std::string output; ///< the model's; empty: its first
  std::string labels; ///< input of classes; empty: "labels", or none where the tokens are shifted
  std::string tokens; ///< with `shift`: the input of classes; empty: "input_ids", or the only integer input
  bool shift = false; ///< the class of a place is that of the next one, and the last place has none
  int64_t ignored = -100; ///< the class of places that do not count
  double smoothing = 0;
  std::string text; ///< as it was asked for
};

/// Parses "cross-entropy,logits=NAME,shift=1" and the like (docs/Training.md). None, and what is wrong.
std::optional<Loss> parseLoss(const std::string &text, std::string &error);

/// Regular expressions over the names of parameters, which go before what is found out about them.
struct ParameterRules {
  std::vector<std::string> train, freeze, noDecay, tie, untie;
};

struct TrainingOptions {
  std::string optimizer; ///< "adamw", ...; see isOptimizer
  Loss loss;
  int64_t globalBatch = 0; ///< samples of a step
  ParameterRules parameters;
  /// Whether batch normalizations take the statistics of the batch and keep running ones; none: as the file
  /// says. A model that is imported for training has that in it (ImportOptions::takesBatchStatistics).
  std::optional<bool> batchNorm;
  /// Statistics are those of a microbatch on all ranks, and not on each.
  bool syncBatchNorm = false;
  int zero = -1; ///< stage of ZeRO, 0 to 3; below 0: whatever is fastest
  /// What the backward pass makes again; none: nothing, or the least with which the step fits.
  std::optional<Recompute> recompute;
  std::vector<std::string> kept; ///< by value: the ops whose results are kept, as `nameOps` calls them
  /// The ops with which segments of the forward pass begin, by `nameOps`, as `markSegments` takes them; none:
  /// the backward pass has those that recomputeForBackward finds.
  std::optional<std::vector<std::string>> segments;
  /// Whether a recipe of layouts speaks of the step: ops of both passes are numbered for it, as they are for
  /// stages, and what both read lies between them as it is stored.
  bool hasRecipe = false;
  std::string modelPath; ///< whose weights are looked at
};

/// Of what a module says of its training (dist::kTrainingAttrName): a dictionary of what a step computes, for
/// each type of element (`element`) the operations (`flops`, f64).
inline constexpr llvm::StringLiteral kStepFlopsAttr = "work";

bool isOptimizer(llvm::StringRef name);
/// "sgd, adam, ...".
std::string listOptimizers();

/// A parameter of a model, and whether it is trained.
struct ParameterInfo {
  std::string name; ///< of the model's file; "NAME@NODE" of what several nodes read, each its own;
                    ///< "NAME@NODE:K" of a concatenation's other places
  mlir::Type type;
  bool isTrained = false, decays = true;
  std::vector<std::string> tied; ///< further names
  std::string why;               ///< it is not trained, or tied, or apart
};

/// Has a model imported as it is trained: with batch normalizations as `options` have them, and tensors that
/// are untied each a parameter of its own.
void adaptImport(const TrainingOptions &options, ImportOptions &import);

/// The parameters of the imported function in `module`, and what would be trained of them. Fails with a
/// diagnostic.
mlir::FailureOr<std::vector<ParameterInfo>> listParameters(mlir::ModuleOp module,
                                                           const TrainingOptions &options);

/// Takes parameters of an imported function that an exporter has merged apart, as a step does that is built
/// of it: each node then has its own, of the name "NAME@NODE". Gives the names of those that
/// `rules` freeze. Fails with a diagnostic where a rule is none.
mlir::FailureOr<std::set<std::string>>
separateMerged(mlir::func::FuncOp function, const ParameterRules &rules, const std::string &modelPath);

/// Replaces the one function of `module`, as imported, by `step` and `evaluate`. Reads the module's mesh
/// where it has one. Fails with diagnostics.
mlir::LogicalResult buildStep(mlir::ModuleOp module, const TrainingOptions &options);

/// The same as a pass.
std::unique_ptr<mlir::Pass> createDifferentiatePass(const TrainingOptions &options);

} // namespace colossal::training

#endif // COLOSSAL_TRAINING_TRAINING_H
