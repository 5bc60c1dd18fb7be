//===- GroupWaits.cpp - what kernels would wait for, and when they run ------------===//
//
// One kernel for several ops runs when the last of what it reads is there. What it reads earlier lies in
// memory until then, and what is made of it comes later: ops do not join a kernel that would keep much so.
//
//===----------------------------------------------------------------------===//
#include "Collectives.h"
#include "Groups.h"
#include "colossal/Schedule/Views.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Precision.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

static int64_t countElements(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType()); // none of an offset
  return type ? type.getNumElements() : 0;
}

static int64_t countBytes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType()); // none of an offset
  return type ? type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8) : 0;
}

/// Whether `op`, as the routine of `group`, would wait for something else that the group reads and that is
/// made later, and would keep more for it than its result takes: what a tied table's gradient is made of at
/// the head, for the gradient of the rows that were looked up.
bool Grouping::keepsOperandsLonger(Operation *op, FusionGroup *group) {
  const unsigned own = position.lookup(op);
  unsigned last = own; // what the group waits for
  for (Operation *member : group->ops)
    for (Value operand : member->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      while (maker && classify(maker) == OpClass::None && maker->getNumOperands() > 0)
        maker = maker->getOperand(0).getDefiningOp();
      if (auto known = position.find(maker);
          maker && known != position.end() && groupOf.lookup(maker) != group)
        last = std::max(last, known->second);
    }
  int64_t kept = 0;
  for (Value operand : op->getOperands())
    if (operand.getDefiningOp() && llvm::all_of(operand.getUsers(), [&](Operation *user) {
          auto known = position.find(user);
          return known != position.end() && known->second < last;
        }))
      kept += countBytes(operand);
  return last > own && kept > countBytes(op->getResult(0));
}

/// Adds the operands of at least `least` elements, and what kernels would compute these of on their way.
void Grouping::addLargeInputs(Operation *op, int64_t least, llvm::SmallSetVector<Value, 16> &inputs) const {
  constexpr unsigned kMost = 64; // that are looked at
  SmallVector<Operation *> work{op};
  while (!work.empty() && inputs.size() < kMost)
    for (Value operand : work.pop_back_val()->getOperands())
      if (countElements(operand) >= least && inputs.insert(operand))
        if (Operation *maker = operand.getDefiningOp();
            maker && (classify(maker) == OpClass::Point || isMovement(maker)))
          work.push_back(maker);
}

/// Whether `op` makes statistics of much that has nothing to do with what `group` makes its own of: one
/// kernel would wait for both, and what each is made of would be there at once, as the parts of a loss are
/// not to be.
bool Grouping::isOfOtherInputs(Operation *op, FusionGroup *group) const {
  constexpr int64_t kMuch = 1 << 16; // elements
  const int64_t much = countElements(op->getOperand(0));
  if (much < kMuch || countElements(op->getResult(0)) == much)
    return false;
  llvm::SmallSetVector<Value, 16> own, others;
  addLargeInputs(op, much, own);
  for (Operation *member : group->ops)
    addLargeInputs(member, much, others);
  return llvm::none_of(own, [&](Value value) { return others.contains(value); });
}

/// The op that computes what `value` shows.
static Operation *findMaker(Value value) {
  Operation *maker = value.getDefiningOp();
  while (maker && isMovement(maker))
    maker = maker->getOperand(0).getDefiningOp();
  return maker;
}

/// Whether `group`, if it stored `op` for all, would have to run before something else that reads it, and
/// with it a product that comes later and that is used when that other reader has long run: a backward pass's
/// scores would wait all the time, for the mask that they share with the forward pass.
bool Grouping::runsAhead(Operation *op, FusionGroup *group) {
  unsigned first = ~0u; // of the others that read it
  SmallVector<unsigned> others;
  for (FusionGroup *reader : readersOf(op)) {
    if (reader == group)
      continue;
    others.push_back(reader->number);
    for (Operation *member : reader->ops)
      first = std::min(first, position.lookup(member));
  }
  SmallVector<Operation *> products; // that come later
  auto add = [&](Operation *product) {
    if (auto known = position.find(product);
        known != position.end() && known->second > first && classOf(product) == OpClass::Routine)
      products.push_back(product);
  };
  for (Operation *member : group->ops) {
    add(member);
    for (Value operand : member->getOperands())
      add(findMaker(operand));
  }
  if (products.empty())
    return false;
  auto isUsedLater = [&](auto self, FusionGroup *maker, unsigned steps) -> bool {
    return llvm::any_of(maker->outputs, [&](Value output) {
      return llvm::any_of(readersOf(output.getDefiningOp()), [&](FusionGroup *reader) {
        return reader != maker &&
               (running.needsAny(reader->number, others) || (steps > 1 && self(self, reader, steps - 1)));
      });
    });
  };
  // What the products give may go through other kernels, as scores do, before it meets what is late.
  constexpr unsigned kSteps = 4;
  return isUsedLater(isUsedLater, group, kSteps);
}

constexpr int64_t kMuch = 1 << 16; ///< bytes

/// Whether `group` makes little of much that a kernel of this rank has just made, as the norm of a gradient
/// or the gradient of a bias: it finds that in the caches then, and keeps nothing waiting for it.
bool Grouping::sumsUp(FusionGroup *group) const {
  constexpr int64_t kTimesLess = 64;
  int64_t given = 0, read = 0;
  for (Value output : group->outputs)
    given += countBytes(output);
  for (Operation *member : group->ops)
    for (Value operand : member->getOperands())
      if (Operation *maker = findMaker(operand);
          maker && position.count(maker) && groupOf.lookup(maker) != group && !isCollective(maker))
        read = std::max(read, countBytes(operand));
  return !group->routine && read >= kMuch && given * kTimesLess <= read;
}

/// Whether `group` is a product that takes less memory for what it gives than there is again once it has read
/// what was rounded for it alone, as that of attention's weights and the gradient of its result, before as
/// much is made of slopes.
bool Grouping::givesBack(FusionGroup *group) const {
  if (!group->routine)
    return false;
  int64_t given = 0, back = 0;
  for (Value output : group->outputs)
    given += countBytes(output);
  for (Value operand : group->routine->getOperands())
    if (Operation *def = operand.getDefiningOp();
        def && isNarrowing(def) && position.count(def) && operand.hasOneUse())
      back += countBytes(operand);
  return back >= kMuch && given < back;
}

/// A kernel that computes ops of several places runs where the last of what it reads is there, as does what
/// reads it: were it pulled to the first of its places, it would pull with it what its later ops need, and a
/// backward pass would make its next segment again before the last of this one is used. What sums up, or
/// gives memory back, runs as soon as what it reads is there.
std::vector<FusionGroup *> Grouping::order() {
  std::vector<FusionGroup *> sorted, result;
  for (auto &group : groups)
    sorted.push_back(group.get());
  auto first = [&](FusionGroup *group) {
    unsigned at = ~0u;
    for (Value output : group->outputs)
      at = std::min(at, position[output.getDefiningOp()]);
    return at;
  };
  llvm::stable_sort(sorted, [&](FusionGroup *a, FusionGroup *b) { return first(a) < first(b); });
  llvm::DenseMap<FusionGroup *, unsigned> ready; // the latest place of what it needs, or its own
  auto visit = [&](auto self, FusionGroup *group) -> unsigned {
    if (auto [known, isNew] = ready.try_emplace(group, first(group)); !isNew)
      return known->second;
    unsigned last = sumsUp(group) || givesBack(group) ? 0 : first(group);
    auto require = [&](auto require, Operation *op) -> void {
      for (Value operand : op->getOperands()) {
        Operation *def = operand.getDefiningOp();
        if (!def || !position.count(def))
          continue;
        if (FusionGroup *other = groupOf.lookup(def)) {
          if (other != group)
            last = std::max(last, self(self, other));
        } else if (isMovement(def)) {
          require(require, def);
        }
      }
    };
    for (Operation *op : group->ops)
      require(require, op);
    result.push_back(group);
    return ready[group] = last;
  };
  for (FusionGroup *group : sorted)
    visit(visit, group);
  // What a kernel needs is ready before it, or with it and stands before it already.
  llvm::stable_sort(result, [&](FusionGroup *a, FusionGroup *b) { return ready.at(a) < ready.at(b); });
  return result;
}
