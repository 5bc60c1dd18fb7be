//===- Groups.cpp - which ops one kernel computes ---------------------------===//
#include "Groups.h"
#include "Views.h"

#include "colossal/Codegen/CPU/FusedKernel.h"
#include "colossal/Codegen/CPU/SequentialKernel.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// More ops than that in one kernel cost registers and compile time, and save nothing.
static constexpr unsigned groupLimit = 48;

OpClass schedule::classify(Operation *op) {
  if (isa<ConstantOp, ParameterOp>(op) || op->getNumResults() == 0 ||
      !isa<RankedTensorType>(op->getResult(0).getType()) || isMovement(op))
    return OpClass::None;
  if (isa<ContractOp, AttentionOp, ConvOp, ConvTransposeOp>(op) || isPadding(op) || cpu::isSequential(op))
    return OpClass::Routine;
  if (isa<shard::ShardDialect>(op->getDialect()))
    return isa<shard::AllSliceOp>(op) ? OpClass::Point : OpClass::Routine;
  if (isa<dist::ExchangeOp, dist::PermuteOp>(op))
    return OpClass::Routine;
  if (cpu::getRowSpace(op))
    return OpClass::Row;
  auto emission = dyn_cast<ElementEmissionOpInterface>(op);
  return emission && emission.isElementCostly() ? OpClass::Loop : OpClass::Point;
}

static int64_t countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// Reads this operand in another order or more often than once: from memory.
static bool readsFromMemory(OpOperand &use) {
  Operation *user = use.getOwner();
  switch (classify(user)) {
  case OpClass::None:
  case OpClass::Routine:
  case OpClass::Loop: return true;
  default: break;
  }
  return isa<GatherOp, GatherElementsOp, GatherNDOp>(user) && use.getOperandNumber() == 0;
}

static bool changesOnlyUnits(Operation *movement) {
  auto reshape = dyn_cast<ReshapeOp>(movement);
  if (!reshape)
    return false;
  auto squeezed = [](Value tensor) {
    SmallVector<int64_t> shape;
    llvm::copy_if(shapeOf(tensor), std::back_inserter(shape), [](int64_t size) { return size != 1; });
    return shape;
  };
  return squeezed(reshape.getInput()) == squeezed(reshape.getResult());
}

Grouping::Grouping(ArrayRef<Operation *> ops, bool fuse) : all(ops), fuse(fuse) {
  for (auto [i, op] : llvm::enumerate(all))
    position[op] = i;
  for (Operation *op : llvm::reverse(all))
    if (classify(op) != OpClass::None) {
      place(op);
      Group *group = groupOf.lookup(op);
      for (Group *reader : readersOf(op))
        if (reader != group)
          running.require(reader->number, group->number);
    }
  for (auto &group : groups)
    llvm::sort(group->ops, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
}

SmallVector<Grouping::Use> Grouping::usesOf(Value value) {
  SmallVector<Use> uses;
  auto visit = [&](auto self, Value v, bool direct) -> void {
    for (OpOperand &use : v.getUses()) {
      Operation *user = use.getOwner();
      if (isMovement(user) && position.count(user)) {
        self(self, user->getResult(0), direct && changesOnlyUnits(user));
        continue;
      }
      bool memory = !position.count(user) || readsFromMemory(use);
      uses.push_back({memory ? nullptr : user, direct});
    }
  };
  visit(visit, value, true);
  return uses;
}

Group *Grouping::begin(Operation *op) {
  groups.push_back(std::make_unique<Group>());
  Group *group = groups.back().get();
  group->number = running.add();
  group->ops.push_back(op);
  groupOf[op] = group;
  group->aligned[op] = true;
  for (Value result : op->getResults())
    if (isa<RankedTensorType>(result.getType()) && !(result.use_empty() && op->getNumResults() > 1))
      group->outputs.push_back(result);
  if (auto space = cpu::getRowSpace(op)) {
    group->shape = space->shape;
    group->reduced = space->reduced;
  } else {
    group->shape.assign(shapeOf(op->getResult(0)).begin(), shapeOf(op->getResult(0)).end());
  }
  if (classify(op) == OpClass::Routine)
    group->routine = op;
  return group;
}

bool Grouping::alignedIn(Group *group, ArrayRef<Use> uses, Value value) {
  for (const Use &use : uses) {
    if (!use.user || groupOf.lookup(use.user) != group)
      continue;
    if (!use.direct || !group->aligned.lookup(use.user) ||
        !isa<ElementwiseOp, NormalizeOp, SoftmaxOp, ReduceOp>(use.user))
      return false;
  }
  return true;
}

llvm::SmallSetVector<Group *, 4> Grouping::readersOf(Operation *op) {
  llvm::SmallSetVector<Group *, 4> readers;
  llvm::SmallPtrSet<Operation *, 8> seen;
  auto visit = [&](auto self, Operation *reader) -> void {
    if (Group *group = groupOf.lookup(reader))
      readers.insert(group);
    else if (isMovement(reader) && seen.insert(reader).second)
      for (Operation *next : reader->getUsers())
        self(self, next);
  };
  for (Operation *user : op->getUsers())
    visit(visit, user);
  return readers;
}

bool Grouping::joinPoint(Operation *op, Group *group, ArrayRef<Use> uses, bool output) {
  Value result = op->getResult(0);
  if (group->ops.size() >= groupLimit || (group->routine && !isContraction(group->routine)))
    return false;
  bool aligned = alignedIn(group, uses, result);
  ArrayRef<int64_t> shape = shapeOf(result);
  bool full = shape == ArrayRef<int64_t>(group->shape);
  if (output && !(aligned && full))
    return false;
  if (classify(op) == OpClass::Loop && !(aligned && full && !group->routine && group->reduced.empty()))
    return false;
  // What is small and stretched over the loops would be computed again and again.
  bool cheap = isa<IotaOp>(op) ||
               (isa<ElementwiseOp>(op) && cast<ElementwiseOp>(op).getKind() == ElementwiseKind::Cast);
  bool perRow = aligned && !group->reduced.empty();
  if (!cheap && !perRow && countElements(shape) * 8 <= countElements(group->shape))
    return false;
  group->ops.push_back(op);
  group->aligned[op] = aligned;
  if (output)
    group->outputs.push_back(result);
  groupOf[op] = group;
  return true;
}

bool Grouping::joinRow(Operation *op, Group *group, ArrayRef<Use> uses) {
  Value result = op->getResult(0);
  if (group->ops.size() >= groupLimit || group->routine || !alignedIn(group, uses, result))
    return false;
  if (llvm::any_of(group->ops, [](Operation *o) { return classify(o) == OpClass::Loop; }))
    return false;
  auto space = cpu::getRowSpace(op);
  if (!group->reduced.empty()) {
    if (group->shape != space->shape || group->reduced != space->reduced)
      return false;
  } else if (group->shape != space->shape) {
    if (!isa<ReduceOp>(op) || ArrayRef<int64_t>(group->shape) != shapeOf(result))
      return false;
    group->shape = space->shape;
  }
  group->reduced = space->reduced;
  group->ops.push_back(op);
  group->aligned[op] = true;
  groupOf[op] = group;
  return true;
}

void Grouping::place(Operation *op) {
  OpClass kind = classify(op);
  if (!fuse || op->getNumResults() != 1) {
    begin(op);
    return;
  }
  Value result = op->getResult(0);
  SmallVector<Use> uses = usesOf(result);
  llvm::SmallSetVector<Group *, 4> users;
  bool memory = false;
  for (const Use &use : uses) {
    if (!use.user)
      memory = true;
    else
      users.insert(groupOf.lookup(use.user));
  }
  if (users.size() == 1 && !memory) {
    Group *group = users.front();
    if ((kind == OpClass::Point || kind == OpClass::Loop) && joinPoint(op, group, uses, false))
      return;
    if (kind == OpClass::Row && joinRow(op, group, uses))
      return;
    if (isContraction(op) && !group->routine && group->reduced.empty() && alignedIn(group, uses, result) &&
        shapeOf(result) == ArrayRef<int64_t>(group->shape) &&
        llvm::all_of(group->ops, [](Operation *o) { return classify(o) == OpClass::Point; })) {
      group->routine = op;
      group->ops.push_back(op);
      group->aligned[op] = true;
      groupOf[op] = group;
      return;
    }
    if (isa<ConvOp, ConvTransposeOp>(op) && !isContraction(op) && !group->routine && group->reduced.empty() &&
        group->outputs.size() == 1) {
      SmallVector<Operation *> after(group->ops);
      llvm::sort(after, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
      if (alignedIn(group, uses, result) && fitsConvolution(op, after)) {
        group->routine = op;
        group->ops.push_back(op);
        group->aligned[op] = true;
        groupOf[op] = group;
        return;
      }
    }
  }
  // One of the users' kernels may store the value for the others, if none of them must run before it.
  if (kind == OpClass::Point && (memory || users.size() > 1)) {
    // Readers from memory are routines and movements: all groups that read the value count.
    SmallVector<unsigned> readers;
    for (Group *reader : readersOf(op))
      readers.push_back(reader->number);
    for (Group *group : users)
      if (!running.needsAny(group->number, readers) && joinPoint(op, group, uses, true))
        return;
  }
  begin(op);
}

std::vector<Group *> Grouping::order() {
  std::vector<Group *> sorted, result;
  for (auto &group : groups)
    sorted.push_back(group.get());
  auto first = [&](Group *group) {
    unsigned at = ~0u;
    for (Value output : group->outputs)
      at = std::min(at, position[output.getDefiningOp()]);
    return at;
  };
  llvm::stable_sort(sorted, [&](Group *a, Group *b) { return first(a) < first(b); });
  llvm::DenseSet<Group *> done;
  auto visit = [&](auto self, Group *group) -> void {
    if (!done.insert(group).second)
      return;
    auto require = [&](auto require, Operation *op) -> void {
      for (Value operand : op->getOperands()) {
        Operation *def = operand.getDefiningOp();
        if (!def || !position.count(def))
          continue;
        if (Group *other = groupOf.lookup(def))
          self(self, other);
        else if (isMovement(def))
          require(require, def);
      }
    };
    for (Operation *op : group->ops)
      require(require, op);
    result.push_back(group);
  };
  for (Group *group : sorted)
    visit(visit, group);
  return result;
}
