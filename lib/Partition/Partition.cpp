//===- Partition.cpp - from global to local tensors -------------------------===//
//
// Walks each function once, in order, and builds its local twin beside it: operands are brought to the layout
// that an op's rule and assignment ask for (collectives, windows, padding), then the op builds its local
// version.
//
//===----------------------------------------------------------------------===//
#include "colossal/Partition/Partition.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/BoundaryAttrs.h"
#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/State.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/IRMapping.h"

#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

namespace {
/// A global value's local twin.
struct Local {
  Value value;
  ShardingAttr sharding;
  bool isZeroPadded = false; ///< its padding, if any, holds 0
  ShardingAttr shared = {};  ///< getSharedLayout of the global one
  bool ofEachTurn = false;   ///< it is brought to its readers in each turn (dist.each_turn)
};

double getFill(PaddingFill fill) {
  switch (fill) {
  case PaddingFill::Any:
  case PaddingFill::Zero: return 0.0;
  case PaddingFill::One: return 1.0;
  case PaddingFill::Lowest: return -std::numeric_limits<double>::infinity();
  case PaddingFill::Highest: return std::numeric_limits<double>::infinity();
  }
  return 0.0;
}

/// How an op lies by its rule and assignment, which layers have in common.
struct OpLayout {
  Assignment assignment;
  bool hasPadding = false; ///< some factor is split into parts of which not all are full
  SmallVector<ShardingAttr, 4> operands, results; ///< found where they are asked for first
};

/// Partitions one function.
class FunctionPartitioner {
public:
  FunctionPartitioner(func::FuncOp function, MeshAttr mesh, Resharder &resharder,
                      const RefinementAnalysis &refinement)
      : function(function), mesh(mesh), resharder(resharder), refinement(refinement),
        builder(function.getContext()) {}
  LogicalResult run();

private:
  friend class OpContext;
  func::FuncOp function;
  MeshAttr mesh;
  Resharder &resharder;
  const RefinementAnalysis &refinement;
  OpBuilder builder;
  DenseMap<Value, Local> locals;
  DenseMap<std::pair<Value, Attribute>, Value> resharded, reshardedInTurns;
  llvm::DenseMap<StringAttr, BlockArgument> states; ///< by name
  IRMapping scalars;
  DenseMap<std::pair<const RefinedRule *, Attribute>, std::unique_ptr<OpLayout>> layouts;

  /// The layout `given` (replicated where it is null) of an argument, result or parameter; `emitError` begins
  /// a message.
  FailureOr<ShardingAttr> getBoundarySharding(Attribute given, Type type,
                                              llvm::function_ref<InFlightDiagnostic()> emitError);
  RankedTensorType getLocalType(Type global, ShardingAttr sharding) const {
    return RankedTensorType::get(sharding.getLocalShape(mesh),
                                 cast<RankedTensorType>(global).getElementType());
  }
  /// The local value of `global` in the layout `wanted`. Equal requests share one value.
  FailureOr<Value> bring(Value global, ShardingAttr wanted, Operation *user);
  void markEachTurn(Operation *op);
  /// Whether each turn of the loop does a part of `op`, whose layout is known.
  bool isInLoop(Operation *op);
  /// Whether what `op` makes is of a value that is read in each turn anew, and of nothing that turns differ
  /// in.
  bool isOfEachTurn(Operation *op);
  FailureOr<OpLayout *> getLayout(Operation *op, const RefinedRule &refined);
  LogicalResult partitionOp(ShardingRuleOpInterface op);
  bool isParameterState(BlockArgument argument);
  Value clearPadding(Location loc, Value value, ShardingAttr sharding);
};

/// Builds one op; what its buildLocal sees.
class OpContext : public LocalContext {
public:
  /// `stored`: the layout that the op, a parameter, was given outright; null otherwise.
  OpContext(FunctionPartitioner &parent, Operation *op, const RefinedRule &refined, OpLayout &layout,
            ShardingAttr stored)
      : parent(parent), op(op), refined(refined), layout(layout), assignment(layout.assignment),
        stored(stored) {}
  LogicalResult prepareOperands();

  const FactorRule &rule() const override { return refined.own; }
  MeshAttr mesh() const override { return parent.mesh; }
  Value operand(unsigned i) override { return operands[i]; }
  int64_t localSize(unsigned factor) const override {
    int64_t size = 1;
    for (unsigned part : refined.parts[factor])
      size *= getLocalSize(refined.rule.factors[part].size, assignment[part], parent.mesh);
    return size;
  }
  SmallVector<int64_t> localResultShape(unsigned i) const override {
    return resultSharding(i).getLocalShape(parent.mesh);
  }
  ShardingAttr resultSharding(unsigned i) const override {
    if (stored)
      return stored;
    if (!layout.results[i])
      layout.results[i] = getResultSharding(op, i, refined.rule, assignment);
    return layout.results[i];
  }
  Value getOffset(OpBuilder &builder, unsigned factor) override;
  Value getValidCount(OpBuilder &builder, unsigned factor) override;
  SmallVector<unsigned> axes(unsigned factor) const override {
    SmallVector<unsigned> all;
    for (unsigned part : refined.parts[factor])
      all.append(assignment[part].begin(), assignment[part].end());
    return all;
  }

  Value reduceStatistic(OpBuilder &builder, Value part, ReductionKind reduction) override {
    SmallVector<unsigned> over = stagedAxes();
    return over.empty() ? part : markStatistics(emitAllReduce(builder, op->getLoc(), part, over, reduction));
  }
  Value gatherStatistic(OpBuilder &builder, Value part, int64_t dim) override {
    SmallVector<unsigned> over = stagedAxes();
    int64_t ranks = 1;
    for (unsigned axis : over)
      ranks *= parent.mesh.getAxisSize(axis);
    return over.empty() ? part : markStatistics(emitAllGather(builder, op->getLoc(), part, over, dim, ranks));
  }
  Value fillStagedPadding(OpBuilder &builder, Value value, unsigned i, PaddingFill fill) override {
    return fillPadding(builder, value, i, fill, [](const Factor &factor) { return factor.staged; });
  }

private:
  FunctionPartitioner &parent;
  Operation *op;
  const RefinedRule &refined;
  OpLayout &layout;
  const Assignment &assignment;
  ShardingAttr stored;
  SmallVector<Value> operands;

  /// Elements of `factor` in `outer` elements of its outermost part.
  Value countElements(OpBuilder &builder, Value outer, unsigned factor) const;
  static Value markStatistics(Value value) {
    value.getDefiningOp()->setAttr(kStatisticsAttrName, UnitAttr::get(value.getContext()));
    return value;
  }
  Value bringWindows(unsigned operand, Value value);
  Value maskPadding(unsigned operand, Value value, bool isZeroPadded);
  /// `value`, of the local shape of `operand`, with `fill` in the padding of the factors that `concerns`
  /// names.
  Value fillPadding(OpBuilder &builder, Value value, unsigned operand, PaddingFill fill,
                    llvm::function_ref<bool(const Factor &)> concerns);
};
} // namespace

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

FailureOr<Value> FunctionPartitioner::bring(Value global, ShardingAttr wanted, Operation *user) {
  const Local &local = locals.find(global)->second;
  if (local.sharding == wanted)
    return local.value;
  const bool ofEachTurn = local.ofEachTurn && (isInLoop(user) || user->hasAttr(kEachTurnAttrName));
  auto &known = ofEachTurn ? reshardedInTurns : resharded;
  if (Value brought = known.lookup({global, wanted}))
    return brought;
  if (Value made = emitConstant(builder, global, wanted, mesh))
    return known[{global, wanted}] = made;
  Type element = cast<RankedTensorType>(global.getType()).getElementType();
  // By way of the layout that its uses share, if that leads there.
  Value from = local.value;
  ShardingAttr have = local.sharding;
  if (local.shared && local.shared != have && local.shared != wanted &&
      resharder.find(local.shared, wanted, getElementBytes(element))) {
    FailureOr<Value> shared = bring(global, local.shared, user);
    if (failed(shared))
      return failure();
    from = *shared;
    have = local.shared;
  }
  const ReshardPath *path = resharder.find(have, wanted, getElementBytes(element));
  if (!path) {
    user->emitOpError() << "needs an operand in layout " << wanted << ", which cannot be made of " << have;
    return failure();
  }
  Operation *last = builder.getBlock()->empty() ? nullptr : &builder.getBlock()->back();
  Value brought = emitReshard(builder, global.getLoc(), from, *path);
  if (ofEachTurn)
    markEachTurn(last ? last->getNextNode() : &builder.getBlock()->front());
  return known[{global, wanted}] = brought;
}

/// Marks the first collective from `op` on: what follows depends on it.
void FunctionPartitioner::markEachTurn(Operation *op) {
  for (; op; op = op->getNextNode())
    if (isa<shard::AllGatherOp, shard::AllToAllOp, shard::AllReduceOp, shard::ReduceScatterOp>(op)) {
      op->setAttr(kEachTurnAttrName, builder.getUnitAttr());
      return;
    }
}

LogicalResult OpContext::prepareOperands() {
  for (auto [i, global] : llvm::enumerate(op->getOperands())) {
    if (!isa<RankedTensorType>(global.getType())) {
      operands.push_back(parent.scalars.lookup(global));
      continue;
    }
    if (!layout.operands[i])
      layout.operands[i] = getOperandSharding(op, i, refined.rule, assignment);
    FailureOr<Value> value = parent.bring(global, layout.operands[i], op);
    if (failed(value))
      return failure();
    const Local &local = parent.locals.find(global)->second;
    bool isZeroPadded = local.isZeroPadded || !hasPadding(local.sharding, parent.mesh);
    operands.push_back(maskPadding(i, bringWindows(i, *value), isZeroPadded));
  }
  return success();
}

Value OpContext::bringWindows(unsigned operand, Value value) {
  OpBuilder &builder = parent.builder;
  for (auto [d, dim] : llvm::enumerate(refined.rule.operands[operand])) {
    if (dim.size() != 1 || assignment[dim.front()].empty() ||
        refined.rule.factors[dim.front()].operandSize < 0)
      continue;
    const Factor &factor = refined.rule.factors[dim.front()];
    ArrayRef<unsigned> axes = assignment[dim.front()];
    auto constant = [&](int64_t number) -> Value {
      return arith::ConstantIndexOp::create(builder, op->getLoc(), number);
    };
    ShardRange source = getShardRange(builder, op->getLoc(), factor.operandSize, axes, parent.mesh);
    ShardRange result = getShardRange(builder, op->getLoc(), factor.size, axes, parent.mesh);
    Value first = arith::MulIOp::create(builder, op->getLoc(), result.start, constant(factor.stride));
    first = arith::SubIOp::create(builder, op->getLoc(), first, constant(factor.padLow));
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[d] = (getLocalSize(factor.size, axes, parent.mesh) - 1) * factor.stride + factor.window;
    value =
        ExchangeOp::create(builder, op->getLoc(), type.clone(shape), value, source.start, source.valid, first,
                           d, SmallVector<int64_t>(axes.begin(), axes.end()), APFloat(factor.windowFill));
  }
  return value;
}

Value OpContext::fillPadding(OpBuilder &builder, Value value, unsigned operand, PaddingFill fill,
                             llvm::function_ref<bool(const Factor &)> concerns) {
  if (!layout.hasPadding) // as of nearly all
    return value;
  SmallVector<int64_t> extents, masked;
  SmallVector<Value> valid;
  for (auto [d, dim] : llvm::enumerate(refined.rule.operands[operand])) {
    for (unsigned part : dim) {
      const Factor &factor = refined.rule.factors[part];
      ArrayRef<unsigned> axes = assignment[part];
      // What is read through windows has another size than the factor, and the exchange has filled its
      // padding.
      if (factor.operandSize >= 0) {
        extents.push_back(cast<RankedTensorType>(value.getType()).getDimSize(d));
        continue;
      }
      if (concerns(factor) && isUneven(factor.size, axes, parent.mesh)) {
        masked.push_back(extents.size());
        valid.push_back(getShardRange(builder, op->getLoc(), factor.size, axes, parent.mesh).valid);
      }
      extents.push_back(getLocalSize(factor.size, axes, parent.mesh));
    }
  }
  if (masked.empty())
    return value;
  return MaskPaddingOp::create(builder, op->getLoc(), value.getType(), value, valid, extents, masked,
                               APFloat(getFill(fill)));
}

Value OpContext::maskPadding(unsigned operand, Value value, bool isZeroPadded) {
  // One op per kind of fill (there is hardly ever more than one).
  for (PaddingFill fill : {PaddingFill::Zero, PaddingFill::One, PaddingFill::Lowest, PaddingFill::Highest})
    if (fill != PaddingFill::Zero || !isZeroPadded)
      value = fillPadding(parent.builder, value, operand, fill,
                          [fill](const Factor &factor) { return factor.padding == fill; });
  return value;
}

Value OpContext::getOffset(OpBuilder &builder, unsigned factor) {
  unsigned outermost = refined.parts[factor].front();
  if (assignment[outermost].empty())
    return {};
  int64_t size = refined.rule.factors[outermost].size;
  Value start = getShardRange(builder, op->getLoc(), size, assignment[outermost], parent.mesh).start;
  return countElements(builder, start, factor);
}

Value OpContext::getValidCount(OpBuilder &builder, unsigned factor) {
  unsigned outermost = refined.parts[factor].front();
  int64_t size = refined.rule.factors[outermost].size;
  if (!isUneven(size, assignment[outermost], parent.mesh))
    return {};
  Value valid = getShardRange(builder, op->getLoc(), size, assignment[outermost], parent.mesh).valid;
  return countElements(builder, valid, factor);
}

Value OpContext::countElements(OpBuilder &builder, Value outer, unsigned factor) const {
  int64_t inner = refined.own.factors[factor].size / refined.rule.factors[refined.parts[factor].front()].size;
  if (inner == 1)
    return outer;
  return arith::MulIOp::create(builder, op->getLoc(), outer,
                               arith::ConstantIndexOp::create(builder, op->getLoc(), inner));
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

FailureOr<ShardingAttr>
FunctionPartitioner::getBoundarySharding(Attribute given, Type type,
                                         llvm::function_ref<InFlightDiagnostic()> emitError) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape()) {
    emitError() << "has type " << type << ", expected a ranked tensor of static shape";
    return failure();
  }
  if (!given)
    return ShardingAttr::getReplicated(function.getContext(), tensor.getShape());
  auto sharding = dyn_cast<ShardingAttr>(given);
  if (!sharding || ArrayRef<int64_t>(sharding.getGlobalShape()) != tensor.getShape() ||
      sharding.isPartial()) {
    emitError() << "has layout " << given << ", expected one of " << type << " without partial axes";
    return failure();
  }
  for (DimShardingAttr dim : sharding.getDims())
    for (FactorShardAttr factor : dim.getFactors())
      for (unsigned axis : factor.getAxes())
        if (axis >= mesh.getNumAxes()) {
          emitError() << "has layout " << given << ", which names an axis that the mesh " << mesh << " lacks";
          return failure();
        }
  return sharding;
}

FailureOr<OpLayout *> FunctionPartitioner::getLayout(Operation *op, const RefinedRule &refined) {
  std::unique_ptr<OpLayout> &known = layouts[{&refined, op->getAttr(kAssignmentAttrName)}];
  if (!known) {
    FailureOr<Assignment> assignment = getAssignment(op, refined.rule, mesh);
    if (failed(assignment))
      return failure();
    known = std::make_unique<OpLayout>();
    known->assignment = std::move(*assignment);
    for (auto [factor, axes] : llvm::zip_equal(refined.rule.factors, known->assignment))
      known->hasPadding |= isUneven(factor.size, axes, mesh);
    known->operands.resize(refined.rule.operands.size());
    known->results.resize(refined.rule.results.size());
  }
  return known.get();
}

bool FunctionPartitioner::isInLoop(Operation *op) {
  const int64_t loop = mesh.getLoopAxis();
  if (loop < 0 || !isa<ShardingRuleOpInterface>(op))
    return false;
  FailureOr<OpLayout *> layout = getLayout(op, refinement.get(op));
  return succeeded(layout) && llvm::any_of((*layout)->assignment, [&](const auto &axes) {
           return llvm::is_contained(axes, static_cast<unsigned>(loop));
         });
}

bool FunctionPartitioner::isOfEachTurn(Operation *op) {
  if (mesh.getLoopAxis() < 0 || isInLoop(op))
    return false;
  return op->hasAttr(kEachTurnAttrName) || llvm::any_of(op->getOperands(), [&](Value operand) {
           auto known = locals.find(operand);
           return known != locals.end() && known->second.ofEachTurn;
         });
}

LogicalResult FunctionPartitioner::partitionOp(ShardingRuleOpInterface op) {
  const RefinedRule &refined = refinement.get(op);
  FailureOr<OpLayout *> layout = getLayout(op, refined);
  if (failed(layout))
    return failure();
  ShardingAttr stored;
  if (Attribute given = op->getAttr(kShardingAttrName); given && isa<ParameterOp>(op)) {
    FailureOr<ShardingAttr> checked =
        getBoundarySharding(given, op->getResult(0).getType(), [&] { return op->emitOpError(); });
    if (failed(checked))
      return failure();
    stored = *checked;
  }
  // It speaks of the global values, so the local op shall not have it.
  SmallVector<ShardingAttr> shared = llvm::map_to_vector(op->getResults(), getSharedLayout);
  if (op->hasAttr(kSharedAttrName))
    op->removeAttr(kSharedAttrName);
  const bool ofEachTurn = isOfEachTurn(op);
  OpContext context(*this, op, refined, **layout, stored);
  if (failed(context.prepareOperands()))
    return failure();
  if (op->hasAttr(kEachTurnAttrName))
    op->removeAttr(kEachTurnAttrName);
  FailureOr<SmallVector<Value>> results = op.buildLocal(builder, context);
  if (failed(results))
    return failure();
  auto elementwise = dyn_cast<ElementwiseOp>(op.getOperation());
  const bool isCast = elementwise && elementwise.getKind() == ElementwiseKind::Cast;
  const bool isMark = isa<ReshapeOp>(op) && op->getOperand(0).getType() == op->getResult(0).getType();
  const bool isZeroPadded =
      isa<ParameterOp>(op) || ((isCast || isMark) && locals.find(op->getOperand(0))->second.isZeroPadded);
  for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(op->getResults(), *results))) {
    auto [global, value] = pair;
    ShardingAttr sharding = context.resultSharding(i);
    if (value.getType() != getLocalType(global.getType(), sharding))
      return op->emitOpError() << "gave a local result of type " << value.getType() << ", its layout "
                               << sharding << " asks for " << getLocalType(global.getType(), sharding);
    locals[global] = {value, sharding, isZeroPadded, shared[i], ofEachTurn};
  }
  return success();
}

/// Moves an index value, and what it is made of, before `op`, if they stand behind it in its block.
static void moveBefore(Operation *op, Value index) {
  Operation *maker = index.getDefiningOp();
  if (!maker || maker->getBlock() != op->getBlock() || maker->isBeforeInBlock(op))
    return;
  maker->moveBefore(op);
  for (Value operand : maker->getOperands())
    moveBefore(maker, operand);
}

/// Where the masked value is stored, for a product or beside a result of the function, all read that one:
/// nobody asks what is in the padding of the other, which then need not be stored beside.
static void shareMasked(MaskPaddingOp mask) {
  Value value = mask.getInput();
  Operation *maker = value.getDefiningOp();
  const bool isStored = llvm::any_of(mask->getUsers(), llvm::IsaPred<ContractOp>) ||
                        (llvm::any_of(value.getUsers(), llvm::IsaPred<func::ReturnOp>) && !mask.use_empty() &&
                         !mask->hasOneUse());
  if (!maker || value.hasOneUse() || !isStored || llvm::any_of(value.getUsers(), [&](Operation *user) {
        return isa<MaskPaddingOp>(user) && user != mask;
      }))
    return;
  mask->moveAfter(maker);
  for (Value valid : mask.getValid())
    moveBefore(mask, valid);
  value.replaceAllUsesExcept(mask.getResult(), mask);
}

/// Whether an argument is a parameter that is trained: it begins with zeros in its padding, and each new
/// value is given them too, so that nobody who reads it has to.
bool FunctionPartitioner::isParameterState(BlockArgument argument) {
  auto info = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), kStateInfoAttrName);
  auto kind = info ? info.getAs<StringAttr>("kind") : StringAttr();
  return kind && kind.getValue() == "parameter";
}

/// `value`, which lies as `sharding` says, with zeros in its padding.
Value FunctionPartitioner::clearPadding(Location loc, Value value, ShardingAttr sharding) {
  SmallVector<int64_t> extents, masked;
  SmallVector<Value> valid;
  for (DimShardingAttr dim : sharding.getDims())
    for (FactorShardAttr factor : dim.getFactors()) {
      if (isUneven(factor.getSize(), factor.getAxes(), mesh)) {
        masked.push_back(extents.size());
        valid.push_back(getShardRange(builder, loc, factor.getSize(), factor.getAxes(), mesh).valid);
      }
      extents.push_back(getLocalSize(factor.getSize(), factor.getAxes(), mesh));
    }
  if (masked.empty())
    return value;
  return MaskPaddingOp::create(builder, loc, value.getType(), value, valid, extents, masked, APFloat(0.0));
}

LogicalResult FunctionPartitioner::run() {
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "expected a function of one block";
  Block &body = function.front();
  auto terminator = dyn_cast<func::ReturnOp>(body.getTerminator());
  if (!terminator)
    return body.getTerminator()->emitOpError() << "cannot end a function that is partitioned";
  SmallVector<ShardingAttr> resultShardings;
  SmallVector<Type> argumentTypes, resultTypes;
  BoundaryAttrs boundary(function);
  auto twin = std::make_unique<Block>();
  builder.setInsertionPointToStart(twin.get());
  for (BlockArgument argument : body.getArguments()) {
    unsigned i = argument.getArgNumber();
    FailureOr<ShardingAttr> sharding =
        getBoundarySharding(function.getArgAttr(i, kShardingAttrName), argument.getType(),
                            [&] { return function.emitError() << "argument #" << i << " "; });
    if (failed(sharding))
      return failure();
    argumentTypes.push_back(getLocalType(argument.getType(), *sharding));
    locals[argument] = {twin->addArgument(argumentTypes.back(), argument.getLoc()), *sharding,
                        isParameterState(argument), getSharedLayout(argument)};
    if (auto name = function.getArgAttrOfType<StringAttr>(i, kStateAttrName))
      states[name] = argument;
    boundary.removeArgument(i, kSharedAttrName);
    boundary.setArgument(i, kShardingAttrName, *sharding);
  }
  for (auto [i, value] : llvm::enumerate(terminator.getOperands())) {
    FailureOr<ShardingAttr> sharding =
        getBoundarySharding(function.getResultAttr(i, kShardingAttrName), value.getType(),
                            [&, i = i] { return function.emitError() << "result #" << i << " "; });
    if (failed(sharding))
      return failure();
    resultShardings.push_back(*sharding);
    resultTypes.push_back(getLocalType(value.getType(), *sharding));
    boundary.setResult(i, kShardingAttrName, *sharding);
  }
  boundary.apply();
  for (Operation &op : body.without_terminator()) {
    if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
      if (failed(partitionOp(ruled)))
        return failure();
      continue;
    }
    auto isScalar = [](Type type) { return !isa<ShapedType>(type); };
    if (!llvm::all_of(op.getOperandTypes(), isScalar) || !llvm::all_of(op.getResultTypes(), isScalar))
      return op.emitOpError() << "has no sharding rule and cannot be partitioned";
    builder.clone(op, scalars);
  }
  SmallVector<Value> results;
  for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(terminator.getOperands(), resultShardings))) {
    auto [global, sharding] = pair;
    FailureOr<Value> value = bring(global, sharding, terminator);
    if (failed(value))
      return failure();
    auto state = function.getResultAttrOfType<StringAttr>(i, kStateAttrName);
    if (BlockArgument old = state ? states.lookup(state) : BlockArgument();
        old && locals.find(old)->second.isZeroPadded && !locals.find(global)->second.isZeroPadded)
      *value = clearPadding(terminator.getLoc(), *value, sharding);
    results.push_back(*value);
  }
  func::ReturnOp::create(builder, terminator.getLoc(), results);
  for (Operation &op : llvm::make_early_inc_range(*twin))
    if (auto mask = dyn_cast<MaskPaddingOp>(op))
      shareMasked(mask);
  // Offsets, extents and constants that nobody asked for.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*twin)))
    if (isOpTriviallyDead(&op) &&
        (isa<ConstantOp>(op) || llvm::all_of(op.getResultTypes(), [](Type type) { return type.isIndex(); })))
      op.erase();
  function.getBody().dropAllReferences();
  function.getBody().getBlocks().clear();
  function.getBody().push_back(twin.release());
  function.setFunctionType(builder.getFunctionType(argumentTypes, resultTypes));
  return success();
}

LogicalResult colossal::partition::partition(ModuleOp module, Resharder *resharder,
                                             RefinementOf refinementOf) {
  MeshAttr mesh = getMesh(module);
  Resharder own(mesh);
  (resharder ? *resharder : own).setScattersInTurns(scattersInTurns(module));
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  for (func::FuncOp function : functions) {
    if (function.isExternal())
      return function.emitError() << "a function without a body cannot be partitioned";
    std::optional<RefinementAnalysis> made;
    const RefinementAnalysis &refinement = refinementOf ? refinementOf(function) : made.emplace(function);
    if (failed(FunctionPartitioner(function, mesh, resharder ? *resharder : own, refinement).run()))
      return failure();
  }
  module->setAttr(kMeshAttrName, mesh);
  if (!module.lookupSymbol(kGridName)) {
    SmallVector<int64_t> shape;
    for (MeshAxisAttr axis : mesh.getAxes())
      shape.push_back(axis.getSize());
    if (shape.empty())
      shape.push_back(1);
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    shard::GridOp::create(builder, module.getLoc(), kGridName, shape);
  }
  return success();
}
