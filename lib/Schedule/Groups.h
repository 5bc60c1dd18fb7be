//===- Groups.h - which ops one kernel computes -----------------------------===//
//
// Fusion as a plan over the ops of a function, made backwards: an op joins the group of its users where one
// kernel can compute both, so that its result stays in registers; otherwise it begins a group. Movements
// belong to no group: they are views, or copied into the groups that read through them.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_GROUPS_H
#define COLOSSAL_SCHEDULE_GROUPS_H

#include "GroupOrder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

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
/// A contraction, or a convolution that prepareConvolutions made one.
bool isContraction(mlir::Operation *op);
/// The padding of such a convolution's input: room that its producer may write into.
bool isPadding(mlir::Operation *op);
/// Whether the library can do `ops` (in order) on the result of a convolution.
bool fitsConvolution(mlir::Operation *convolution, llvm::ArrayRef<mlir::Operation *> ops);

struct Group {
  unsigned number = 0;                             ///< in the order in which they were begun
  llvm::SmallVector<mlir::Operation *> ops;        ///< program order
  llvm::SmallVector<mlir::Value> outputs;          ///< values that others read from memory
  mlir::Operation *routine = nullptr;              ///< its root, with the other ops as its epilogue
  llvm::SmallVector<int64_t> shape;                ///< that the loops run over
  llvm::SmallVector<bool> reduced;                 ///< per dimension, if it has row ops
  llvm::DenseMap<mlir::Operation *, bool> aligned; ///< read at the loops' own index, with broadcasting
};

class Grouping {
public:
  /// Groups the ops of `ops` (program order). `fuse` false: every op for itself.
  explicit Grouping(llvm::ArrayRef<mlir::Operation *> ops, bool fuse = true);
  /// Groups in an order in which they can run.
  std::vector<Group *> order();

private:
  struct Use {
    mlir::Operation *user;
    bool direct; ///< not through a movement that changes more than unit dimensions
  };
  llvm::SmallVector<Use> usesOf(mlir::Value value);
  void place(mlir::Operation *op);
  bool joinPoint(mlir::Operation *op, Group *group, llvm::ArrayRef<Use> uses, bool output);
  bool joinRow(mlir::Operation *op, Group *group, llvm::ArrayRef<Use> uses);
  bool alignedIn(Group *group, llvm::ArrayRef<Use> uses, mlir::Value value);
  /// The groups made so far that read a result of `op`, through movements as well.
  llvm::SmallSetVector<Group *, 4> readersOf(mlir::Operation *op);
  Group *begin(mlir::Operation *op);

  llvm::SmallVector<mlir::Operation *> all;
  bool fuse;
  std::vector<std::unique_ptr<Group>> groups;
  llvm::DenseMap<mlir::Operation *, Group *> groupOf;
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  GroupOrder running; ///< by the groups' numbers
};

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_GROUPS_H
