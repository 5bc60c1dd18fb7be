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
  Cheap, ///< of inputs, and sooner computed again than sent: likewise
  Chain  ///< in one part
};

/// What all programs share: the names of weights.
struct Weights {
  llvm::StringMap<unsigned> indices; ///< by name, and by whether contractions read it, which keep it packed
  std::vector<double> bytes;

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
  /// `stages` of so many chunks each.
  Chain(mlir::func::FuncOp function, int stages, int chunks)
      : function(function), stages(stages), parts(stages * chunks), names(outline::getUniqueNames(function)) {
  }

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

  mlir::func::FuncOp function;
  const int stages;
  const int parts; ///< of all stages: part p is chunk p / stages of stage p % stages
  llvm::DenseMap<mlir::Operation *, std::string> names;
  llvm::SmallVector<mlir::Operation *> order; ///< all ops but the last, as they will stand
  llvm::SmallVector<mlir::Operation *> chain; ///< those that stand in one part
  llvm::DenseMap<mlir::Operation *, Role> roles;
  llvm::DenseMap<mlir::Operation *, int> partOf; ///< of the chain's ops, once it is cut

private:
  void findRoles(const layout::OpPrices &prices, dist::MeshAttr mesh);
  mlir::LogicalResult bound(std::vector<StagePin> &pins, bool isOneOfMany);
  void sort();
  void collectWeights(mlir::Operation *op, bool isPacked, Weights &weights, llvm::SetVector<unsigned> &found,
                      llvm::DenseSet<mlir::Operation *> &seen) const;

  std::vector<CutUnit> units; ///< of `chain`
  std::vector<double> crossingBytes, crossingSeconds;
  llvm::DenseMap<mlir::Operation *, Bounds> bounds;
  bool isPinned = false;
};

} // namespace colossal::step

#endif // COLOSSAL_LIB_STEP_STAGECHAIN_H
