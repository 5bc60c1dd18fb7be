//===- PropagateBatch.cpp - the batch, from the inputs to the outputs -------===//
//
// A walk over each function in order. What is known of a value is the place of the batch in it: a dimension,
// and which of the factors that the dimension is a product of. An op carries it on where one parallel factor
// of its rule has it in all operands that have a batch.
//
//===----------------------------------------------------------------------===//
#include "colossal/Step/PropagateBatch.h"

#include "colossal/Step/MarkBatch.h"

#include "colossal/Partition/Partition.h"
#include "colossal/Partition/Refinement.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/Loop.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

MeshAttr step::addMicrobatches(MeshAttr mesh, int64_t count) {
  SmallVector<MeshAxisAttr> axes(mesh.getAxes());
  MLIRContext *context = mesh.getContext();
  axes.push_back(MeshAxisAttr::get(context, StringAttr::get(context, kMicrobatchAxis), count, true));
  return MeshAttr::get(context, axes);
}

namespace {
/// A dimension as `outer` x `size` x (what is left), of which `size` counts the rows of the batch.
struct BatchDim {
  int64_t dim = 0, outer = 1, size = 1;
};

/// The inputs of a function that have a batch, and its rows.
struct Batch {
  llvm::DenseMap<Value, BatchDim> places;
  int64_t rows = 0;
};

class Propagation {
public:
  Propagation(func::FuncOp function, Batch batch, MeshAttr mesh)
      : function(function), mesh(mesh), turns(mesh.getNumTurns()), refinement(function),
        places(std::move(batch.places)), sums(getTraining(function) != nullptr),
        scatters(scattersInTurns(function->getParentOfType<ModuleOp>())) {}
  /// Of ranks along `axis`, which have parts of what turns do.
  Propagation(func::FuncOp function, Batch batch, MeshAttr mesh, unsigned axis, bool keepsSums)
      : function(function), mesh(mesh), axis(axis), turns(mesh.getNumTurns() * mesh.getAxisSize(axis)),
        refinement(function), places(std::move(batch.places)), sums(true), keepsSums(keepsSums) {}
  /// `isPart`: of a program that is cut into stages, so that it need not have any part of the batch.
  LogicalResult run(bool isPart);
  /// Says of each op that the batch reaches which factor counts its rows. What does not go on with it is left
  /// as it is: ranks, unlike turns, may do all of it.
  void mark();

private:
  /// Carries the batch through `op`. What is wrong with that, or "".
  std::string visit(Operation *op);
  /// Lays the loop axis onto a factor of `op`.
  void assign(Operation *op, const FactorRule &rule, unsigned batch) const;
  /// The factor that has what `place` of the tensor `dims` is; none where the rule has no such one.
  std::optional<unsigned> findFactor(const FactorRule &rule, const TensorFactors &dims, BatchDim place) const;
  /// Why `factor` of a rule cannot be cut into microbatches, or "".
  std::string getObstacle(const Factor &factor) const;
  /// A layout that has the loop axis at `place`, and nothing else.
  ShardingAttr makeSharding(Value value, BatchDim place) const;

  func::FuncOp function;
  MeshAttr mesh;
  std::optional<unsigned> axis; ///< of ranks; none: the loop axis
  const int64_t turns;          ///< or ranks
  RefinementAnalysis refinement;
  llvm::DenseMap<Value, BatchDim> places;
  llvm::DenseSet<Value> unknown; ///< of ops that are refused, or depend on such ones
  /// In a training step: sums over the rows of the batch, which are there when all turns have added theirs,
  /// and what depends on them.
  bool sums = false;
  llvm::DenseSet<Value> totals;
  bool keepsSums = false; ///< what depends on such sums is done whole on each rank
  /// Sums of a turn's rows that meet in it, before they are reduced between ranks and added up
  /// (LayoutMarks.h).
  bool scatters = false;
  llvm::DenseSet<Value> ofTurn; ///< such sums
  /// The factor by which `op` hands on sums of a turn, where they meet in it or in one that it leads to, or
  /// where it widens them.
  std::optional<unsigned> findMeeting(Operation *op, const FactorRule &rule) const;
  bool leadsToMeeting(Operation *op) const;
};
} // namespace

static FailureOr<Batch> findBatch(func::FuncOp function) {
  Batch batch;
  const bool isMarked = llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
    return function.getArgAttr(argument.getArgNumber(), kBatchAttrName) != nullptr;
  });
  BlockArgument first;
  for (BlockArgument argument : function.getArguments()) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(argument.getType()).getShape();
    BatchDim place;
    if (auto mark = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kBatchAttrName))
      place.dim = mark.getInt();
    else if (isMarked || shape.empty() || shape[0] == 1)
      continue;
    if (place.dim < 0 || place.dim >= static_cast<int64_t>(shape.size()))
      return emitError(argument.getLoc())
             << "has dimension " << place.dim << " as its batch, and " << shape.size() << " dimensions";
    place.size = shape[place.dim];
    if (first && place.size != batch.rows) {
      InFlightDiagnostic diagnostic = emitError(argument.getLoc())
                                      << "an input has " << place.size << " rows and another " << batch.rows
                                      << ": which dimension is the batch? Name it with --batch-dim";
      diagnostic.attachNote(first.getLoc()) << "the other one";
      return diagnostic;
    }
    first = argument;
    batch.rows = place.size;
    batch.places[argument] = place;
  }
  if (!first)
    return emitError(function.getLoc())
           << "program '" << function.getName()
           << "' has no input with a batch, which could be cut into microbatches";
  return batch;
}

FailureOr<int64_t> step::countRows(func::FuncOp function) {
  FailureOr<Batch> batch = findBatch(function);
  if (failed(batch))
    return failure();
  return batch->rows;
}

std::optional<unsigned> Propagation::findFactor(const FactorRule &rule, const TensorFactors &dims,
                                                BatchDim place) const {
  int64_t outer = 1;
  for (unsigned f : dims[place.dim]) {
    int64_t size = rule.factors[f].operandSize >= 0 ? rule.factors[f].operandSize : rule.factors[f].size;
    // A factor of another size has the same rows in each turn where the turns cut both evenly.
    if (outer == place.outer && size > 1) {
      bool isSame = size == place.size || (size % place.size == 0 && place.size % turns == 0) ||
                    (place.size % size == 0 && size % turns == 0);
      return isSame ? std::optional(f) : std::nullopt;
    }
    outer *= size;
  }
  return std::nullopt;
}

std::string Propagation::getObstacle(const Factor &factor) const {
  switch (factor.kind) {
  case FactorKind::Reduction:
    if (sums && factor.reduction == ReductionKind::Sum && factor.size % turns == 0)
      return "";
    return "combines the rows of the batch (" + stringifyReductionKind(factor.reduction).str() + ")";
  case FactorKind::Joined: return "selects among the rows of the batch";
  case FactorKind::Whole:
  case FactorKind::Carried: return "needs all rows of the batch at once";
  case FactorKind::Parallel: break;
  }
  if (factor.staged)
    return "takes statistics over the rows of the batch";
  if (factor.operandSize >= 0)
    return "reads rows of the batch through windows";
  if (factor.even && factor.size % turns != 0)
    return "takes the rows of the batch in equal parts only, and " + std::to_string(factor.size) +
           " are not " + std::to_string(turns) + " equal parts";
  return "";
}

/// The carried factor of a rule by which `operand` may be a sum; null where there is none.
static const Factor *findCarried(const FactorRule &rule, unsigned operand) {
  const auto *found = llvm::find_if(
      rule.factors, [&](const Factor &factor) { return llvm::is_contained(factor.carriers, operand); });
  return found == rule.factors.end() ? nullptr : &*found;
}

bool Propagation::leadsToMeeting(Operation *op) const {
  constexpr unsigned kMost = 8; // ops between a product and where its sum meets another
  for (unsigned i = 0; i < kMost && op->getNumResults() == 1 && op->getResult(0).hasOneUse(); ++i) {
    OpOperand &use = *op->getResult(0).use_begin();
    op = use.getOwner();
    const Factor *carried = isa<ShardingRuleOpInterface>(op)
                                ? findCarried(refinement.get(op).rule, use.getOperandNumber())
                                : nullptr;
    if (!carried)
      return false;
    if (carried->carriers.size() > 1)
      return true;
  }
  return false;
}

std::optional<unsigned> Propagation::findMeeting(Operation *op, const FactorRule &rule) const {
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    const bool isCarried = !factor.carriers.empty() && llvm::all_of(factor.carriers, [&](unsigned carrier) {
      return ofTurn.contains(op->getOperand(carrier));
    });
    const bool isAlone = llvm::all_of(llvm::enumerate(op->getOperands()), [&](auto operand) {
      return !totals.contains(operand.value()) ||
             llvm::is_contained(factor.carriers, static_cast<unsigned>(operand.index()));
    });
    if (isCarried && isAlone &&
        (factor.carriers.size() > 1 || op->hasAttr(kWidensSumsAttrName) || leadsToMeeting(op)))
      return f;
  }
  return std::nullopt;
}

std::string Propagation::visit(Operation *op) {
  const FactorRule &rule = refinement.get(op).rule;
  std::optional<unsigned> batch;
  for (auto [operand, dims] : llvm::zip_equal(op->getOperands(), rule.operands)) {
    auto known = places.find(operand);
    if (known == places.end())
      continue;
    std::optional<unsigned> found = findFactor(rule, dims, known->second);
    if (!found)
      return "sees the batch as a part of a dimension that it does not cut there";
    if (batch && *batch != *found)
      return "takes the batches of its operands for different dimensions";
    batch = found;
  }
  const bool needsTotal =
      llvm::any_of(op->getOperands(), [&](Value value) { return totals.contains(value); });
  if (needsTotal && batch)
    return "works on the rows of the batch with a sum over all of them";
  if (needsTotal) {
    totals.insert(op->result_begin(), op->result_end());
    if (axis && keepsSums && !op->hasAttr(kReplicatedOverAttrName))
      op->setAttr(kReplicatedOverAttrName, DenseI64ArrayAttr::get(op->getContext(), {*axis}));
    const bool mayMeet = !batch && (scatters || op->hasAttr(kWidensSumsAttrName));
    if (std::optional<unsigned> meeting = mayMeet ? findMeeting(op, rule) : std::nullopt) {
      ofTurn.insert(op->result_begin(), op->result_end());
      assign(op, rule, *meeting);
    }
  }
  if (!batch)
    return "";
  if (rule.factors[*batch].kind == FactorKind::Reduction && getObstacle(rule.factors[*batch]).empty()) {
    totals.insert(op->result_begin(), op->result_end());
    ofTurn.insert(op->result_begin(), op->result_end());
    assign(op, rule, *batch);
    return "";
  }
  if (std::string obstacle = getObstacle(rule.factors[*batch]); !obstacle.empty())
    return obstacle;
  for (auto [result, dims] : llvm::zip_equal(op->getResults(), rule.results)) {
    bool isFound = false;
    for (auto [d, dim] : llvm::enumerate(dims)) {
      int64_t outer = 1;
      for (unsigned f : dim) {
        if (f == *batch) {
          places[result] = {static_cast<int64_t>(d), outer, rule.factors[f].size};
          isFound = true;
        }
        outer *= rule.factors[f].size;
      }
    }
    if (!isFound && !result.use_empty())
      return "gives a result without the rows of the batch";
  }
  assign(op, rule, *batch);
  return "";
}

void Propagation::assign(Operation *op, const FactorRule &rule, unsigned batch) const {
  if (axis) {
    op->setAttr(kBatchOverAttrName, DenseI64ArrayAttr::get(op->getContext(), {batch, *axis}));
    return;
  }
  Assignment assignment(rule.factors.size());
  assignment[batch].push_back(static_cast<unsigned>(mesh.getLoopAxis()));
  setAssignment(op, assignment);
}

ShardingAttr Propagation::makeSharding(Value value, BatchDim place) const {
  MLIRContext *context = mesh.getContext();
  auto axis = static_cast<unsigned>(mesh.getLoopAxis());
  SmallVector<DimShardingAttr> dims;
  for (auto [d, size] : llvm::enumerate(cast<RankedTensorType>(value.getType()).getShape())) {
    if (static_cast<int64_t>(d) == place.dim)
      dims.push_back(makeDimSharding(
          context, {{place.outer, {}}, {place.size, axis}, {size / place.outer / place.size, {}}}));
    else
      dims.push_back(makeDimSharding(context, {{size, {}}}));
  }
  return ShardingAttr::get(context, dims, {}, ReductionKind::Sum);
}

void Propagation::mark() {
  for (Operation &op : function.front().without_terminator())
    if (!isa<ShardingRuleOpInterface>(op) ||
        llvm::any_of(op.getOperands(), [&](Value operand) { return unknown.contains(operand); }) ||
        !visit(&op).empty())
      unknown.insert(op.result_begin(), op.result_end());
}

LogicalResult Propagation::run(bool isPart) {
  bool isRefused = false;
  for (Operation &op : function.front().without_terminator()) {
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return unknown.contains(operand); })) {
      unknown.insert(op.result_begin(), op.result_end());
      continue;
    }
    if (!isa<ShardingRuleOpInterface>(op))
      return op.emitOpError() << "has no sharding rule, so that the batch cannot be followed through it";
    std::string problem = visit(&op);
    if (problem.empty())
      continue;
    isRefused = true;
    op.emitOpError() << problem
                     << ": microbatches would change what it computes; with --microbatches 1 there are none";
    unknown.insert(op.result_begin(), op.result_end());
  }
  if (isRefused)
    return failure();
  for (BlockArgument argument : function.getArguments())
    if (auto found = places.find(argument); found != places.end())
      function.setArgAttr(argument.getArgNumber(), kShardingAttrName, makeSharding(argument, found->second));
  bool isReached = false;
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    if (auto found = places.find(value); found != places.end()) {
      function.setResultAttr(i, kShardingAttrName, makeSharding(value, found->second));
      isReached = true;
    }
  for (Value value : function.front().getTerminator()->getOperands())
    isReached |= totals.contains(value);
  if (!isReached && !isPart)
    return emitError(function.getLoc())
           << "program '" << function.getName() << "' has no output that depends on the batch of an input";
  return success();
}

/// What cutting a program into stages has written down for this part of it.
static Batch readBatch(func::FuncOp function) {
  Batch batch;
  for (BlockArgument argument : function.getArguments())
    if (std::optional<LoopPlace> place = getLoopPlace(function.getArgAttrDict(argument.getArgNumber())))
      batch.places[argument] = {static_cast<int64_t>(place->dim), place->outer, place->size};
  return batch;
}

void step::markBatch(ModuleOp module) {
  for (ModuleOp stage : getStages(module)) {
    DictionaryAttr training = getTraining(stage);
    auto name = training ? training.getAs<StringAttr>(kBatchAxisAttrName) : StringAttr();
    auto mesh = stage->getAttrOfType<MeshAttr>(kMeshAttrName);
    const int64_t axis = name && mesh ? mesh.findAxis(name.getValue()) : -1;
    if (axis < 0 || mesh.getAxisSize(static_cast<unsigned>(axis)) == 1)
      continue;
    for (auto function : stage.getOps<func::FuncOp>()) {
      if (function.isExternal() || !function.getBody().hasOneBlock())
        continue;
      Batch batch = readBatch(function);
      for (BlockArgument argument : function.getArguments())
        if (auto dim = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kBatchAttrName))
          batch.places[argument] = {dim.getInt(), 1,
                                    cast<RankedTensorType>(argument.getType()).getDimSize(dim.getInt())};
      Propagation(function, std::move(batch), mesh, static_cast<unsigned>(axis),
                  training.contains(kWholeSumsAttrName))
          .mark();
    }
  }
}

LogicalResult step::propagateBatchInStage(ModuleOp stage) {
  auto mesh = stage->getAttrOfType<MeshAttr>(kMeshAttrName);
  for (auto function : stage.getOps<func::FuncOp>())
    if (failed(Propagation(function, readBatch(function), mesh).run(/*isPart=*/true)))
      return failure();
  return success();
}

LogicalResult step::propagateBatch(ModuleOp module) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttrName);
  if (!mesh || mesh.getLoopAxis() < 0 || getStages(module).front() != module)
    return success();
  const int64_t turns = mesh.getNumTurns();
  SmallVector<std::pair<func::FuncOp, Batch>> batches;
  int64_t filled = 0; // turns that have rows in some function
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return function.emitError() << "expected a function of one block";
    FailureOr<Batch> batch = findBatch(function);
    if (failed(batch))
      return failure();
    if (batch->rows < turns)
      return emitError(function.getLoc())
             << "program '" << function.getName() << "' has a batch of " << batch->rows
             << ", which cannot be cut into " << turns << " microbatches";
    auto part = static_cast<int64_t>(llvm::divideCeil(batch->rows, turns));
    filled = std::max(filled, static_cast<int64_t>(llvm::divideCeil(batch->rows, part)));
    batches.push_back({function, std::move(*batch)});
  }
  if (filled > 0 && filled < turns) {
    emitWarning(module.getLoc()) << turns << " equal microbatches would leave " << turns - filled
                                 << " of them without rows: the batch is cut into " << filled;
    SmallVector<MeshAxisAttr> axes(mesh.getAxes());
    axes.back() = MeshAxisAttr::get(module.getContext(), axes.back().getName(), filled, true);
    mesh = MeshAttr::get(module.getContext(), axes);
    module->setAttr(kMeshAttrName, mesh);
  }
  for (auto &[function, batch] : batches)
    if (failed(Propagation(function, std::move(batch), mesh).run(/*isPart=*/false)))
      return failure();
  return success();
}
