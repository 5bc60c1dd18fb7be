//===- Model.h - a module as a layout problem -------------------------------===//
//
// One node for each op, parameter, function argument and result; candidates are layouts; edges carry what it
// costs to bring a value from where it is made to where it is used.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_MODEL_H
#define COLOSSAL_LIB_LAYOUT_MODEL_H

#include "Candidates.h"
#include "Costs.h"
#include "Pins.h"
#include "Recipe.h"

#include "colossal/Search/Problem.h"
#include "dialects/Dist/Loop.h"
#include "llvm/ADT/MapVector.h"

#include <map>
#include <optional>

namespace colossal::layout {

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

/// The candidates of an op, which all ops of one refined rule share, and what they mean for its tensors.
struct OpChoices {
  std::vector<dist::Assignment> assignments;
  bool isWhole = true;                              ///< no assignment is left out
  std::vector<double> seconds;                      ///< per assignment: computing and exchanging windows
  llvm::SmallVector<CandidateLayouts> wants, haves; ///< per operand (result)
  std::vector<std::vector<int64_t>> resultBytes;    ///< per result and assignment, of one rank's shard
};

/// What a node of the problem is in the module.
struct NodeInfo {
  enum class Kind { Op, Parameter, Argument, Result, Copy };
  Kind kind = Kind::Op;
  std::string name;
  mlir::func::FuncOp function;                 ///< not of parameters, which functions may share
  llvm::SmallVector<mlir::Operation *, 1> ops; ///< the op, or all parameter ops of one name
  unsigned index = 0;                          ///< of the argument or result
  std::shared_ptr<const OpChoices> choices;    ///< of an op
  std::vector<dist::ShardingAttr> layouts;     ///< per candidate of the other kinds
  double getSeconds(int32_t candidate) const {
    return choices ? choices->seconds[candidate] : 0;
  } ///< computing
};

/// Where an operand comes from and what its user may ask for.
struct Transfer {
  mlir::Value value;
  int from = 0, to = 0; ///< nodes
  CandidateLayouts have, want;
  bool isParameter = false;
};

class Model {
public:
  Model(mlir::ModuleOp module, dist::MeshAttr mesh, const Costs &costs, std::optional<int64_t> memoryLimit,
        std::optional<Recipe> recipe = {})
      : module(module), mesh(mesh), costs(costs), memoryLimit(memoryLimit), recipe(std::move(recipe)),
        resharder(
            mesh,
            [&costs](dist::MoveKind kind, double bytes, llvm::ArrayRef<unsigned> axes) {
              return costs.getMoveSeconds(kind, bytes, axes);
            },
            costs.areAxesAlike()) {}

  /// Builds the problem. Pins that mean something here are marked as used. Fails, with diagnostics, where one
  /// cannot be met.
  mlir::LogicalResult build(std::vector<Pin> &pins);
  search::Problem problem;

  /// Writes the chosen candidates into the module.
  void apply(const search::Assignment &chosen);

  const std::vector<NodeInfo> &getNodes() const { return nodes; }
  /// The name that stands for `name` in `function` and nowhere else: with "@FUNCTION" where the module has
  /// several, and "@stageK" where it is a stage. What belongs to no function (parameters) goes without the
  /// former.
  std::string getProgramName(llvm::StringRef name, mlir::func::FuncOp function) const;
  const std::vector<Transfer> &getTransfers() const { return transfers; }
  /// Ops that have more layouts than were looked at.
  unsigned countCutOps() const;
  const dist::RefinedRule &getRule(mlir::Operation *op) const {
    return refinements.find(op->getParentOfType<mlir::func::FuncOp>())->second->get(op);
  }
  /// What the ranks of an op exchange between its stages.
  struct Exchange {
    dist::MoveKind kind = dist::MoveKind::AllReduce;
    double bytes = 0; ///< as in dist::Move
    llvm::SmallVector<unsigned, 2> axes;
    int64_t ranks = 1;
  };
  llvm::SmallVector<Exchange, 2> getStatistics(const dist::FactorRule &rule,
                                               const dist::Assignment &assignment) const;
  /// How often an op runs in a run of its program: in each turn of the loop, or once.
  int64_t getTimes(mlir::Operation *op) const { return batchOf.contains(op) ? mesh.getNumTurns() : 1; }
  dist::Resharder &getResharder() { return resharder; }
  dist::MeshAttr getMesh() const { return mesh; }
  const cost::Machine &getMachine() const { return costs.getMachine(); }
  /// Bytes of one rank's shard.
  double getLocalBytes(dist::ShardingAttr sharding, mlir::Type element) const;

private:
  mlir::ModuleOp module;
  dist::MeshAttr mesh;
  const Costs &costs;
  std::optional<int64_t> memoryLimit;
  std::optional<Recipe> recipe;
  dist::Resharder resharder;
  std::vector<NodeInfo> nodes;
  std::vector<Transfer> transfers;
  llvm::MapVector<mlir::func::FuncOp, std::unique_ptr<dist::RefinementAnalysis>> refinements;
  struct Source {
    int node = -1;
    CandidateLayouts layouts;
  };
  llvm::DenseMap<mlir::Value, Source> sources;
  llvm::DenseMap<mlir::Operation *, int> opNodes;
  llvm::DenseMap<mlir::Operation *, const OpChoices *> choicesOf;
  /// What the choices of an op depend on without pins: its rule, the factor that the loop axis stands on (-1:
  /// none), whether sums are carried, and what the recipe sees in it.
  using RuleKey = std::tuple<const dist::RefinedRule *, int, bool, std::vector<int>>;
  RuleKey getRuleKey(mlir::Operation *op) const;
  /// The rule of what a turn of the loop does.
  dist::FactorRule getTurnRule(const RuleKey &key) const;
  std::map<RuleKey, Candidates> candidatesOfRule; ///< until choices are made of them
  std::map<RuleKey, std::shared_ptr<const OpChoices>> choicesOfRule;
  llvm::DenseSet<mlir::Operation *> deferring; ///< see DeferredSums.h
  /// Ops of which each turn of the mesh's loop does a part, and the factor that the loop axis stands on.
  llvm::DenseMap<mlir::Operation *, unsigned> batchOf;
  std::map<std::tuple<const void *, const void *, unsigned, unsigned, bool>,
           std::shared_ptr<const search::CostTable>>
      tables;
  /// First time step of each op; the step after the last use of each value.
  llvm::DenseMap<mlir::Operation *, int64_t> steps;
  llvm::DenseMap<mlir::Value, int64_t> lastUse;
  int64_t end = 0;

  /// Reads where earlier passes have put the loop axis of the mesh.
  mlir::LogicalResult readLoop();
  void numberSteps();
  /// All layouts of all ops, or, where these are more than a search should take, as many of each.
  void enumerateCandidates();
  /// Leaves those of `layouts` in which the loop axis stands at `place`, or puts it there; none: those
  /// without it. `isWhole`: those that are no boxes of the tensor go, too.
  void keepLoop(std::vector<dist::ShardingAttr> &layouts, std::optional<dist::LoopPlace> place,
                bool isWhole = true) const;
  /// The layouts of an argument or result, after pins, over the loop axis where its attributes have it.
  /// Fails, with a diagnostic, where pins leave none.
  mlir::LogicalResult keepLoop(NodeInfo &info, mlir::DictionaryAttr attributes, mlir::Location loc) const;
  /// How many turns' parts of an argument or result with these attributes a rank holds at once.
  int64_t countParts(mlir::DictionaryAttr attributes) const;
  double getExchangeSeconds(const dist::FactorRule &rule, const dist::Assignment &assignment,
                            unsigned operand, dist::ShardingAttr sharding, mlir::RankedTensorType type) const;
  /// Puts the loop axis where it stands in all layouts of `op`, before the axes that split a turn's part.
  void addLoopAxis(mlir::Operation *op, dist::Assignment &assignment) const;
  OpChoices makeChoices(mlir::Operation *op, Candidates candidates) const;
  /// The choices among the layouts of `op` that pins leave; null, with a diagnostic, where a pin cannot be
  /// met.
  std::shared_ptr<const OpChoices> getChoices(mlir::Operation *op, llvm::StringRef name,
                                              std::vector<Pin> &pins);
  mlir::LogicalResult addOp(mlir::Operation *op, llvm::StringRef name, std::vector<Pin> &pins);
  mlir::LogicalResult addParameters(std::vector<Pin> &pins);
  mlir::LogicalResult addArguments(mlir::func::FuncOp function, std::vector<Pin> &pins);
  mlir::LogicalResult addResults(mlir::func::FuncOp function, std::vector<Pin> &pins);
  void addTransfers(mlir::func::FuncOp function);
  void addParameterUse(const Transfer &transfer, int64_t step);
  /// Layouts that users of `values` (all the same tensor) ask for, the replicated one first, each once, and
  /// each also with those axes of `spread` that it does not use laid onto the largest dimensions.
  std::vector<dist::ShardingAttr> getDemands(llvm::ArrayRef<mlir::Value> values,
                                             llvm::ArrayRef<unsigned> spread) const;
  /// Leaves those of `layouts` over as many axes as the recipe stores the weights of contractions over.
  void narrowStored(llvm::ArrayRef<mlir::Value> values, std::vector<dist::ShardingAttr> &layouts) const;
  int addNode(NodeInfo info, std::vector<search::Candidate> candidates);
  /// `parts`: that lie side by side, of what turns of the loop have a part of.
  int addTensorNode(NodeInfo info, mlir::RankedTensorType type, int64_t begin, int64_t end,
                    int64_t parts = 1);
  /// What bringing a tensor from each of some layouts to each of others costs each of `sharers` that need the
  /// same; row-major.
  search::CostTable getMoveCosts(llvm::ArrayRef<dist::ShardingAttr> froms,
                                 llvm::ArrayRef<dist::ShardingAttr> tos, unsigned elementBytes,
                                 unsigned sharers, bool isParameter);
  /// Costs of all distinct layouts of both ends.
  std::shared_ptr<const search::CostTable> getTable(const Transfer &transfer, unsigned sharers);
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_MODEL_H
