//===- LossParts.cpp - a loss for some of its rows at a time ----------------===//
//
// Logits over a vocabulary are often the largest tensor of a step, and their gradient is as large. A row of
// them needs no other: from the product that makes them to those that their gradient enters, all is done for
// some rows at a time. What comes out of it for each row is put together, and what is a sum over rows is
// added up.
//
//===----------------------------------------------------------------------===//
#include "colossal/FactorGraph/LossParts.h"
#include "colossal/Partition/Partition.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/OpComposer.h"
#include "dialects/Dist/FactorRule.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

namespace colossal::partition {
#define GEN_PASS_DEF_LOSSPARTS
#include "colossal/Partition/Passes.h.inc"
} // namespace colossal::partition

namespace {

/// What the ops of a region know of the rows that it is cut by.
struct RowOp {
  int factor = -1; ///< of the op's rule; none in a collective, which treats each element for itself
  FactorRule rule;
};

/// Builds an op for one part of its rows.
class PartContext : public LocalContext {
public:
  PartContext(Operation *op, const RowOp &row, int64_t parts, SmallVector<Value> operands)
      : op(op), row(row), parts(parts), operands(std::move(operands)) {}

  const FactorRule &rule() const override { return row.rule; }
  MeshAttr mesh() const override { return getMesh(op->getParentOfType<ModuleOp>()); }
  Value operand(unsigned i) override { return operands[i]; }
  int64_t localSize(unsigned factor) const override {
    const int64_t size = row.rule.factors[factor].size;
    return static_cast<int>(factor) == row.factor ? size / parts : size;
  }
  SmallVector<int64_t> localResultShape(unsigned i) const override {
    SmallVector<int64_t> shape(cast<RankedTensorType>(op->getResult(i).getType()).getShape());
    for (auto [size, dim] : llvm::zip_equal(shape, row.rule.results[i]))
      if (llvm::is_contained(dim, static_cast<unsigned>(row.factor)))
        size /= parts;
    return shape;
  }
  ShardingAttr resultSharding(unsigned i) const override {
    return ShardingAttr::getReplicated(op->getContext(), localResultShape(i));
  }
  // No rank lies elsewhere than before: what is whole for this op stays so.
  Value getOffset(OpBuilder &, unsigned) override { return {}; }
  Value getValidCount(OpBuilder &, unsigned) override { return {}; }
  SmallVector<unsigned> axes(unsigned) const override { return {}; }
  Value reduceStatistic(OpBuilder &, Value part, ReductionKind) override { return part; }
  Value gatherStatistic(OpBuilder &, Value part, int64_t) override { return part; }
  Value fillStagedPadding(OpBuilder &, Value value, unsigned, PaddingFill) override { return value; }

private:
  Operation *op;
  const RowOp &row;
  int64_t parts;
  SmallVector<Value> operands;
};

/// What hangs on one product whose result is much wider than its rows.
class WideRegion {
public:
  WideRegion(ContractOp seed, unsigned rowFactor, int64_t parts)
      : seed(seed), rowFactor(rowFactor), parts(parts),
        wide(cast<RankedTensorType>(seed.getType()).getNumElements() / 4) {}
  /// Whether all of it can be done part by part.
  bool find();
  /// What it erases joins `gone`.
  LogicalResult cut(llvm::DenseSet<Operation *> &gone);
  /// What it makes that has as many classes as the product: by value, the dimension that is cut.
  llvm::MapVector<Value, unsigned> listWide() const;

private:
  bool isWide(Value value) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getNumElements() >= wide;
  }
  bool isOwn(Value value) const { return value.getDefiningOp() && ops.contains(value.getDefiningOp()); }
  bool isUsedOutside(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) { return !ops.contains(user); });
  }
  /// The dimension of what it reads that is cut, or -1.
  int findRowsOf(Operation *op, unsigned operand) const;
  /// Takes `op` in, where the rows of what it reads are one factor, and says where its results have it.
  bool track(Operation *op);
  bool settle(Operation *op, RowOp row);
  /// Leaves out what only reads rows that all parts have made.
  void trim();
  /// Takes in what makes something wide of something narrow that it reads, as comparing labels with classes.
  bool pull();
  bool isConvex();
  Value slice(Value value, unsigned dim, int64_t part);
  /// `op` for one part, of which `operands` are.
  FailureOr<SmallVector<Value>> build(Operation *op, SmallVector<Value> operands, OpBuilder &builder);

  ContractOp seed;
  unsigned rowFactor;
  int64_t parts, wide;
  llvm::MapVector<Operation *, RowOp> ops;
  SmallVector<Operation *> order;       ///< of `ops`, that of the block
  llvm::DenseSet<Operation *> pulled;   ///< of them; others may read these as well
  llvm::DenseMap<Value, unsigned> rows; ///< the dimension that is cut, of what it makes
  llvm::DenseMap<std::pair<Value, int64_t>, Value> slices;
  SmallVector<Operation *> late; ///< between its ops, but made of what it gives
};

} // namespace

/// Where `tensor` has `factor`, outermost in a dimension, so that a part of it is one range; -1: nowhere, -2:
/// in another way.
static int findRows(const TensorFactors &tensor, unsigned factor) {
  int found = -1;
  for (auto [d, dim] : llvm::enumerate(tensor))
    if (llvm::is_contained(dim, factor))
      found = found == -1 && dim.front() == factor ? static_cast<int>(d) : -2;
  return found;
}

int WideRegion::findRowsOf(Operation *op, unsigned operand) const {
  const RowOp &row = ops.find(op)->second;
  if (row.factor >= 0)
    return findRows(row.rule.operands[operand], row.factor);
  return operand == 0 ? static_cast<int>(rows.lookup(op->getResult(0))) : -1;
}

bool WideRegion::settle(Operation *op, RowOp row) {
  const Factor &factor = row.rule.factors[row.factor];
  if (factor.size % parts != 0 || factor.indexed || factor.staged || factor.operandSize >= 0 ||
      (factor.kind != FactorKind::Parallel && factor.kind != FactorKind::Reduction))
    return false;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    const int dim = findRows(row.rule.operands[i], row.factor);
    auto known = rows.find(operand);
    if (dim == -2 || (known != rows.end() && static_cast<int>(known->second) != dim))
      return false;
  }
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    const int dim = findRows(row.rule.results[i], row.factor);
    if (dim == -2 ||
        (dim == -1 && (factor.kind != FactorKind::Reduction || factor.reduction != ReductionKind::Sum)))
      return false;
    if (dim >= 0)
      rows[result] = dim;
  }
  ops.insert({op, std::move(row)});
  return true;
}

bool WideRegion::track(Operation *op) {
  if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
    RowOp row{-1, ruled.getFactorRule()};
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      auto known = rows.find(operand);
      if (known == rows.end())
        continue;
      const DimFactors &dim = row.rule.operands[i][known->second];
      if (dim.empty() || (row.factor >= 0 && row.factor != static_cast<int>(dim.front())))
        return false;
      row.factor = static_cast<int>(dim.front());
    }
    return settle(op, std::move(row));
  }
  // Ranks join what they have of each row, or fill what pads it.
  if (!isa<shard::AllReduceOp, MaskPaddingOp>(op))
    return false;
  const unsigned dim = rows.lookup(op->getOperand(0));
  if (auto mask = dyn_cast<MaskPaddingOp>(op))
    if (mask.getExtents() != cast<RankedTensorType>(mask.getType()).getShape() ||
        llvm::is_contained(mask.getMasked(), static_cast<int64_t>(dim)))
      return false;
  rows[op->getResult(0)] = dim;
  ops.insert({op, {}});
  return true;
}

bool WideRegion::find() {
  constexpr size_t kMostOps = 256;
  RowOp first{static_cast<int>(rowFactor), cast<ShardingRuleOpInterface>(*seed).getFactorRule()};
  if (!settle(seed, std::move(first)) || !rows.contains(seed.getResult()))
    return false;
  for (Operation *op = seed->getNextNode(); op; op = op->getNextNode()) {
    bool reads = false, readsWide = false;
    for (Value operand : op->getOperands()) {
      // What another product makes is not followed: it is there when all parts are.
      const bool isFollowed =
          rows.contains(operand) && (operand.getDefiningOp() == seed || !operand.getDefiningOp<ContractOp>());
      reads |= isFollowed;
      readsWide |= isFollowed && isWide(operand);
    }
    if (reads && (ops.size() >= kMostOps || !track(op)) && readsWide)
      return false;
  }
  trim();
  if (ops.size() < 2 || !pull())
    return false;
  for (auto &[op, row] : ops)
    order.push_back(op);
  llvm::sort(order, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return isConvex();
}

void WideRegion::trim() {
  llvm::DenseSet<Operation *> kept;
  for (auto &[op, row] : llvm::reverse(ops))
    if (op == seed ||
        llvm::any_of(op->getOperands(),
                     [&](Value operand) { return rows.contains(operand) && isWide(operand); }) ||
        llvm::any_of(op->getUsers(), [&](Operation *user) { return kept.contains(user); }))
      kept.insert(op);
  ops.remove_if([&](const auto &entry) { return !kept.contains(entry.first); });
}

bool WideRegion::pull() {
  SmallVector<Operation *> open;
  for (auto &[op, row] : ops)
    open.push_back(op);
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      Value operand = op->getOperand(i);
      const int dim = isa<RankedTensorType>(operand.getType()) ? findRowsOf(op, i) : -1;
      if (dim < 0 || isOwn(operand) || !isWide(operand))
        continue;
      auto maker = dyn_cast_or_null<ShardingRuleOpInterface>(operand.getDefiningOp());
      if (!maker || isa<ContractOp>(*maker) || maker->getNumResults() != 1 || maker->getNumOperands() == 0)
        return false;
      RowOp row{-1, maker.getFactorRule()};
      const DimFactors &factors = row.rule.results[0][dim];
      if (factors.empty())
        return false;
      row.factor = static_cast<int>(factors.front());
      if (!settle(maker, std::move(row)))
        return false;
      pulled.insert(maker);
      open.push_back(maker);
    }
  }
  return true;
}

/// Whether nothing that it reads is made of what it gives; and nothing that it gives is wide.
bool WideRegion::isConvex() {
  llvm::DenseSet<Value> given;
  for (Operation *op = order.front();; op = op->getNextNode()) {
    const bool isInside = ops.contains(op);
    bool isGiven = false;
    for (Value operand : op->getOperands()) {
      // A sum over rows is not complete in a part.
      if (isInside && (given.contains(operand) || (isOwn(operand) && !rows.contains(operand))))
        return false;
      isGiven |= !isInside &&
                 ((isOwn(operand) && !pulled.contains(operand.getDefiningOp())) || given.contains(operand));
    }
    if (isGiven) {
      given.insert(op->result_begin(), op->result_end());
      late.push_back(op);
    }
    if (isInside && !pulled.contains(op))
      for (Value result : op->getResults())
        if (rows.contains(result) && isWide(result) && isUsedOutside(result))
          return false;
    if (op == order.back())
      return true;
  }
}

Value WideRegion::slice(Value value, unsigned dim, int64_t part) {
  Value &known = slices[{value, part}];
  if (!known) {
    const int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(dim) / parts;
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    known = OpComposer(builder, value.getLoc()).slice(value, dim, part * size, size);
  }
  return known;
}

FailureOr<SmallVector<Value>> WideRegion::build(Operation *op, SmallVector<Value> operands,
                                                OpBuilder &builder) {
  if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
    PartContext context(op, ops.find(op)->second, parts, std::move(operands));
    return ruled.buildLocal(builder, context);
  }
  Operation *own = builder.clone(*op);
  own->setOperands(operands);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[rows.lookup(op->getResult(0))] /= parts;
  own->getResult(0).setType(type.clone(shape));
  if (auto mask = dyn_cast<MaskPaddingOp>(own))
    mask.setExtents(shape);
  return SmallVector<Value>{own->getResult(0)};
}

LogicalResult WideRegion::cut(llvm::DenseSet<Operation *> &gone) {
  OpBuilder builder(seed.getContext());
  builder.setInsertionPointAfter(order.back());
  std::vector<IRMapping> made(parts);
  llvm::DenseMap<Value, Value> whole;
  for (int64_t part = 0; part < parts; ++part)
    for (Operation *op : order) {
      SmallVector<Value> operands;
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
        const int dim = isa<RankedTensorType>(operand.getType()) ? findRowsOf(op, i) : -1;
        operands.push_back(dim < 0          ? operand
                           : isOwn(operand) ? made[part].lookup(operand)
                                            : slice(operand, dim, part));
      }
      FailureOr<SmallVector<Value>> results = build(op, std::move(operands), builder);
      if (failed(results))
        return failure();
      for (auto [result, value] : llvm::zip_equal(op->getResults(), *results)) {
        made[part].map(result, value);
        if (rows.contains(result) || !isUsedOutside(result))
          continue;
        Value &sum = whole[result];
        sum = sum ? OpComposer(builder, op->getLoc()).add(sum, value) : value;
      }
    }
  for (Operation *op : order)
    for (Value result : op->getResults()) {
      if (pulled.contains(op) || !isUsedOutside(result))
        continue;
      Value &all = whole[result];
      if (!all) {
        SmallVector<Value> pieces;
        for (const IRMapping &mapping : made)
          pieces.push_back(mapping.lookup(result));
        all = OpComposer(builder, op->getLoc()).concat(pieces, rows.lookup(result));
      }
      result.replaceUsesWithIf(all, [&](OpOperand &use) { return !ops.contains(use.getOwner()); });
    }
  // What is made of what the parts give stands behind them, in the order that it had.
  Operation *behind = &*std::prev(builder.getInsertionPoint());
  for (Operation *op : late) {
    op->moveAfter(behind);
    behind = op;
  }
  for (Operation *op : llvm::reverse(order))
    if (op->use_empty()) {
      gone.insert(op);
      op->erase();
    }
  return success();
}

/// In how many parts, and by which factor of its rows, what hangs on `seed` may be cut, most parts first.
static SmallVector<std::pair<int64_t, unsigned>> findWays(ContractOp seed) {
  FactorRule rule = cast<ShardingRuleOpInterface>(*seed).getFactorRule();
  auto type = cast<RankedTensorType>(seed.getType());
  SmallVector<unsigned> rowFactors;
  int64_t count = 1;
  for (const DimFactors &dim : rule.results[0])
    for (unsigned factor : dim)
      if (holds(rule.operands[0], factor) && !holds(rule.operands[1], factor)) {
        rowFactors.push_back(factor);
        count *= rule.factors[factor].size;
      }
  const double bytes = static_cast<double>(type.getNumElements()) * getElementBytes(type.getElementType());
  SmallVector<std::pair<int64_t, unsigned>> ways;
  for (unsigned factor : rowFactors)
    if (const int64_t parts =
            factors::lossParts(rule.factors[factor].size, static_cast<double>(count), bytes);
        parts > 1)
      ways.emplace_back(parts, factor);
  llvm::stable_sort(ways, [](const auto &a, const auto &b) { return a.first > b.first; });
  return ways;
}

/// Cuts what hangs on `seed` by that of its rows' factors which gives the parts that are wanted, or the next
/// best. What is erased joins `gone`.
static LogicalResult cutLoss(ContractOp seed, llvm::DenseSet<Operation *> &gone) {
  for (auto [parts, factor] : findWays(seed))
    if (WideRegion region(seed, factor, parts); region.find())
      return region.cut(gone);
  return success();
}

llvm::MapVector<Value, unsigned> WideRegion::listWide() const {
  ContractOp product = seed;
  const int64_t classes = cast<RankedTensorType>(product.getType()).getShape().back();
  llvm::MapVector<Value, unsigned> wideValues;
  for (Operation *op : order)
    for (Value result : op->getResults())
      if (auto known = rows.find(result); known != rows.end() && isWide(result))
        if (ArrayRef<int64_t> shape = cast<RankedTensorType>(result.getType()).getShape();
            shape.back() == classes && known->second + 1 < shape.size())
          wideValues.insert(*known);
  return wideValues;
}

llvm::MapVector<Value, unsigned> partition::findLossValues(func::FuncOp function) {
  llvm::MapVector<Value, unsigned> found;
  if (function->hasAttr(kRoleAttrName))
    for (auto seed : function.getOps<ContractOp>())
      for (auto [parts, factor] : findWays(seed)) {
        // Into how many, shards tell.
        WideRegion region(seed, factor, /*parts=*/1);
        if (!region.find())
          continue;
        for (auto [value, dim] : region.listWide())
          found.insert({value, dim});
        break;
      }
  return found;
}

namespace {
struct LossPartsPass : partition::impl::LossPartsBase<LossPartsPass> {
  void runOnOperation() override {
    for (ModuleOp stage : getStages(getOperation()))
      for (auto function : stage.getOps<func::FuncOp>())
        if (function->hasAttr(kRoleAttrName) && failed(cutLosses(function)))
          return signalPassFailure();
  }

  static LogicalResult cutLosses(func::FuncOp function) {
    llvm::DenseSet<Operation *> gone;
    for (auto op : llvm::to_vector(function.getOps<ContractOp>()))
      if (!gone.contains(op) && failed(cutLoss(op, gone)))
        return failure();
    return success();
  }
};
} // namespace

std::unique_ptr<Pass> partition::createLossPartsPass() {
  return std::make_unique<LossPartsPass>();
}
