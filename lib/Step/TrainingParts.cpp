//===- TrainingParts.cpp - where the rest of a training step stands ----------===//
//
// Only the forward pass is cut; all else of a step follows from that.
//
//===----------------------------------------------------------------------===//
#include "StageChain.h"

#include "colossal/Partition/Partition.h"
#include "colossal/Partition/Refinement.h"
#include "dialects/Dist/State.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

StringAttr Chain::getState(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  func::FuncOp own = function;
  return argument ? own.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kStateAttrName) : StringAttr();
}

/// Ops whose results turns of the loop add up: the loop axis lies on what they sum over.
static llvm::DenseSet<Operation *> findSums(func::FuncOp function) {
  llvm::DenseSet<Operation *> sums;
  MeshAttr mesh = getMesh(function->getParentOfType<ModuleOp>());
  if (mesh.getLoopAxis() < 0)
    return sums;
  RefinementAnalysis refinement(function);
  for (Operation &op : function.front().without_terminator()) {
    if (!op.hasAttr(kAssignmentAttrName))
      continue;
    const FactorRule &rule = refinement.get(&op).rule;
    FailureOr<Assignment> assignment = getAssignment(&op, rule, mesh);
    if (failed(assignment))
      continue;
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, *assignment))
      if (factor.kind == FactorKind::Reduction &&
          llvm::is_contained(axes, static_cast<unsigned>(mesh.getLoopAxis())))
        sums.insert(&op);
  }
  return sums;
}

void Chain::findKinds() {
  const llvm::DenseSet<Operation *> sums = findSums(function);
  for (Operation &op : function.front().without_terminator()) {
    const bool needsTotal = llvm::any_of(op.getOperands(), [&](Value operand) {
      return operand.getDefiningOp() && totals.contains(operand.getDefiningOp());
    });
    if (needsTotal || sums.contains(&op))
      totals.insert(&op);
    auto unit = op.getAttrOfType<IntegerAttr>(kUnitAttrName);
    const bool isFirst = unit && numbered.try_emplace(unit.getInt(), &op).second;
    kinds[&op] = needsTotal || op.hasAttr(kUpdateAttrName)               ? Kind::Closing
                 : op.hasAttr(kGradientOfAttrName) || (unit && !isFirst) ? Kind::Backward
                                                                         : Kind::Forward;
  }
}

std::vector<double> Chain::sumSeconds(const std::vector<double> &ofUnits) const {
  std::vector<double> sums(parts, 0);
  for (auto [op, seconds] : llvm::zip_equal(chain, ofUnits))
    sums[partOf.lookup(op)] += seconds;
  return sums;
}

void Chain::placeBackward(Operation *op) {
  auto isCopy = [](Operation *other) { return other->hasAttr(kUnitAttrName); };
  auto unitOf = [&](Operation *other) {
    auto unit = other->getAttrOfType<IntegerAttr>(isCopy(other) ? kUnitAttrName : kGradientOfAttrName);
    return numbered.lookup(unit ? unit.getInt() : -1);
  };
  Operation *original = unitOf(op);
  auto known = partOf.find(original);
  int part = known == partOf.end() ? static_cast<int>(pipeline.getBackward(parts - 1))
                                   : static_cast<int>(pipeline.getBackward(known->second));
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *def = operand.get().getDefiningOp();
    if (!def || roles.lookup(def) != Role::Chain)
      continue;
    // What an earlier stage would compute again comes too late here: this stage has got it before. The last
    // part has just computed it; made again, it would be kept for the gradients of weights, where these are a
    // pass of their own.
    const bool isAgain = kinds.lookup(def) == Kind::Backward && isCopy(def);
    if (isAgain &&
        (partOf.lookup(def) > part || (pipeline.splits && partOf.lookup(unitOf(def)) == parts - 1)))
      operand.set(unitOf(def)->getResult(cast<OpResult>(operand.get()).getResultNumber()));
    else
      part = std::max(part, partOf.lookup(def));
  }
  partOf[op] = part;
}

/// The summands of a sum of two that others may be summands of alone.
static void findSummands(Operation *sum, const llvm::DenseSet<Operation *> &inner,
                         SmallVectorImpl<Value> &summands) {
  for (Value operand : sum->getOperands())
    if (Operation *def = operand.getDefiningOp(); def && inner.contains(def))
      findSummands(def, inner, summands);
    else
      summands.push_back(operand);
}

void Chain::regroupSums(SmallVectorImpl<Operation *> &closing, llvm::DenseMap<Operation *, int64_t> &stageOf,
                        llvm::function_ref<int64_t(Value)> getStage) {
  const llvm::DenseSet<Operation *> known(closing.begin(), closing.end());
  llvm::DenseSet<Operation *> inner;
  auto isSum = [](Operation *op) {
    auto sum = dyn_cast<ElementwiseOp>(op);
    return sum && sum.getKind() == ElementwiseKind::Add &&
           cast<RankedTensorType>(sum.getType()).getRank() > 0 &&
           llvm::all_of(sum->getOperands(), [&](Value v) { return v.getType() == sum.getType(); });
  };
  for (Operation *op : closing)
    if (isSum(op) && op->hasOneUse() && known.contains(*op->user_begin()) && isSum(*op->user_begin()))
      inner.insert(op);
  SmallVector<Operation *> regrouped;
  SmallVector<Operation *> gone;
  for (Operation *op : closing) {
    SmallVector<Value> summands;
    if (isSum(op) && !inner.contains(op))
      findSummands(op, inner, summands);
    llvm::MapVector<int64_t, SmallVector<Value>> ofStages;
    for (Value summand : summands)
      ofStages[getStage(summand)].push_back(summand);
    if (ofStages.size() > 1 && ofStages.size() < summands.size() && !ofStages.contains(-1)) {
      auto add = [&](ValueRange values, int64_t stage) {
        OpBuilder b(op);
        Operation *sum = ElementwiseOp::create(b, op->getLoc(), values.front().getType(),
                                               ElementwiseKind::Add, values, DenseF64ArrayAttr());
        roles[sum] = Role::Chain;
        kinds[sum] = Kind::Closing;
        names[sum] = names.lookup(op);
        if (totals.contains(op))
          totals.insert(sum);
        stageOf[sum] = stage;
        order.insert(llvm::find(order, op), sum);
        regrouped.push_back(sum);
        return sum->getResult(0);
      };
      SmallVector<Value> sums;
      for (auto &[stage, values] : ofStages) {
        Value sum = values.front();
        for (Value value : ArrayRef(values).drop_front())
          sum = add({sum, value}, stage);
        sums.push_back(sum);
      }
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp(); def && inner.contains(def))
          gone.push_back(def);
      Value sum = sums.front();
      for (Value value : ArrayRef(sums).drop_front().drop_back())
        sum = add({sum, value}, stageOf.lookup(op));
      op->setOperands({sum, sums.back()});
    }
    regrouped.push_back(op);
  }
  while (!gone.empty()) { // sums whose summands others have now
    Operation *sum = gone.pop_back_val();
    for (Value operand : sum->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && inner.contains(def))
        gone.push_back(def);
    llvm::erase(regrouped, sum);
    llvm::erase(order, sum);
    stageOf.erase(sum);
    roles.erase(sum);
    kinds.erase(sum);
    names.erase(sum);
    totals.erase(sum);
    sum->erase();
  }
  closing.assign(regrouped.begin(), regrouped.end());
}

/// Of what is behind the microbatches, the stage comes first, then the level.
void Chain::placeClosing() {
  llvm::DenseMap<Operation *, int64_t> stageOf;
  llvm::DenseMap<StringAttr, int64_t> stageOfState; // that is read there
  auto getStage = [&](Value value) -> int64_t {
    if (StringAttr state = getState(value)) {
      auto found = stageOfState.find(state);
      return found == stageOfState.end() ? -1 : found->second;
    }
    Operation *def = value.getDefiningOp();
    if (!def || roles.lookup(def) != Role::Chain)
      return -1;
    if (auto found = stageOf.find(def); found != stageOf.end())
      return found->second;
    auto part = partOf.find(def);
    return part == partOf.end() ? -1 : pipeline.getStage(part->second);
  };
  SmallVector<Operation *> closing;
  for (Operation *op : order)
    if (kinds.lookup(op) == Kind::Closing && roles.lookup(op) == Role::Chain)
      closing.push_back(op);
  for (Operation *op : closing) {
    double most = -1;
    int64_t stage = -1;
    for (Value operand : op->getOperands())
      if (int64_t own = getStage(operand); own >= 0)
        if (double bytes = getBytes(operand.getType()); bytes > most || (bytes == most && own > stage)) {
          most = bytes;
          stage = own;
        }
    if (stage < 0)
      continue;
    stageOf[op] = stage;
    for (Value operand : op->getOperands())
      if (StringAttr state = getState(operand))
        stageOfState.try_emplace(state, stage);
  }
  // What is made of states alone stands where it is used.
  for (Operation *op : llvm::reverse(closing)) {
    if (stageOf.contains(op))
      continue;
    int64_t stage = -1;
    for (Operation *user : op->getUsers())
      if (auto found = stageOf.find(user); found != stageOf.end())
        stage = std::max(stage, found->second);
    for (Value operand : op->getOperands())
      if (StringAttr state = getState(operand); state && stage < 0 && stageOfState.contains(state))
        stage = stageOfState[state];
    stageOf[op] = std::max<int64_t>(0, stage);
  }
  regroupSums(closing, stageOf, getStage);
  // Of a sum of numbers each stage adds up those that it has, and sends one.
  SmallVector<Operation *> withSums;
  for (Operation *op : closing) {
    auto sum = dyn_cast<ElementwiseOp>(op);
    llvm::MapVector<int64_t, SmallVector<Value>> ofStages;
    if (sum && sum.getKind() == ElementwiseKind::Add && cast<RankedTensorType>(sum.getType()).getRank() == 0)
      for (Value operand : op->getOperands())
        ofStages[getStage(operand)].push_back(operand);
    if (ofStages.size() > 1 && ofStages.size() < op->getNumOperands()) {
      SmallVector<Value> parts;
      for (auto &[stage, values] : ofStages) {
        if (values.size() == 1 || stage < 0) {
          llvm::append_range(parts, values);
          continue;
        }
        OpBuilder b(op);
        Operation *part = ElementwiseOp::create(b, op->getLoc(), sum.getType(), ElementwiseKind::Add, values,
                                                DenseF64ArrayAttr());
        roles[part] = Role::Chain;
        kinds[part] = Kind::Closing;
        names[part] = names.lookup(op);
        stageOf[part] = stage;
        order.insert(llvm::find(order, op), part);
        withSums.push_back(part);
        parts.push_back(part->getResult(0));
      }
      op->setOperands(parts);
    }
    withSums.push_back(op);
  }
  closing = std::move(withSums);
  int64_t levels = 1;
  llvm::DenseMap<Operation *, int64_t> levelOf;
  for (Operation *op : closing) {
    int64_t level = 0;
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || roles.lookup(def) != Role::Chain)
        continue;
      const bool isHere = getStage(operand) == stageOf[op];
      auto known = levelOf.find(def); // what passes make goes to other stages in level 0
      level = std::max(level, (known == levelOf.end() ? 0 : known->second) + (isHere ? 0 : 1));
    }
    levelOf[op] = level;
    levels = std::max(levels, level + 1);
    partOf[op] = static_cast<int>(pipeline.getPart(stageOf[op], pipeline.countTurnChunks() + level));
  }
  pipeline.levels = levels;
}

void Chain::placeDerived() {
  if (!trains)
    return;
  for (Operation *op : order)
    if (kinds.lookup(op) == Kind::Backward && roles.lookup(op) == Role::Chain)
      placeBackward(op);
  placeClosing();
  // Copies that nobody reads any more.
  const SmallVector<Operation *> all(order);
  for (Operation *op : llvm::reverse(all))
    if (op->use_empty() && kinds.lookup(op) == Kind::Backward && op->hasAttr(kUnitAttrName)) {
      llvm::erase(order, op);
      partOf.erase(op);
      op->erase();
    }
}
