//===- FunctionState.h - what both contexts of a function know --------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_FUNCTIONSTATE_H
#define COLOSSAL_LIB_SCHEDULE_FUNCTIONSTATE_H

#include "Shared.h"
#include "colossal/Schedule/LoweringContext.h"
#include "llvm/ADT/DenseSet.h"

namespace colossal::schedule {

struct FunctionState {
  FunctionState(mlir::func::FuncOp function, Shared &shared)
      : function(function), shared(shared),
        mesh(shared.module->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName)),
        orders(shared.target.createMemoryOrders()), run(*this, program, /*loads=*/false),
        load(*this, shared.load, /*loads=*/true) {}

  mlir::func::FuncOp function;
  Shared &shared;
  dist::MeshAttr mesh; ///< of the module; null where it has none
  std::unique_ptr<codegen::MemoryOrders> orders;
  Program program;
  LoweringContext run, load;
  llvm::DenseMap<mlir::Value, bool> loadable;
  llvm::DenseMap<mlir::Value, std::string> keys;
  /// Values before the run, by name.
  llvm::DenseMap<mlir::StringAttr, mlir::BlockArgument> stateArguments;
  /// By op: the new values of states that it makes, or that are only moved afterwards, and their names.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<std::pair<mlir::Value, mlir::StringAttr>, 1>> statesOf;
  llvm::DenseSet<mlir::Value> returned; ///< values already bound to an output
  llvm::DenseMap<mlir::Operation *, mlir::Value> sliceStarts;
  llvm::DenseMap<mlir::Value, View> insides; ///< values that are parts of padded tensors
  llvm::DenseSet<mlir::Operation *> done;    ///< ops whose instructions have been made

  /// What differs from turn to turn of the loop over microbatches: ops, and arguments of which each turn
  /// reads its part. All else is computed once, before the loop.
  llvm::DenseSet<mlir::Operation *> turnOps;
  llvm::DenseSet<mlir::Value> turnArguments;
  bool isInLoop = false; ///< instructions made now are the loop's
  bool isBehind = false; ///< instructions made now stand behind the loop
  /// Sums that turns add up: additions of what a turn makes to what is there (the second operand), by an
  /// argument that the function did not have. What reads them, and what depends on that, stands behind the
  /// loop.
  llvm::DenseMap<mlir::Operation *, mlir::BlockArgument> accumulations;
  llvm::DenseSet<mlir::Operation *> opsBehind;
  unsigned hoisting = 0; ///< but for these: what a turn needs and all share
  bool isOfTurn(mlir::Value value) const {
    mlir::Operation *op = value.getDefiningOp();
    return op ? turnOps.contains(op) && !accumulations.contains(op) : turnArguments.contains(value);
  }
};

/// Where the turns' parts of an input or output lie: each is `runs` runs of `length` elements, and between
/// the runs of one turn lie those of the others.
struct TurnParts {
  int64_t runs = 1, length = 1;
};
/// Of a tensor of which each turn has a part of `type`; none where all turns have the same.
std::optional<TurnParts> findTurnParts(mlir::RankedTensorType type, dist::ShardingAttr sharding,
                                       dist::MeshAttr mesh);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_FUNCTIONSTATE_H
