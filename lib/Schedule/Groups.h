//===- Groups.h - which ops one kernel computes -----------------------------===//
//
// Fusion as a plan over the ops of a function, made backwards: an op joins the group of its users where one
// kernel can compute both, so that its result stays in registers; otherwise it begins a group. Movements
// belong to no group: they are views, or copied into the groups that read through them. What one kernel can
// compute, ops say of themselves (KernelOpInterface) and the target of its kernels.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_GROUPS_H
#define COLOSSAL_LIB_SCHEDULE_GROUPS_H

#include "GroupOrder.h"

#include "colossal/Codegen/Target.h"
#include "colossal/Schedule/FusionGroup.h"
#include "dialects/Colossal/KernelKind.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"

#include <memory>
#include <vector>

namespace colossal::schedule {

enum class OpClass {
  Point,   ///< element by element, each pulled where it is used
  Row,     ///< statistics of rows
  Loop,    ///< element by element, each with a loop of its own: reads its operands from memory
  Routine, ///< a kernel or call of its own: contraction, attention, convolution, collective
  None     ///< movements, constants, parameters, index arithmetic
};
OpClass classify(mlir::Operation *op);
/// Whether all ops of `group` that read `value` do so at the element that they make, not through a movement:
/// then what the group gives can be written over it.
bool isReadInPlace(const FusionGroup &group, mlir::Value value);
/// Whether the kernel of `group` has read what it reads at a place before it writes there, so that one of its
/// outputs may lie over an input: where it has one, also if it goes row by row (what statistics are made of
/// is read before the row is written, and the same member of a team meets the same elements in each loop over
/// it), or several of one shape that are computed together.
bool mayTakeInput(const FusionGroup &group);

class Grouping {
public:
  /// Groups the ops of `ops` (program order). `fuse` false: every op for itself. `isStored`: of ops whose
  /// results lie in memory, though kernels of others could compute them.
  Grouping(llvm::ArrayRef<mlir::Operation *> ops, const codegen::Target &target, bool fuse = true,
           llvm::function_ref<bool(mlir::Operation *)> isStored = nullptr);
  /// Groups in an order in which they can run.
  std::vector<FusionGroup *> order();

private:
  struct Use {
    mlir::Operation *user;   ///< null: it reads from memory
    bool direct;             ///< not through a movement that changes more than unit dimensions
    mlir::Operation *reader; ///< `user`, or what reads from memory
  };
  llvm::SmallVector<Use> usesOf(mlir::Value value);
  void place(mlir::Operation *op, llvm::function_ref<bool(mlir::Operation *)> isStored);
  bool isRatherEpilogue(mlir::Operation *op, FusionGroup *group);
  bool isOfOtherRows(mlir::Operation *op, FusionGroup *group);
  void findStatistics();
  mlir::Operation *findEpilogueOf(mlir::Operation *op);
  bool addsToRoutine(mlir::Operation *op, FusionGroup *group);
  bool joinPoint(mlir::Operation *op, FusionGroup *group, llvm::ArrayRef<Use> uses, bool output);
  /// An op of several results.
  bool joinOfSeveral(mlir::Operation *op);
  /// The op as the routine of the group of its users, which become its epilogue.
  bool joinAsRoutine(mlir::Operation *op, FusionGroup *group, llvm::ArrayRef<Use> uses);
  bool sumsUp(FusionGroup *group) const;
  bool givesBack(FusionGroup *group) const;
  bool addsToSummand(mlir::Operation *op, FusionGroup *group) const;
  bool keepsOperandsLonger(mlir::Operation *op, FusionGroup *group);
  bool runsAhead(mlir::Operation *op, FusionGroup *group);
  bool isOfOtherInputs(mlir::Operation *op, FusionGroup *group) const;
  void addLargeInputs(mlir::Operation *op, int64_t least,
                      llvm::SmallSetVector<mlir::Value, 16> &inputs) const;
  bool joinRow(mlir::Operation *op, FusionGroup *group, llvm::ArrayRef<Use> uses);
  bool alignedIn(FusionGroup *group, llvm::ArrayRef<Use> uses, mlir::Value value);
  /// The groups made so far that read a result of `op`, through movements as well.
  llvm::SmallSetVector<FusionGroup *, 4> readersOf(mlir::Operation *op);
  void add(mlir::Operation *op, FusionGroup *group, bool aligned);
  FusionGroup *begin(mlir::Operation *op);

  llvm::SmallVector<mlir::Operation *> all;
  const codegen::Target &target;
  bool fuse;
  std::vector<std::unique_ptr<FusionGroup>> groups;
  llvm::DenseMap<mlir::Operation *, FusionGroup *> groupOf;
  llvm::DenseMap<FusionGroup *, unsigned> sizes; ///< of kernels, in ops of few operands
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  std::vector<OpClass> classes; ///< by position: interfaces are asked once
  OpClass classOf(mlir::Operation *op) const {
    auto known = position.find(op);
    return known == position.end() ? classify(op) : classes[known->second];
  }
  bool readsFromMemory(mlir::OpOperand &use) const;
  GroupOrder running; ///< by the groups' numbers
  /// Of each op by position, once somebody asks: the rows (`rowSpaces`, by number) of whose statistics it is
  /// computed, through movements and ops that make each element for itself.
  std::vector<llvm::SmallBitVector> statistics;
  std::vector<RowSpace> rowSpaces;
};

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_GROUPS_H
