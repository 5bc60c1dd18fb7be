//===- StageChain.h - a function as a chain of units ------------------------===//
//
// What of a function stands in one part of a pipeline and what in any that needs it, in which order, and what
// it takes: the problem of where it is cut (StageCut.h). Stages of one chunk are parts themselves; of several
// chunks, a stage has parts that do not follow one another.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_STEP_STAGECHAIN_H
#define COLOSSAL_LIB_STEP_STAGECHAIN_H

#include "colossal/Cost/Machine.h"
#include "colossal/Layout/OpPrices.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Step/StageCut.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Dist/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace colossal::step {

/// Of a whole tensor.
double getBytes(mlir::Type type);

struct StagePin {
  std::string text;
  outline::NamePattern name;
  int part = 0;
  bool isUsed = false;
};

/// Where an op may stand, and the pins that say so.
struct Bounds {
  int least = 0, greatest = 0;
  const StagePin *leastPin = nullptr, *greatestPin = nullptr;
  mlir::Operation *leastOp = nullptr, *greatestOp = nullptr; ///< that these pin
};

/// How an op comes into parts.
enum class Role {
  Free,  ///< depends on parameters and constants only: computed wherever it is used
  Cheap, ///< of inputs, and sooner computed again than sent, or of states alone: likewise
  Chain  ///< in one part
};

/// What all programs share: the names of weights.
struct Weights {
  llvm::StringMap<unsigned> indices; ///< by name, and by whether contractions read it, which keep it packed
  std::vector<double> bytes;

  unsigned getState(llvm::StringRef name, double size) {
    auto [entry, isNew] = indices.try_emplace(("s" + name).str(), bytes.size());
    if (isNew)
      bytes.push_back(size);
    return entry->second;
  }

  unsigned get(ParameterOp parameter, bool isPacked) {
    std::string key = (isPacked ? "p" : "r") + parameter.getName().str();
    auto [entry, isNew] = indices.try_emplace(key, bytes.size());
    if (isNew)
      bytes.push_back(getBytes(parameter.getType()));
    return entry->second;
  }
};

/// A function as a chain of units.
class Chain {
public:
  /// `pipeline` has no levels yet. `trains`: of a module that trains.
  Chain(mlir::func::FuncOp function, const dist::Pipeline &pipeline, bool trains)
      : function(function), pipeline(pipeline), trains(trains), stages(static_cast<int>(pipeline.stages)),
        parts(static_cast<int>(pipeline.countForwardParts())), names(outline::getUniqueNames(function)) {}

  /// Fails, with a diagnostic, where pins go against the flow of data.

  mlir::LogicalResult read(std::vector<StagePin> &pins, dist::MeshAttr mesh, int64_t ranks,
                           const cost::Machine &machine, bool isOneOfMany, Weights &weights);
  CutProblem makeProblem(const Weights &weights) const;
  double getSeconds() const {
    double seconds = 0;
    for (const CutUnit &unit : units)
      seconds += unit.seconds;
    return seconds;
  }

  /// Of a training step, when the forward pass is cut (`partOf` of `chain`): finds the parts of all else, and
  /// how many levels there are. An op of the backward pass stands with the op whose gradient it belongs to,
  /// what is done behind the microbatches where the most of what it reads is.
  void placeDerived();
  /// What goes from part to part, in 16 bits where its readers are told those of f32: it is narrowed before
  /// it is sent, and widened where it is read.
  void narrowMessages();
  /// Whether what an op makes is complete behind the microbatches only.
  bool isTotal(mlir::Operation *op) const { return totals.contains(op); }
  bool isClosing(int part) const { return pipeline.isClosing(pipeline.getChunk(part)); }
  /// What a forward and a backward pass of each part of the model take, in seconds.
  std::vector<double> getForwardSeconds() const { return sumSeconds(forwardSeconds); }
  std::vector<double> getBackwardSeconds() const { return sumSeconds(backwardSeconds); }

  mlir::func::FuncOp function;
  dist::Pipeline pipeline;
  const bool trains;
  const int stages;
  const int parts; ///< of the model, which `chain` is cut into
  llvm::DenseMap<mlir::Operation *, std::string> names;
  llvm::SmallVector<mlir::Operation *> order; ///< all ops but the last, as they will stand
  llvm::SmallVector<mlir::Operation *> chain; ///< those that stand in one part of the model
  llvm::DenseMap<mlir::Operation *, Role> roles;
  llvm::DenseMap<mlir::Operation *, int> partOf; ///< of all ops of the role Chain, once it is cut

private:
  enum class Kind { Forward, Backward, Closing };
  void findKinds();
  void placeBackward(mlir::Operation *op);
  void placeClosing();
  /// Of a sum of tensors that are made in several stages, as gradients of what all layers share, each stage
  /// adds up its own and one is sent: not each summand. Changes `closing`, the ops behind the microbatches.
  void regroupSums(llvm::SmallVectorImpl<mlir::Operation *> &closing,
                   llvm::DenseMap<mlir::Operation *, int64_t> &stageOf,
                   llvm::function_ref<int64_t(mlir::Value)> getStage);
  /// The state that `value` is, or none.
  mlir::StringAttr getState(mlir::Value value) const;
  std::vector<double> sumSeconds(const std::vector<double> &ofUnits) const;
  void findRoles(const layout::OpPrices &prices, dist::MeshAttr mesh);
  mlir::LogicalResult bound(std::vector<StagePin> &pins, bool isOneOfMany);
  void raiseSources();
  void sort();
  void collectWeights(mlir::Operation *op, bool isPacked, Weights &weights, llvm::SetVector<unsigned> &found,
                      llvm::DenseSet<mlir::Operation *> &seen) const;

  llvm::DenseMap<mlir::Operation *, Kind> kinds; ///< of training steps; others have forward ops only
  llvm::DenseSet<mlir::Operation *> totals;      ///< that sum over the microbatches, and what depends on that
  llvm::DenseMap<int64_t, mlir::Operation *> numbered; ///< ops of the forward pass
  std::vector<double> forwardSeconds, backwardSeconds; ///< of `units`
  std::vector<CutUnit> units;                          ///< of `chain`
  std::vector<double> crossingBytes, crossingSeconds;
  llvm::DenseMap<mlir::Operation *, Bounds> bounds;
  bool isPinned = false;
};

} // namespace colossal::step

#endif // COLOSSAL_LIB_STEP_STAGECHAIN_H
