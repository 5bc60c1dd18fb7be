//===- OpChoices.h - the layouts that ops may have --------------------------===//
//
// The candidates of ops, what each takes, and what it means for the op's tensors: found once for all ops that
// are alike. Model.h makes nodes of them.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_OPCHOICES_H
#define COLOSSAL_LIB_LAYOUT_OPCHOICES_H

#include "Candidates.h"
#include "Costs.h"
#include "Pins.h"
#include "Recipe.h"

#include "colossal/FactorGraph/Reader.h"
#include "colossal/Search/Problem.h"
#include "dialects/Dist/Loop.h"
#include "llvm/ADT/MapVector.h"

#include <map>
#include <memory>
#include <optional>

namespace colossal::layout {

/// Bytes of one rank's shard.
double getLocalBytes(dist::ShardingAttr sharding, mlir::Type element, dist::MeshAttr mesh);

/// The layouts of a tensor that the candidates of a node make: those that differ, and which one each
/// candidate has. Candidates that differ in factors which the tensor lacks share one.
struct CandidateLayouts {
  mlir::ArrayAttr distinct; ///< ShardingAttr, each once
  std::shared_ptr<const search::Classes> classes;

  dist::ShardingAttr operator[](int32_t candidate) const {
    return llvm::cast<dist::ShardingAttr>(distinct[classes->of[candidate]]);
  }
};
CandidateLayouts makeCandidateLayouts(mlir::MLIRContext *context, llvm::ArrayRef<dist::ShardingAttr> layouts);

inline mlir::RankedTensorType getTensor(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// The candidates of an op, which all ops of one refined rule share, and what they mean for its tensors.
struct OpChoices {
  std::vector<dist::Assignment> assignments;
  bool isWhole = true;                              ///< no assignment is left out
  bool isAsAsked = true;                            ///< whether they follow the recipe, where there is one
  std::vector<double> seconds;                      ///< per assignment: computing and exchanging windows
  llvm::SmallVector<CandidateLayouts> wants, haves; ///< per operand (result)
  std::vector<std::vector<int64_t>> resultBytes;    ///< per result and assignment, of one rank's shard
};

/// What the ranks of an op exchange between its stages.
struct Exchange {
  dist::MoveKind kind = dist::MoveKind::AllReduce;
  double bytes = 0; ///< as in dist::Move
  llvm::SmallVector<unsigned, 2> axes;
  int64_t ranks = 1;
};

/// First add() all functions, then enumerate(), then ask.
class OpChoicesBuilder {
public:
  /// `costs` and `recipe` must outlive this; the recipe, if there is one, learns what the functions are.
  OpChoicesBuilder(dist::MeshAttr mesh, const Costs &costs, std::optional<Recipe> &recipe)
      : mesh(mesh), costs(costs), recipe(recipe) {}

  /// `refinement` is that of the function, and must outlive this.
  void add(mlir::func::FuncOp function, const dist::RefinementAnalysis &refinement);
  /// All layouts of all ops, or, where these are more than a search should take, as many of each; over the
  /// loop axis of the mesh where earlier passes have put it, which is read here. Fails, with a diagnostic,
  /// where that cannot be.
  mlir::LogicalResult enumerate();
  /// The choices among the layouts of `op`, called `name` or `programName`, that pins leave; null, with a
  /// diagnostic, where a pin cannot be met.
  std::shared_ptr<const OpChoices> getChoices(mlir::Operation *op, llvm::StringRef name,
                                              llvm::StringRef programName, const Pins &pins);

  const dist::RefinementAnalysis &getRefinement(mlir::func::FuncOp function) const {
    return *refinements.find(function)->second;
  }
  /// What `function` is to searches; after enumerate(), which reads it.
  const factors::Reading &getProgram(mlir::func::FuncOp function) const {
    return programs.find(function)->second;
  }
  const dist::RefinedRule &getRule(mlir::Operation *op) const {
    return getRefinement(op->getParentOfType<mlir::func::FuncOp>()).get(op);
  }
  llvm::SmallVector<Exchange, 2> getStatistics(const dist::FactorRule &rule,
                                               const dist::Assignment &assignment) const;
  /// Does each turn of the mesh's loop do a part of `op`?
  bool isInLoop(mlir::Operation *op) const { return batchOf.contains(op); }
  /// Is what `op` makes brought to its readers in each turn of the mesh's loop anew?
  bool isOfEachTurn(mlir::Operation *op) const { return eachTurn.contains(op); }
  /// How often an op runs in a run of its program: in each turn of the loop, or once.
  int64_t getTimes(mlir::Operation *op) const { return isInLoop(op) ? mesh.getNumTurns() : 1; }

private:
  dist::MeshAttr mesh;
  const Costs &costs;
  std::optional<Recipe> &recipe;
  llvm::MapVector<mlir::func::FuncOp, const dist::RefinementAnalysis *> refinements;
  /// What the choices of an op depend on without pins: its rule, the factor that the loop axis stands on (-1:
  /// none), whether sums are carried, and numbers for what the recipe sees in it and for its marks
  /// (LayoutMarks.h).
  using RuleKey = std::tuple<const dist::RefinedRule *, int, bool, std::vector<int>>;
  RuleKey getRuleKey(mlir::Operation *op) const;
  /// The rule of what a turn of the loop does.
  dist::FactorRule getTurnRule(const RuleKey &key) const;
  std::map<RuleKey, Candidates> candidatesOfRule; ///< until choices are made of them
  std::map<RuleKey, std::shared_ptr<const OpChoices>> choicesOfRule;
  llvm::DenseSet<mlir::Operation *> deferring; ///< see DeferredSums.h
  /// Ops of which each turn of the mesh's loop does a part, and the factor that the loop axis stands on.
  llvm::DenseMap<mlir::Operation *, unsigned> batchOf;
  llvm::DenseSet<mlir::Operation *> eachTurn; ///< dist.each_turn, and what is made of their results alone

  /// Reads where earlier passes have put the loop axis of the mesh.
  mlir::LogicalResult readLoop();
  void readPrograms();
  llvm::MapVector<mlir::func::FuncOp, factors::Reading> programs;
  llvm::DenseMap<mlir::Operation *, const factors::Operation *> described; ///< in `programs`
  /// Puts the loop axis where it stands in all layouts of `op`, before the axes that split a turn's part.
  void addLoopAxis(mlir::Operation *op, dist::Assignment &assignment) const;
  /// The op whose gradient, or the gradient of one of whose operands, `op` is or is a step of, if that is a
  /// contraction, a convolution, an attention, a lookup or a normalization; null of others.
  mlir::Operation *findForward(mlir::Operation *op);
  /// What Pin::Form::Forward means for `op`: each factor over the axes that pins of the op whose gradient it
  /// is put it on. None where there is no such op, no such pin, or factors are cut otherwise.
  std::optional<dist::Assignment> getForwardAssignment(mlir::Operation *op, const Pins &pins);
  /// By function: these by their first names (null: several have it), and the names of all ops.
  struct Named {
    llvm::StringMap<mlir::Operation *> heavy, normalizations;
    llvm::DenseMap<mlir::Operation *, std::string> unique;
  };
  llvm::DenseMap<mlir::Operation *, Named> named; ///< filled when it is first asked for
  Named &getNamed(mlir::func::FuncOp function);
  /// The op or node that alone reads what an op widens: its names (none: there is none), and whether it is
  /// one op with the same factors.
  struct Reader {
    std::vector<std::string> names;
    bool isAlike = false;
  };
  Reader findReader(mlir::Operation *op);
  double getExchangeSeconds(const dist::FactorRule &rule, const dist::Assignment &assignment,
                            unsigned operand, dist::ShardingAttr sharding, mlir::RankedTensorType type) const;
  /// The factors of `op` that are features to the recipe, with their sizes, for messages.
  std::string listWidths(mlir::Operation *op) const;
  OpChoices makeChoices(mlir::Operation *op, Candidates candidates) const;
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_OPCHOICES_H
