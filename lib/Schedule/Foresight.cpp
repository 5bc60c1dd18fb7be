//===- Foresight.cpp - what kernels a function will be, before ranks split it -===//
#include "colossal/Schedule/Foresight.h"

#include "Groups.h"
#include "colossal/Schedule/Views.h"

#include "dialects/Colossal/Colossal.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;
using colossal::layout::StorageLives;

namespace {
class Foreseer {
public:
  Foreseer(func::FuncOp function, const codegen::Target &target,
           llvm::function_ref<bool(Operation *)> isRepeated)
      : function(function), target(target) {
    for (Operation &op : function.front().without_terminator())
      if (isRepeated(&op))
        repeated.insert(&op);
  }
  StorageLives run();

private:
  /// Gives the kernels of `ops` the next steps.
  void group(ArrayRef<Operation *> ops);
  void placeOthers();
  /// All that reads `value`, also through movements; what returns it, too.
  template <typename Visit>
  void visitReaders(Value value, Visit visit) const {
    for (Operation *user : value.getUsers())
      if (isMovement(user))
        visitReaders(user->getResult(0), visit);
      else
        visit(user);
  }
  StorageLives::Life findLife(Value value) const;
  void takePlaces();
  bool isTaken(Value value, const FusionGroup &group, Value output) const;

  func::FuncOp function;
  const codegen::Target &target;
  llvm::DenseSet<Operation *> repeated;
  std::vector<std::unique_ptr<Grouping>> groupings;
  std::vector<FusionGroup *> kernels; ///< by step
  int64_t loopBegin = 0;              ///< step of the first that is repeated
  StorageLives result;
};
} // namespace

void Foreseer::group(ArrayRef<Operation *> ops) {
  groupings.push_back(std::make_unique<Grouping>(ops, target));
  for (FusionGroup *kernel : groupings.back()->order()) {
    for (Operation *op : kernel->ops)
      result.steps[op] = static_cast<int64_t>(kernels.size());
    kernels.push_back(kernel);
  }
}

/// Movements and sources run with the first that reads them.
void Foreseer::placeOthers() {
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    if (result.steps.contains(&op))
      continue;
    int64_t first = static_cast<int64_t>(kernels.size());
    for (Operation *user : op.getUsers())
      if (auto known = result.steps.find(user); known != result.steps.end())
        first = std::min(first, known->second);
    result.steps[&op] = first;
  }
}

StorageLives::Life Foreseer::findLife(Value value) const {
  Operation *maker = value.getDefiningOp();
  const auto steps = static_cast<int64_t>(kernels.size());
  StorageLives::Life life{result.steps.lookup(maker), result.steps.lookup(maker) + 1};
  visitReaders(value, [&](Operation *reader) {
    auto known = result.steps.find(reader);
    life.end = std::max(life.end, known == result.steps.end() ? steps : known->second + 1);
    if (repeated.contains(reader) && !repeated.contains(maker))
      life.end = std::max(life.end, result.loopEnd);
    if (!repeated.contains(reader) && repeated.contains(maker))
      life.begin = std::min(life.begin, loopBegin);
  });
  return life;
}

/// Whether the kernel writes its output over `value`, which nobody reads any more
/// (LoweringContext::takenInput).
bool Foreseer::isTaken(Value value, const FusionGroup &group, Value output) const {
  Operation *maker = value.getDefiningOp();
  if (!maker || llvm::is_contained(group.ops, maker) || isMovement(maker) || isSource(maker) ||
      value.getType() != output.getType() || repeated.contains(maker) != repeated.contains(group.ops.front()))
    return false;
  bool isLast = true;
  const int64_t step = result.steps.lookup(group.ops.front());
  visitReaders(value, [&](Operation *reader) {
    auto known = result.steps.find(reader);
    isLast &= known != result.steps.end() && known->second <= step;
  });
  return isLast && isReadInPlace(group, value);
}

void Foreseer::takePlaces() {
  for (auto [step, kernel] : llvm::enumerate(kernels)) {
    const bool addsToSummand = kindOf(*kernel) == GroupKind::Tiles && kernel->ops.size() > 1;
    if (!mayTakeInput(*kernel) ||
        (kernel->routine && !addsToSummand && target.epilogueOf(kernel->routine) != codegen::Epilogue::Any))
      continue;
    auto isReturned = [](Value output) {
      return llvm::any_of(output.getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
    };
    for (Operation *op : kernel->ops) {
      Value output;
      auto taken = llvm::find_if(op->getOperands(), [&](Value operand) {
        return op != kernel->routine && llvm::any_of(kernel->outputs, [&](Value each) {
                 output = each;
                 return !isReturned(each) && isTaken(operand, *kernel, each);
               });
      });
      if (taken == op->operand_end())
        continue;
      StorageLives::Life &life = result.lives[*taken];
      life.end = static_cast<int64_t>(step);
      // A product is added to what turns before have left there.
      Operation *maker = (*taken).getDefiningOp();
      auto ruled = dyn_cast<KernelOpInterface>(maker);
      if (ruled && ruled.getKernelKind() == KernelKind::Contraction &&
          result.lives[output].begin < life.begin)
        life.isStored = false;
      break;
    }
  }
}

StorageLives Foreseer::run() {
  // What turns need, the turns, and all else.
  SmallVector<Operation *> before, turns, behind;
  llvm::DenseSet<Operation *> needed;
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    const bool isNeeded = llvm::any_of(
        op.getUsers(), [&](Operation *user) { return repeated.contains(user) || needed.contains(user); });
    if (repeated.contains(&op)) {
      turns.push_back(&op);
    } else if (isNeeded) {
      needed.insert(&op);
      before.push_back(&op);
    } else {
      behind.push_back(&op);
    }
  }
  for (auto *ops : {&before, &turns, &behind})
    std::reverse(ops->begin(), ops->end());
  group(before);
  loopBegin = static_cast<int64_t>(kernels.size());
  group(turns);
  result.loopEnd = static_cast<int64_t>(kernels.size());
  group(behind);
  placeOthers();
  llvm::DenseSet<Value> stored;
  for (const FusionGroup *kernel : kernels)
    stored.insert(kernel->outputs.begin(), kernel->outputs.end());
  for (Operation &op : function.front().without_terminator())
    for (Value value : op.getResults())
      if (isa<RankedTensorType>(value.getType())) {
        StorageLives::Life life = findLife(value);
        life.isStored = !isMovement(&op) && (classify(&op) == OpClass::None || stored.contains(value));
        result.lives[value] = life;
      }
  takePlaces();
  return std::move(result);
}

StorageLives schedule::foreseeStorage(func::FuncOp function, const codegen::Target &target,
                                      llvm::function_ref<bool(Operation *)> isRepeated) {
  return Foreseer(function, target, isRepeated).run();
}
