//===- FunctionState.h - what both contexts of a function know --------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_FUNCTIONSTATE_H
#define COLOSSAL_LIB_SCHEDULE_FUNCTIONSTATE_H

#include "Shared.h"
#include "colossal/Schedule/LoweringContext.h"
#include "llvm/ADT/DenseSet.h"

namespace colossal::schedule {

struct FunctionState {
  FunctionState(mlir::func::FuncOp function, Shared &shared)
      : function(function), shared(shared), orders(shared.target.createMemoryOrders()),
        run(*this, program, /*loads=*/false), load(*this, shared.load, /*loads=*/true) {}

  mlir::func::FuncOp function;
  Shared &shared;
  std::unique_ptr<codegen::MemoryOrders> orders;
  Program program;
  LoweringContext run, load;
  llvm::DenseMap<mlir::Value, bool> loadable;
  llvm::DenseMap<mlir::Value, std::string> keys;
  llvm::DenseSet<mlir::Value> returned; ///< values already bound to an output
  llvm::DenseMap<mlir::Operation *, mlir::Value> sliceStarts;
  llvm::DenseMap<mlir::Value, View> insides; ///< values that are parts of padded tensors
  llvm::DenseSet<mlir::Operation *> done;    ///< ops whose instructions have been made
};

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_FUNCTIONSTATE_H
