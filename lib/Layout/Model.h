//===- Model.h - a module as a layout problem -------------------------------===//
//
// One node for each op, parameter, function argument and result; candidates are layouts; edges carry what it
// costs to bring a value from where it is made to where it is used. What ops there are, who reads what, how
// long it lives and what it takes comes from the factor graphs of the functions; the IR is asked for what
// layouts mean to an op, and takes the answer.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_MODEL_H
#define COLOSSAL_LIB_LAYOUT_MODEL_H

#include "MoveTables.h"
#include "OpChoices.h"

#include "colossal/Layout/StorageLives.h"
#include "colossal/Search/Problem.h"
#include "dialects/Dist/Loop.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <optional>

namespace colossal::layout {

/// What a node of the problem is in the module.
struct NodeInfo {
  /// State: what lies alike in all functions, as their argument and result (dialects/Dist/State.h); Copy: one
  /// that one use brings in; Shared: the layout in which all uses of a value find it.
  enum class Kind { Op, Parameter, State, Argument, Result, Copy, Shared };
  Kind kind = Kind::Op;
  std::string name;
  mlir::func::FuncOp function;                 ///< not of parameters, which functions may share
  llvm::SmallVector<mlir::Operation *, 1> ops; ///< the op, or all parameter ops of one name
  unsigned index = 0;                          ///< of the argument or result
  /// Of a state: the functions that have it, and the numbers of its arguments and results.
  llvm::SmallVector<std::pair<mlir::func::FuncOp, unsigned>, 1> arguments, results;
  int program = -1, operation = -1;         ///< of an op: its place in the factor graphs
  std::shared_ptr<const OpChoices> choices; ///< of an op
  std::vector<dist::ShardingAttr> layouts;  ///< per candidate of the other kinds
  mlir::Value value;                        ///< that is shared
  double getSeconds(int32_t candidate) const {
    return choices ? choices->seconds[candidate] : 0;
  } ///< computing
};

/// A value on its way from where it is made, or shared, to a use, or to where it is shared.
struct Transfer {
  mlir::Value value;
  int from = 0, to = 0; ///< nodes
  CandidateLayouts have, want;
  /// Of what is given: the rows, and that of each candidate of `from`.
  std::shared_ptr<const GivenRows> rows;
  std::shared_ptr<const search::Classes> rowOf;
  MovedValue moved = MovedValue::Stream;
  bool madeInLoop = false; ///< each turn makes a part
  int shownAt = 0;         ///< the node whose operand needs it
  int maker = 0;           ///< the node that makes the value
  CandidateLayouts made;   ///< its layouts
};

/// The operands of an op that are tensors, as a factor graph numbers them.
llvm::SmallVector<unsigned, 4> getTensorOperands(mlir::Operation *op);
/// Of an argument or result with these attributes: whether it is a value between stages, of which no rank
/// holds more than a turn's part.
bool isBetweenStages(mlir::DictionaryAttr attributes);
/// Of a value of `bytes` that a rank holds in `layout`, and that is made for some of the rows along `dim` at
/// a time: what it takes.
int64_t getPartBytes(int64_t bytes, dist::ShardingAttr layout, unsigned dim, dist::MeshAttr mesh);

class Model {
public:
  Model(mlir::ModuleOp module, dist::MeshAttr mesh, const Costs &costs, std::optional<int64_t> memoryLimit,
        std::optional<Recipe> recipe = {}, ForeseeStorage foreseeStorage = {})
      : module(module), mesh(mesh), costs(costs), memoryLimit(memoryLimit),
        foreseeStorage(std::move(foreseeStorage)), recipe(std::move(recipe)),
        moves(mesh, costs, this->recipe), builder(mesh, costs, this->recipe) {
    moves.getResharder().setScattersInTurns(dist::scattersInTurns(module));
  }

  /// Builds the problem. Pins that mean something here are marked as used. Fails, with diagnostics, where one
  /// cannot be met.
  mlir::LogicalResult build(dist::RefinementOf refinementOf, const Pins &pins);
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
  const OpChoicesBuilder &getBuilder() const { return builder; }
  dist::Resharder &getResharder() { return moves.getResharder(); }
  dist::MeshAttr getMesh() const { return mesh; }
  const cost::Machine &getMachine() const { return costs.getMachine(); }

private:
  mlir::ModuleOp module;
  dist::MeshAttr mesh;
  const Costs &costs;
  std::optional<int64_t> memoryLimit;
  ForeseeStorage foreseeStorage; ///< null: each op is a kernel
  std::optional<Recipe> recipe;
  MoveTables moves;
  std::vector<NodeInfo> nodes;
  std::vector<Transfer> transfers;
  OpChoicesBuilder builder;
  llvm::SmallVector<mlir::func::FuncOp> functions;
  struct Source {
    int node = -1;
    CandidateLayouts layouts;
  };
  /// A function, and its tensors by their numbers in the factor graph. Its operations, and then its
  /// terminator, take a step of time each.
  struct Program {
    mlir::func::FuncOp function;
    const factors::Reading *reading = nullptr;
    int64_t begin = 0;           ///< step of the first operation
    std::vector<int> nodes;      ///< by operation
    std::vector<Source> sources; ///< by tensor
    struct Reader {
      int operation, use;
    };
    std::vector<llvm::SmallVector<Reader, 2>> readers; ///< by tensor
    std::vector<bool> isOutput;                        ///< by tensor: is it returned?

    /// Where memory is counted and the kernels are known: what lies there when.
    std::optional<StorageLives> storage;
    llvm::MapVector<mlir::Value, unsigned> lossValues; ///< partition::findLossValues

    const factors::UnitKind &kind() const { return reading->graph.kinds.front(); }
    mlir::Operation *getOp(int operation) const {
      return reading->operations[reading->graph.ids.front()[operation]];
    }
    int64_t stepOf(int operation) const {
      return begin + (storage ? storage->steps.lookup(getOp(operation)) : operation);
    }
    /// Of a tensor that an operation makes, which is `value`: the steps [begin, end) that it lies in memory.
    std::pair<int64_t, int64_t> lifeOf(int tensor, mlir::Value value) const;
    /// The step behind the last of a turn of the loop, where there is one.
    int64_t loopEnd() const { return storage ? begin + storage->loopEnd : lastStep(); }
    int64_t lastStep() const { return begin + static_cast<int64_t>(kind().operations.size()); }
  };
  std::vector<Program> programs;
  int64_t end = 0; ///< of all programs' time
  /// By layout and element type: bytes of a tensor on a rank, and whether turns of the loop have a part of
  /// it.
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Type>, std::pair<int64_t, bool>> bytesOf;
  llvm::StringMap<int> stateNodes; ///< by name

  void addPrograms();
  /// Warns where the recipe says nothing of some ops with weights, by the first one's name.
  void reportRecipe();
  /// Leaves those of `layouts` in which the loop axis stands at `place`, or puts it there; none: those
  /// without it. `isWhole`: those that are no boxes of the tensor go, too.
  void keepLoop(std::vector<dist::ShardingAttr> &layouts, std::optional<dist::LoopPlace> place,
                bool isWhole = true) const;
  /// Of an argument or result: over the loop axis where its attributes have it.
  void keepLoop(std::vector<dist::ShardingAttr> &layouts, mlir::DictionaryAttr attributes) const;
  /// Leaves the layouts of an argument or result that pins and the loop axis allow. A pin that may match
  /// nothing does not hold where it would leave none; of others that is an error, with a diagnostic.
  mlir::LogicalResult pinBoundary(NodeInfo &info, mlir::RankedTensorType type,
                                  mlir::DictionaryAttr attributes, const Pins &pins,
                                  mlir::Location loc) const;
  /// When an argument or result with these attributes lies in memory: what stages hand on once, only while it
  /// is made or read.
  std::pair<int64_t, int64_t> getBoundaryLife(const Program &program, mlir::DictionaryAttr attributes,
                                              mlir::Value value) const;
  /// How many turns' parts of an argument or result with these attributes a rank holds at once.
  int64_t countParts(mlir::DictionaryAttr attributes) const;
  mlir::LogicalResult addOp(int program, int operation, llvm::StringRef name, const Pins &pins);
  mlir::LogicalResult addParameters(const Pins &pins);
  mlir::LogicalResult addStates(const Pins &pins);
  mlir::LogicalResult addArguments(Program &program, const Pins &pins);
  mlir::LogicalResult addResults(Program &program, const Pins &pins);
  void addTransfers(const Program &program);
  Transfer makeTransfer(mlir::Value value, const Source &source, int to, const CandidateLayouts &want,
                        MovedValue moved);
  /// Adds what transfers cost.
  void addUses();
  /// Programs that only read the states that another renews, as an evaluation does beside a step, are done
  /// seldom: what they take counts little, so that states lie as the step wants them.
  void discountReaders();
  /// A value that several uses read is brought to one layout first, by a node of its own, and from there to
  /// each of them that does not take it as it is made: so they pay once for what they share, and the bound is
  /// that of what is priced.
  void shareUses();
  /// Adds a node for a copy of a value, in the layout of a row of `asked`, and the edge to it. With a memory
  /// limit, and where the copy is not small beside it, the copy counts over [begin, finish), unless it is in
  /// a layout that is there; of what was made in parts of a sum, from the step behind its maker's on, as
  /// programs sum it at once. Returns what it gives: a transfer from it.
  Transfer addCopy(const Transfer &transfer, std::shared_ptr<const GivenRows> asked, NodeInfo::Kind kind,
                   int64_t begin, int64_t finish);
  void addUse(const Transfer &transfer);
  /// Where the maker of a value may give parts of a sum: lets these take memory until the sum is there, and
  /// no longer. The steps in which the sum, or what is left in parts, is there from then on.
  std::optional<std::pair<int64_t, int64_t>> endParts(const Transfer &transfer);
  bool countsCopies(const Transfer &transfer, mlir::ArrayAttr layouts) const;
  /// When a node reads what is brought to it, and until when that must stay.
  std::pair<int64_t, int64_t> getUseLife(const Transfer &transfer) const;
  /// Layouts that readers of `tensors` (all of one type) ask for, the replicated one first, each once, and
  /// each also with those axes of `spread` that it does not use laid onto the largest dimensions.
  using TensorOf = std::pair<const Program *, int>; ///< a tensor's number in a program
  std::vector<dist::ShardingAttr> getDemands(llvm::ArrayRef<TensorOf> tensors, mlir::RankedTensorType type,
                                             llvm::ArrayRef<unsigned> spread) const;
  /// The axes of the mesh but that of a loop.
  llvm::SmallVector<unsigned> getSpatialAxes() const {
    return llvm::to_vector(llvm::seq<unsigned>(0, mesh.getNumAxes() - (mesh.getLoopAxis() < 0 ? 0 : 1)));
  }
  std::vector<const void *> getReaders(llvm::ArrayRef<TensorOf> tensors, mlir::RankedTensorType type) const;
  /// Leaves those of `layouts` over as many axes as the recipe stores the weights of contractions over.
  void narrowStored(llvm::ArrayRef<mlir::Value> values, std::vector<dist::ShardingAttr> &layouts) const;
  int addNode(NodeInfo info, std::vector<search::Candidate> candidates);
  /// `parts`: that lie side by side, of what turns of the loop have a part of.
  int addTensorNode(NodeInfo info, mlir::RankedTensorType type, int64_t begin, int64_t end,
                    int64_t parts = 1);
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_MODEL_H
