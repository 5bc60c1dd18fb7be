//===- Groups.cpp - which ops one kernel computes ---------------------------===//
#include "Groups.h"
#include "Collectives.h"
#include "colossal/Schedule/Views.h"

#include "dialects/Colossal/Colossal.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

bool schedule::isPadding(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getKernelKind() == KernelKind::Padding;
}

GroupKind schedule::kindOf(const FusionGroup &group) {
  if (!group.routine)
    return GroupKind::Loops;
  if (isCollective(group.routine))
    return GroupKind::Collective;
  switch (cast<KernelOpInterface>(group.routine).getKernelKind()) {
  case KernelKind::Tile: return GroupKind::Tiles;
  case KernelKind::Padding: return GroupKind::Padding;
  case KernelKind::Contraction: return GroupKind::Contraction;
  case KernelKind::Convolution: return GroupKind::Convolution;
  case KernelKind::Attention: return GroupKind::Attention;
  default: return GroupKind::Loops;
  }
}

OpClass schedule::classify(Operation *op) {
  if (op->getNumResults() == 0 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return OpClass::None;
  if (isMovement(op))
    return OpClass::None;
  if (isCollective(op))
    return OpClass::Routine;
  auto kernel = dyn_cast<KernelOpInterface>(op);
  switch (kernel ? kernel.getKernelKind() : KernelKind::Element) {
  case KernelKind::Source:
  case KernelKind::Movement: return OpClass::None;
  case KernelKind::Tile:
  case KernelKind::Padding:
  case KernelKind::Contraction:
  case KernelKind::Convolution:
  case KernelKind::Attention: return OpClass::Routine;
  case KernelKind::Row: return OpClass::Row;
  case KernelKind::Element: break;
  }
  auto emission = dyn_cast<ElementEmissionOpInterface>(op);
  return emission && emission.isElementCostly() ? OpClass::Loop : OpClass::Point;
}

bool schedule::isReadInPlace(const FusionGroup &group, Value value) {
  auto shows = [&](auto self, Value moved) -> bool {
    Operation *movement = moved.getDefiningOp();
    return movement && isMovement(movement) && llvm::any_of(movement->getOperands(), [&](Value operand) {
             return operand == value || self(self, operand);
           });
  };
  // The group has few ops, and a number that all updates read has thousands of users.
  return llvm::all_of(group.ops, [&](Operation *op) {
    if (isMovement(op))
      return true;
    auto kernel = dyn_cast<KernelOpInterface>(op);
    const bool isInPlace = kernel && kernel.readsAtOwnIndex() && group.aligned.lookup(op);
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) { return operand == value ? isInPlace : !shows(shows, operand); });
  });
}

bool schedule::mayTakeInput(const FusionGroup &group) {
  return group.outputs.size() == 1 ||
         (group.reduced.empty() && llvm::all_of(group.outputs, [&](Value output) {
            return shapeOf(output) == shapeOf(group.outputs.front());
          }));
}

static std::optional<RowSpace> rowSpaceOf(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel ? kernel.getRowSpace() : std::nullopt;
}

static int64_t countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// Reads this operand in another order or more often than once: from memory.
bool Grouping::readsFromMemory(OpOperand &use) const {
  Operation *user = use.getOwner();
  switch (classOf(user)) {
  case OpClass::None:
  case OpClass::Routine:
  case OpClass::Loop: return true;
  default: break;
  }
  auto kernel = dyn_cast<KernelOpInterface>(user);
  return kernel && kernel.readsFromMemory(use.getOperandNumber());
}

static bool changesOnlyUnits(Operation *movement) {
  auto kernel = dyn_cast<KernelOpInterface>(movement);
  if (!kernel || !kernel.keepsOrder())
    return false;
  auto squeezed = [](Value tensor) {
    SmallVector<int64_t> shape;
    llvm::copy_if(shapeOf(tensor), std::back_inserter(shape), [](int64_t size) { return size != 1; });
    return shape;
  };
  return squeezed(movement->getOperand(0)) == squeezed(movement->getResult(0));
}

Grouping::Grouping(ArrayRef<Operation *> ops, const codegen::Target &target, bool fuse,
                   llvm::function_ref<bool(Operation *)> isStored)
    : all(ops), target(target), fuse(fuse) {
  position.reserve(all.size());
  classes.reserve(all.size());
  for (auto [i, op] : llvm::enumerate(all)) {
    position[op] = i;
    classes.push_back(classify(op));
  }
  for (Operation *op : llvm::reverse(all))
    if (classOf(op) != OpClass::None) {
      place(op, isStored);
      FusionGroup *group = groupOf.lookup(op);
      for (FusionGroup *reader : readersOf(op))
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
      uses.push_back({memory ? nullptr : user, direct, user});
    }
  };
  visit(visit, value, true);
  return uses;
}

/// What `op` adds to the size of a kernel: a chain of one kind, which is one op, is as much code as the ops
/// that it stands for, and reads as much.
static unsigned sizeOf(Operation *op) {
  constexpr unsigned kUsual = 3; // operands
  return op->getNumOperands() > kUsual ? op->getNumOperands() - 1 : 1;
}

void Grouping::add(Operation *op, FusionGroup *group, bool aligned) {
  group->ops.push_back(op);
  group->aligned[op] = aligned;
  groupOf[op] = group;
  sizes[group] += sizeOf(op);
}

FusionGroup *Grouping::begin(Operation *op) {
  groups.push_back(std::make_unique<FusionGroup>());
  FusionGroup *group = groups.back().get();
  group->number = running.add();
  add(op, group, /*aligned=*/true);
  for (Value result : op->getResults())
    if (isa<RankedTensorType>(result.getType()) && !(result.use_empty() && op->getNumResults() > 1))
      group->outputs.push_back(result);
  if (auto space = rowSpaceOf(op)) {
    group->shape = space->shape;
    group->reduced = space->reduced;
  } else {
    group->shape.assign(shapeOf(op->getResult(0)).begin(), shapeOf(op->getResult(0)).end());
  }
  if (classOf(op) == OpClass::Routine)
    group->routine = op;
  return group;
}

bool Grouping::alignedIn(FusionGroup *group, ArrayRef<Use> uses, Value value) {
  for (const Use &use : uses) {
    if (!use.user || groupOf.lookup(use.user) != group)
      continue;
    auto kernel = dyn_cast<KernelOpInterface>(use.user);
    if (!use.direct || !group->aligned.lookup(use.user) || !kernel || !kernel.readsAtOwnIndex())
      return false;
  }
  return true;
}

llvm::SmallSetVector<FusionGroup *, 4> Grouping::readersOf(Operation *op) {
  llvm::SmallSetVector<FusionGroup *, 4> readers;
  llvm::SmallPtrSet<Operation *, 8> seen;
  auto visit = [&](auto self, Operation *reader) -> void {
    if (FusionGroup *group = groupOf.lookup(reader))
      readers.insert(group);
    else if (isMovement(reader) && seen.insert(reader).second)
      for (Operation *next : reader->getUsers())
        self(self, next);
  };
  for (Operation *user : op->getUsers())
    visit(visit, user);
  return readers;
}

/// Whether `op` could be computed where a routine's result is made, but would not be in `group`, which makes
/// statistics of `op`'s result: storing the sum there and reading it once more costs less than storing what
/// the routine gives and reading that.
bool Grouping::isRatherEpilogue(Operation *op, FusionGroup *group) {
  if (group->reduced.empty() || llvm::any_of(group->outputs, [&](Value output) {
        return shapeOf(output) == ArrayRef<int64_t>(group->shape);
      }))
    return false;
  // A narrow sum is a chain: what is narrow is widened, added to, and narrowed.
  constexpr unsigned kMost = 3; // of its ops
  Operation *at = op;
  for (unsigned i = 0; i < kMost && at; ++i) {
    if (findEpilogueOf(at))
      return true;
    Operation *before = nullptr;
    for (Value operand : at->getOperands())
      if (Operation *maker = operand.getDefiningOp();
          maker && position.count(maker) && operand.hasOneUse() && classOf(maker) == OpClass::Point &&
          isa<RankedTensorType>(operand.getType()) && shapeOf(operand) == shapeOf(op->getResult(0)))
        before = maker;
    at = before;
  }
  return false;
}

/// Writes down of each op what `isOfOtherRows` asks for, in one pass instead of a walk back for each: the
/// residual stream of a model leads from every op to its beginning.
void Grouping::findStatistics() {
  statistics.resize(all.size());
  auto idOf = [&](const RowSpace &space) -> unsigned {
    auto known = llvm::find_if(rowSpaces, [&](const RowSpace &other) {
      return other.shape == space.shape && other.reduced == space.reduced;
    });
    if (known == rowSpaces.end())
      known = rowSpaces.insert(known, space);
    return known - rowSpaces.begin();
  };
  std::vector<int> own(all.size(), -1); // the space of the op's own statistics
  for (auto [i, op] : llvm::enumerate(all)) {
    if (auto space = rowSpaceOf(op))
      own[i] = static_cast<int>(idOf(*space));
    llvm::SmallBitVector &made = statistics[i];
    for (Value operand : op->getOperands()) {
      auto maker = position.find(operand.getDefiningOp());
      if (maker == position.end())
        continue;
      const unsigned m = maker->second;
      if (own[m] >= 0) {
        if (made.size() <= static_cast<unsigned>(own[m]))
          made.resize(own[m] + 1);
        made.set(own[m]);
      }
      if (classes[m] == OpClass::Point || isMovement(all[m]) || isCollective(all[m]))
        made |= statistics[m];
    }
  }
}

/// Whether `op` is computed of statistics of rows along other dimensions than those that `group` makes
/// statistics of: with these it needs no second look at what they are made of, and `group` can read the
/// result.
bool Grouping::isOfOtherRows(Operation *op, FusionGroup *group) {
  if (group->reduced.empty())
    return false;
  if (statistics.empty())
    findStatistics();
  return llvm::any_of(statistics[position.lookup(op)].set_bits(), [&](unsigned id) {
    return rowSpaces[id].shape == group->shape && rowSpaces[id].reduced != group->reduced;
  });
}

/// What gives an operand of `op` and could compute `op` as well: a routine, or null.
Operation *Grouping::findEpilogueOf(Operation *op) {
  for (Value operand : op->getOperands()) {
    Operation *maker = operand.getDefiningOp();
    if (maker && position.count(maker) && isa<RankedTensorType>(operand.getType()) && operand.hasOneUse() &&
        shapeOf(operand) == shapeOf(op->getResult(0)) && classOf(maker) == OpClass::Routine &&
        target.epilogueOf(maker) == codegen::Epilogue::Any)
      return maker;
  }
  return nullptr;
}

/// Whether `op`, of which only `group` reads, adds something to what a routine gives that cannot be the
/// group's own, or would wait for the rest of it: outside, the sum is stored in the place of what the routine
/// gives, and what is added need not be kept until the group runs.
bool Grouping::addsToRoutine(Operation *op, FusionGroup *group) {
  Operation *maker = findEpilogueOf(op);
  if (!maker || (!group->routine && group->reduced.empty() && !keepsOperandsLonger(maker, group)))
    return false;
  const int64_t elements = countElements(shapeOf(op->getResult(0)));
  return llvm::count_if(op->getOperands(), [&](Value operand) {
           auto type = dyn_cast<RankedTensorType>(operand.getType()); // none of an offset
           return type && type.getNumElements() == elements;
         }) > 1;
}

bool Grouping::joinPoint(Operation *op, FusionGroup *group, ArrayRef<Use> uses, bool output) {
  Value result = op->getResult(0);
  if (sizes[group] + sizeOf(op) > target.maxGroupSize() ||
      (group->routine && target.epilogueOf(group->routine) != codegen::Epilogue::Any))
    return false;
  bool aligned = alignedIn(group, uses, result);
  // What the group itself reads from memory must be there before it.
  if (llvm::any_of(uses, [&](const Use &use) { return !use.user && groupOf.lookup(use.reader) == group; }))
    return false;
  ArrayRef<int64_t> shape = shapeOf(result);
  bool full = shape == ArrayRef<int64_t>(group->shape);
  if (output && !(aligned && full))
    return false;
  if (classOf(op) == OpClass::Loop && !(aligned && full && !group->routine && group->reduced.empty()))
    return false;
  // What is small and stretched over the loops would be computed again and again.
  auto kernel = dyn_cast<KernelOpInterface>(op);
  bool cheap = kernel && kernel.isElementFree();
  bool perRow = aligned && !group->reduced.empty();
  if (!cheap && !perRow && countElements(shape) * 8 <= countElements(group->shape))
    return false;
  add(op, group, aligned);
  if (output)
    group->outputs.push_back(result);
  return true;
}

/// Results that one kernel reads where it makes its own elements need not be stored for it: an update's new
/// parameter, whose padding is cleared. The others are stored beside.
bool Grouping::joinOfSeveral(Operation *op) {
  if (classOf(op) != OpClass::Point)
    return false;
  FusionGroup *group = nullptr;
  SmallVector<Value> stored;
  for (Value result : op->getResults()) {
    SmallVector<Use> uses = usesOf(result);
    const bool isRead = llvm::any_of(uses, [](const Use &use) { return use.user; });
    if (!isRead && !uses.empty())
      stored.push_back(result);
    for (const Use &use : uses) {
      FusionGroup *reader = use.user ? groupOf.lookup(use.user) : nullptr;
      if ((isRead && !reader) || (reader && group && reader != group))
        return false;
      group = reader ? reader : group;
    }
    if (isRead && (shapeOf(result) != ArrayRef<int64_t>(group->shape) || !alignedIn(group, uses, result)))
      return false;
  }
  if (!group || group->routine || !group->reduced.empty() ||
      sizes[group] + sizeOf(op) > target.maxGroupSize())
    return false;
  add(op, group, /*aligned=*/true);
  llvm::append_range(group->outputs, stored);
  return true;
}

bool Grouping::joinRow(Operation *op, FusionGroup *group, ArrayRef<Use> uses) {
  Value result = op->getResult(0);
  if (sizes[group] + sizeOf(op) > target.maxGroupSize() || group->routine || !alignedIn(group, uses, result))
    return false;
  if (llvm::any_of(group->ops, [&](Operation *o) { return classOf(o) == OpClass::Loop; }))
    return false;
  auto space = rowSpaceOf(op);
  if (!group->reduced.empty()) {
    if (group->shape != space->shape || group->reduced != space->reduced || isOfOtherInputs(op, group))
      return false;
  } else if (group->shape != space->shape) {
    // Statistics alone: the group's loops run inside of the rows from here on.
    if (shapeOf(result) == ArrayRef<int64_t>(space->shape) ||
        ArrayRef<int64_t>(group->shape) != shapeOf(result))
      return false;
    group->shape = space->shape;
  }
  group->reduced = space->reduced;
  add(op, group, /*aligned=*/true);
  return true;
}

/// Whether the sums that `op` makes can be added to the other summand of the group's addition, where that
/// lies: what a lookup's rows add to a tied table's gradient is little, and a product that the rest is needs
/// neither wait for it nor read it.
bool Grouping::addsToSummand(Operation *op, FusionGroup *group) const {
  auto tiles = dyn_cast<TileEmissionOpInterface>(op);
  if (!tiles || !tiles.canAddToResult() || group->ops.size() != 1 || group->outputs.size() != 1)
    return false;
  auto addition = dyn_cast<ElementwiseOp>(group->ops.front());
  if (!addition || addition.getKind() != ElementwiseKind::Add || addition->getNumOperands() != 2)
    return false;
  Value other = addition->getOperand(addition->getOperand(0) == op->getResult(0) ? 1 : 0);
  Operation *maker = other.getDefiningOp(); // none of a sum over the turns before
  return (!maker || (position.count(maker) && classOf(maker) != OpClass::None)) && other.hasOneUse() &&
         other.getType() == op->getResult(0).getType() && other.getType() == addition.getType();
}

bool Grouping::joinAsRoutine(Operation *op, FusionGroup *group, ArrayRef<Use> uses) {
  if (!group->routine && addsToSummand(op, group)) {
    group->routine = op;
    add(op, group, /*aligned=*/true);
    return true;
  }
  codegen::Epilogue epilogue = target.epilogueOf(op);
  if (epilogue == codegen::Epilogue::None || group->routine || !group->reduced.empty() ||
      !alignedIn(group, uses, op->getResult(0)) || keepsOperandsLonger(op, group))
    return false;
  if (epilogue == codegen::Epilogue::Any) {
    if (shapeOf(op->getResult(0)) != ArrayRef<int64_t>(group->shape) ||
        !llvm::all_of(group->ops, [&](Operation *o) { return classOf(o) == OpClass::Point; }))
      return false;
  } else {
    SmallVector<Operation *> after(group->ops);
    llvm::sort(after, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
    if (group->outputs.size() != 1 || !target.fitsEpilogue(op, after))
      return false;
  }
  group->routine = op;
  add(op, group, /*aligned=*/true);
  return true;
}

void Grouping::place(Operation *op, llvm::function_ref<bool(Operation *)> isStored) {
  OpClass kind = classOf(op);
  const bool mayJoin = fuse && op->getNumResults() > 0 && !(isStored && isStored(op));
  if (!mayJoin || op->getNumResults() > 1) {
    if (!mayJoin || !joinOfSeveral(op))
      begin(op);
    return;
  }
  Value result = op->getResult(0);
  SmallVector<Use> uses = usesOf(result);
  llvm::SmallSetVector<FusionGroup *, 4> users;
  bool memory = false;
  for (const Use &use : uses) {
    if (!use.user)
      memory = true;
    else
      users.insert(groupOf.lookup(use.user));
  }
  if (users.size() == 1 && !memory) {
    FusionGroup *group = users.front();
    if ((kind == OpClass::Point || kind == OpClass::Loop) && !addsToRoutine(op, group) &&
        joinPoint(op, group, uses, false))
      return;
    if (kind == OpClass::Row && joinRow(op, group, uses))
      return;
    if (kind == OpClass::Routine && joinAsRoutine(op, group, uses))
      return;
  }
  // One of the users' kernels may store the value for the others, if none of them must run before it.
  if (kind == OpClass::Point && (memory || users.size() > 1)) {
    // Readers from memory are routines and movements: all groups that read the value count.
    SmallVector<unsigned> readers;
    for (FusionGroup *reader : readersOf(op))
      readers.push_back(reader->number);
    // The first of them before all: what a backward pass makes again would wait there from the forward pass.
    auto first = [&](FusionGroup *group) {
      unsigned at = ~0u;
      for (Operation *member : group->ops)
        at = std::min(at, position.lookup(member));
      return at;
    };
    // Only loops of its shape can store it: a number that all updates read has a thousand users.
    SmallVector<std::pair<unsigned, FusionGroup *>> able;
    for (FusionGroup *group : users)
      if (shapeOf(result) == ArrayRef<int64_t>(group->shape))
        able.push_back({first(group), group});
    llvm::stable_sort(able, llvm::less_first());
    for (auto [at, group] : able)
      if (!isRatherEpilogue(op, group) && !isOfOtherRows(op, group) && !runsAhead(op, group) &&
          !running.needsAny(group->number, readers) && joinPoint(op, group, uses, true))
        return;
  }
  begin(op);
}
